"""Commands that compare, check, and look at many recordings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from roslens.cli.app import (
    JUDGE,
    JsonFile,
    JsonSwitch,
    MarkdownSwitch,
    PlotFile,
    SchedulerOption,
    Threshold,
    WorkersOption,
    verb,
)
from roslens.recording import RunFailedError, UsageError
from roslens.recording.terminal import Console


@verb(JUDGE, "compare BASE NEW [OPTIONS]", "compare PATH --by FACTOR [OPTIONS]")
def compare(
    base: Path,
    new: Path | None = None,
    /,
    *,
    metric: tuple[str, ...] = (),
    by: str | None = None,
    across: tuple[str, ...] = (),
    ignore: tuple[str, ...] = (),
    across_machines: Annotated[bool, Parameter(negative="")] = False,
    threshold: Threshold = "5%",
    json_file: JsonFile = None,
    plot: PlotFile = None,
    markdown: MarkdownSwitch = False,
) -> int:
    """Compare two sets of recordings and say what got slower.

    Exit code: 0 no regression, 1 a regression, 3 not enough evidence, or other machines.

    Parameters
    ----------
    base
        Recordings to compare with, or the metrics.json of a report.
    new
        Recordings to be judged, or the metrics.json of a report.
    metric
        Metric to compare. May be repeated. Default: latency_p50, latency_p99, loss and cpu.
    by
        Compare the levels of this factor with each other, within one path and its blocks.
    across
        Factor that differs between the sides, and is not matched on. May be repeated.
    ignore
        Factor whose levels are taken together on each side. May be repeated.
    across_machines
        Compare even where the two sides were recorded on different machines.
    """
    from roslens.compare import run_compare  # noqa: PLC0415

    return run_compare(
        base,
        new,
        metric,
        threshold,
        by=by,
        across=across,
        ignore=ignore,
        across_machines=across_machines,
        json_file=json_file,
        plot_file=plot,
        console=Console(),
        markdown=markdown,
    )


@verb(JUDGE, "check BUDGETS PATH... [OPTIONS]")
def check(
    budgets: Path,
    /,
    *paths: Annotated[Path, Parameter(name="PATH")],
    json_file: JsonFile = None,
    markdown: MarkdownSwitch = False,
) -> int:
    """Check recordings against absolute budgets.

    Exit code: 0 all budgets are kept, 1 one is exceeded, 3 not enough evidence.

    Parameters
    ----------
    budgets
        A YAML file with budgets such as 'latency_p99 < 50 ms'.
    paths
        Recordings, folders that contain recordings, or one metrics.json of a report.
    """
    from roslens.check import run_check  # noqa: PLC0415

    if not paths:
        raise UsageError("no recording given; give one or more folders, or a metrics.json")
    return run_check(budgets, paths, json_file=json_file, console=Console(), markdown=markdown)


SuiteOption = Annotated[
    tuple[str, ...], Parameter(help="Only recordings of this suite. May be repeated.")
]
SinceOption = Annotated[
    str | None,
    Parameter(
        help="Only recordings started since a date such as 2026-11-01, or 30d for 30 days ago."
    ),
]
CatalogFile = Annotated[
    Path | None,
    Parameter(name="--file", help="File of the catalog. Default: catalog.parquet in that folder."),
]


@verb(JUDGE, "trend FOLDER [OPTIONS]")
def trend(
    where: Annotated[str, Parameter(name="FOLDER")],
    /,
    *,
    metric: tuple[str, ...] = (),
    suite: SuiteOption = (),
    since: SinceOption = None,
    threshold: Threshold = "5%",
    false_alarms: str = "1%",
    json_file: JsonFile = None,
    plot: PlotFile = None,
    markdown: MarkdownSwitch = False,
    file: CatalogFile = None,
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
) -> int:
    """Find when a metric changed over a series of campaigns; no baseline is needed.

    Exit code: 0 no regression, 1 a regression that lasts, 3 a series is too short.

    Parameters
    ----------
    where
        A folder of campaigns, or an address such as s3://bucket/nightly.
    metric
        Metric to look at. May be repeated. Default: latency_p99.
    false_alarms
        Probability of an alarm although nothing has changed.
    """
    from roslens.fleet import show  # noqa: PLC0415
    from roslens.fleet.cluster import Workers  # noqa: PLC0415

    console = Console(width=None if sys.stdout.isatty() else 150)
    found, _ = show.updated(
        where, file, collect=True, workers=Workers(workers, scheduler), console=console
    )
    return show.run_trend(
        found.select(suite=suite or None, since=since),
        metric or ["latency_p99"],
        threshold=threshold,
        false_alarms=false_alarms,
        json_file=json_file,
        plot_file=plot,
        console=console,
        markdown=markdown,
    )


@verb(JUDGE, "catalog FOLDER [OPTIONS]")
def catalog(
    where: Annotated[str, Parameter(name="FOLDER")],
    /,
    *,
    suite: SuiteOption = (),
    distro: tuple[str, ...] = (),
    since: SinceOption = None,
    until: str | None = None,
    as_json: JsonSwitch = False,
    file: CatalogFile = None,
    collect: bool = False,
    dataset: Path | None = None,
    table: tuple[str, ...] = (),
    workers: WorkersOption = None,
    scheduler: SchedulerOption = None,
) -> None:
    """Keep a catalog of many recordings: manifest, health and key metrics of each.

    Parameters
    ----------
    where
        A folder of recordings, or an address such as s3://bucket/nightly.
    distro
        Only recordings of this ROS distribution. May be repeated.
    until
        Only recordings started before that, in the same forms.
    as_json
        Print one JSON object per recording and line.
    collect
        First make the tables that are missing.
    dataset
        Also write the tables of these recordings to this folder, as one dataset with suite=,
        campaign= and recording= folders.
    table
        Write only this table to --dataset. May be repeated.
    """
    from roslens.fleet import show  # noqa: PLC0415
    from roslens.fleet.cluster import Workers  # noqa: PLC0415

    if table and dataset is None:
        raise UsageError("--table goes with --dataset")
    console = Console(stderr=as_json, width=None if sys.stdout.isatty() else 130)
    found, changes = show.updated(
        where, file, collect=collect, workers=Workers(workers, scheduler), console=console
    )
    chosen = found.select(suite=suite or None, distro=distro or None, since=since, until=until)
    written = None if dataset is None else chosen.write_dataset(dataset, table or None)
    if as_json:
        show.print_json(chosen)
    else:
        show.show_catalog(found, changes, chosen, console, written)
    if collect and (failed := chosen.rows["problem"].count()):
        raise RunFailedError(f"{failed:,} of {len(chosen):,} recordings have no tables; see above")
