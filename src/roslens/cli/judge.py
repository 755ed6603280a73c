"""Commands that compare, check, and look at many recordings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter, validators

from roslens.cli.app import (
    JUDGE,
    FactorsFile,
    JsonFile,
    JsonSwitch,
    MarkdownSwitch,
    OutputOption,
    PlotFile,
    SchedulerOption,
    Threshold,
    WorkersOption,
    verb,
)
from roslens.recording import RunFailedError, UsageError
from roslens.recording.terminal import Console

_RACE_THRESHOLD = (
    "Stop when B is known to be worse, better, or no different by more than this. Default: 5%, if "
    "no --precision is given."
)

_RACE_PLOT = "Also draw the interval after each pair to this file (.png, .svg or .pdf)."


@verb(
    JUDGE,
    "compare BASE NEW [OPTIONS]",
    "compare PATH --by FACTOR [OPTIONS]",
    example="compare base/ new/ --metric latency_p99",
)
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
    factors: FactorsFile = None,
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
        Metric to compare. May be repeated. Default: latency_p50, latency_p99, loss and cpu. Others
        are latency_mean, any latency_p99.9, pss, rss, memory_slope, response_time_p99, _mean, _max,
        chain_rate, chain_complete, callback_duration_p99, period_p99, timer_jitter_p99,
        executor_busy and time.
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
        factors=factors,
        json_file=json_file,
        plot_file=plot,
        markdown=markdown,
    )


@verb(
    JUDGE,
    "race [OPTIONS] -- COMMAND_A --- COMMAND_B",
    "race --suite A --suite B [OPTIONS]",
    "race --ref A --ref B [--build COMMAND] [OPTIONS] -- COMMAND",
    example="race -- ./old_node --- ./new_node",
)
def race(
    *command: Annotated[str, Parameter(name="COMMAND")],
    suite: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    ref: tuple[str, ...] = (),
    build: str | None = None,
    metric: str | None = None,
    topic: tuple[str, ...] = (),
    threshold: Annotated[str | None, Parameter(help=_RACE_THRESHOLD)] = None,
    precision: str | None = None,
    max_time: Annotated[float, Parameter(validator=validators.Number(gt=0))] = 1800,
    pause: float = 30,
    seed: int | None = None,
    output: OutputOption = None,
    tracer: Literal["lttng", "native", "auto"] = "auto",
    event: tuple[str, ...] = (),
    ros: Literal["auto", "sourced", "embedded", "none"] = "auto",
    trace_rclpy: bool | None = None,
    time_limit: float | None = None,
    json_file: JsonFile = None,
    export_markdown: Path | None = None,
    plot: Annotated[Path | None, Parameter(help=_RACE_PLOT)] = None,
) -> int:
    """Race two commands: run them in pairs until it is known whether B is slower than A.

    The result may be checked after every pair: in 95 % of races, no interval ever excludes the
    true ratio. Ctrl-C ends a race with what is known. Exit code: 0 B is not worse, 1 B is worse,
    3 not enough evidence.

    Parameters
    ----------
    command
        Two commands with '---' between them, or one for two commits. What they print is kept in the
        recordings.
    suite
        Race two suites instead, each with one combination of levels.
    only
        Race only the combination with this FACTOR=LEVEL of the suites. May be repeated.
    ref
        A commit, branch or tag of the git repository; give it twice. COMMAND runs at the top of a
        checkout of each, in a scratch folder that is removed in the end.
    build
        Shell command that builds each checkout before the race, such as 'make -j2'.
    metric
        Metric to compare, as for 'compare', or 'time': the wall time of the commands.
        Default: latency_p50, topic by topic where no work topic is known; time where no message of
        ROS 2 was recorded.
    topic
        Only this topic. May be repeated.
    precision
        Stop when the interval is narrower than this, relative to the ratio.
    max_time
        Seconds after which no pair begins. The first 8 runs are made in any case.
    pause
        Maximum number of seconds that a pair waits while other programs, other tenants or heat
        disturb the machine. 0: pairs do not wait.
    seed
        Seed of the random order within pairs. Default: a new one, which is kept.
    output
        Folder that holds all recordings. Default: data/recordings.
    tracer
        What records the events. auto: LTTng if it is installed, else native.
    event
        User-space events to record. May be repeated. Default: ros2:*.
    ros
        Which ROS 2 the commands run in, as for 'record'.
    trace_rclpy
        Whether Python nodes emit callback and publish events, as for 'record'.
    time_limit
        End a command after this many seconds; its pair then counts as failed.
    export_markdown
        Also write the result to this file, as Markdown.
    """
    from roslens.race import run_race  # noqa: PLC0415
    from roslens.tracing.lttng import TracingOptions  # noqa: PLC0415

    if build is not None and not ref:
        raise UsageError("--build builds commits: give them with --ref A --ref B")
    if suite and ref:
        raise UsageError("give either two suites or two commits")
    if suite and (event or trace_rclpy is not None or time_limit is not None):
        raise UsageError("suites say themselves how they are recorded: see their YAML files")
    events = {"events": event} if event else {}
    return run_race(
        command,
        suite,
        ref,
        build=build,
        only=only,
        metrics=(metric,) if metric else (),
        topics=topic,
        threshold=threshold,
        precision=precision,
        max_time=max_time,
        pause=pause,
        seed=seed,
        options=TracingOptions.checked(tracer=tracer, kernel="off", **events),
        ros=ros,
        trace_rclpy=trace_rclpy is not False,
        time_limit=time_limit,
        output=output,
        json_file=json_file,
        markdown_file=export_markdown,
        plot_file=plot,
    )


@verb(JUDGE, "check BUDGETS PATH... [OPTIONS]", example="check budgets.yaml ~/.ros/tracing")
def check(
    budgets: Path,
    /,
    *paths: Annotated[Path, Parameter(name="PATH")],
    factors: FactorsFile = None,
    json_file: JsonFile = None,
    markdown: MarkdownSwitch = False,
) -> int:
    """Check recordings against absolute budgets.

    Exit code: 0 all budgets are kept, 1 one is exceeded, 3 not enough evidence.

    Parameters
    ----------
    budgets
        A YAML file with budgets such as 'latency_p99 < 50 ms', of the metrics that 'compare' knows.
    paths
        Recordings, folders that contain recordings, or one metrics.json of a report.
    """
    from roslens.check import run_check  # noqa: PLC0415

    if not paths:
        raise UsageError("no recording given; give one or more folders, or a metrics.json")
    return run_check(budgets, paths, factors=factors, json_file=json_file, markdown=markdown)


@verb(
    JUDGE,
    "predict PATH... [OPTIONS]",
    example="predict PATH --executor EventsCBG --threads 2 --set callback=/planner:+2ms",
)
def predict(
    *paths: Annotated[
        Path,
        Parameter(name="PATH", help="Recordings, folders that contain some, or timing models."),
    ],
    executor: str | None = None,
    threads: Annotated[int | None, Parameter(validator=validators.Number(gte=1, lte=1024))] = None,
    cpus: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    change: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
    rate: tuple[str, ...] = (),
    recorded: str | None = None,
    warm_up: Annotated[float | None, Parameter(validator=validators.Number(gte=0))] = None,
    seed: Annotated[int, Parameter(validator=validators.Number(gte=0))] = 1,
    factors: FactorsFile = None,
    model: Path | None = None,
    json_file: JsonFile = None,
) -> int:
    """Predict latency, loss and CPU under another executor, load or number of CPUs.

    The recording is simulated first and must be reproduced: P50 within 10 % and P99 within 20 %.
    Exit code: 0 predicted, 3 not predicted, for the reason given.

    Parameters
    ----------
    executor
        The rclcpp executor to predict: SingleThreaded, MultiThreaded, Events or EventsCBG (or
        single, multi, events, events_cbg). Default: as recorded.
    threads
        Number of its threads. Default: as recorded; for another executor one per CPU, at least 2.
    cpus
        Number of CPUs that callbacks run on. Default: as recorded.
    change
        A changed execution time: callback=NAME:+2ms, :-2ms, :3ms or :1.5x, where NAME is a node,
        a topic, a service or a timer's period. May be repeated.
    rate
        Another rate of a topic, such as /scan=60Hz. May be repeated.
    recorded
        The executor of the recording, if nothing in it names the executor.
    warm_up
        Seconds left out at the start. Default: a tenth of the run, 5 s at most.
    seed
        Seed of the random numbers: the same one gives the same prediction.
    model
        Also write the timing model of the one run to this file, to be edited and given as a PATH.
    """
    from roslens.analysis.what_if.changes import (  # noqa: PLC0415
        Changes,
        DurationChange,
        executor_kind,
        rate_of,
    )
    from roslens.predict import run_predict  # noqa: PLC0415

    if not paths:
        raise UsageError("no recording given; give one or more folders, or a timing model")
    changes = Changes(
        None if executor is None else executor_kind(executor),
        threads,
        cpus,
        [DurationChange.of(text) for text in change],
        [rate_of(text) for text in rate],
    )
    return run_predict(
        paths,
        changes,
        recorded=None if recorded is None else executor_kind(recorded),
        warm_up_s=warm_up,
        seed=seed,
        factors=factors,
        model_file=model,
        json_file=json_file,
    )


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


@verb(JUDGE, "trend FOLDER [OPTIONS]", example="trend nightly/ --metric latency_p50")
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

    Results are cached in the folder's catalog.parquet, so that the next run is quick.

    Exit code: 0 no regression, 1 a regression that lasts, 3 not enough evidence.

    Parameters
    ----------
    where
        A folder of campaigns, or an address such as s3://bucket/nightly.
    metric
        Metric to look at. May be repeated. Default: latency_p99. Others are latency_mean, _p50 and
        _p90, latency_sent_p50, _p90 and _p99, loss, callback_duration_mean, cpu, pss and rss.
    false_alarms
        Probability of an alarm although nothing has changed.
    """
    from roslens.fleet import show  # noqa: PLC0415
    from roslens.fleet.cluster import Workers  # noqa: PLC0415

    opened, _ = show.updated(
        where, file, suite, collect=True, workers=Workers(workers, scheduler), console=Console()
    )
    return show.run_trend(
        opened,
        metric or ["latency_p99"],
        suites=suite,
        since=since,
        threshold=threshold,
        false_alarms=false_alarms,
        json_file=json_file,
        plot_file=plot,
        markdown=markdown,
    )


@verb(JUDGE, "catalog FOLDER [OPTIONS]", example="catalog nightly/ --since 30d")
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
        Only recordings started before this date, in the same forms.
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
    opened, changes = show.updated(
        where, file, suite, collect=collect, workers=Workers(workers, scheduler), console=console
    )
    chosen = opened.select(suite=suite or None, distro=distro or None, since=since, until=until)
    written = None if dataset is None else chosen.write_dataset(dataset, table or None)
    if as_json:
        show.print_json(chosen)
    else:
        show.show_catalog(opened, changes, chosen, console, written)
    if collect and (failed := chosen.rows["problem"].count()):
        raise RunFailedError(f"{failed:,} of {len(chosen):,} recordings have no tables; see above")
