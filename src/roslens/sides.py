"""Load what is compared or checked: estimates of recordings, or of a metrics.json."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from roslens.analysis.estimate import Cell, Estimate
from roslens.analysis.measures.loss import that_may_bias
from roslens.analysis.measures.samples import TopicGroup, run_samples
from roslens.analysis.metrics import METRICS_NAME, read_metrics
from roslens.analysis.runs import BARE, FOLDER, LeaveOut, Run, cells_of
from roslens.analysis.statistics.factorial import Observation
from roslens.analysis.verdicts.sides import SPLIT, Key, RunsByCause, Side, key_of
from roslens.collectors.topics import INTERNAL
from roslens.opening import open_as
from roslens.paths import resolve
from roslens.recording import UsageError
from roslens.recording.arrays import Floats, need_numpy
from roslens.recording.manifest import Level
from roslens.runs import Runs
from roslens.tracing.archive_names import SUFFIXES

if TYPE_CHECKING:
    from roslens.analysis.latency.report import LatencyReport


def load_side(
    paths: Path | Sequence[Path] | Runs,
    metrics: Sequence[str] = (),
    topics: Sequence[str] = (),
    *,
    collect: bool = True,
    ignore: Sequence[str] = (),
    by: str | None = None,
    factors: Path | None = None,
) -> Side:
    """Load estimates from a metrics.json (or a folder that holds one), or from recordings.

    Parameters
    ----------
    paths
        One metrics.json, or recordings and folders that hold some; or open recordings.
    metrics
        The metrics that will be asked for (`roslens.asked_metrics`).
    topics
        As in a latency report.
    collect
        Whether to make tables of recordings that are missing or out of date.
    ignore
        Factors that are not part of a cell: runs that differ only in these share a cell.
    by
        The factor to compare, which may be the folders of bare traces.
    factors
        A file of factors (`roslens.factors`).

    Raises
    ------
    UsageError
        There is nothing to read, no such topic, a metrics.json is given with other paths, or it has
        estimates for each level of an ignored factor.
    """
    if isinstance(paths, Runs):
        places = [recording.path.resolve() for recording in paths.recordings]
        return _side_of(paths, os.path.commonpath(places), metrics, topics, ignore, by=by)
    given = [resolve(p) for p in ([paths] if isinstance(paths, Path) else paths)]
    stored = [
        p
        for p in given
        if (p.is_file() and not p.name.endswith(SUFFIXES)) or (p / METRICS_NAME).is_file()
    ]
    if stored and len(given) > 1:
        raise UsageError(f"{stored[0]}: a metrics.json stands alone; give it or recordings")
    path = given[0]
    if stored:
        stored_metrics = read_metrics(path)
        cells: list[Cell] = [entry["cell"] for entry in stored_metrics.recordings]
        counting = [entry for entry in stored_metrics.recordings if entry["counts"]]
        return Side(
            (path if path.is_dir() else path.parent).resolve().name,
            application_only(_without_factors(stored_metrics.estimates, ignore, path)),
            [without_ignored(entry["cell"], ignore) for entry in counting],
            len(stored_metrics.recordings),
            len(stored_metrics.recordings) - len(counting),
            sum(entry["discarded_events"] or 0 for entry in stored_metrics.recordings),
            frozenset(name for entry in stored_metrics.recordings if (name := entry.get("suite"))),
            [part for entry in stored_metrics.recordings if (part := entry.get("excerpt"))],
            _levels(cells, ignore),
            [stored_metrics.environment_of(entry) for entry in counting],
            {
                entry["run"]: entry["disturbances"]
                for entry in stored_metrics.recordings
                if entry.get("disturbances")
            },
            failed=[
                without_ignored(entry["cell"], ignore)
                for entry in stored_metrics.recordings
                if not entry["counts"]
            ],
        )
    opened = open_as(Runs, given, factors=factors, collect=collect)
    return _side_of(opened, path.resolve(), metrics, topics, ignore, by=by)


def _side_of(
    opened: Runs,
    path: str | Path,
    metrics: Sequence[str],
    topics: Sequence[str],
    ignore: Sequence[str],
    *,
    by: str | None,
    leave_out: Sequence[LeaveOut] = (),
) -> Side:
    if topics:
        opened.check_topics(topics)
    pooled = _with_cells(
        opened, {run.name: without_ignored(run.cell, ignore, by) for run in opened.runs}
    )
    report, estimates = measured(pooled, metrics, topics, leave_out)
    disturbed = {run.name: run.disturbances for run in report.tables.runs if run.disturbances}
    rest = partial(_side_of, opened, path, metrics, topics, ignore, by=by, leave_out=["disturbed"])
    counting = [run for members in cells_of(report.counting).values() for run in members]
    return Side(
        Path(path).name,
        estimates if topics else application_only(estimates),
        [run.cell for run in counting],
        *report.run_counts,
        that_may_bias(report.tables.tracer_loss),
        frozenset(run.suite for run in report.tables.runs if run.suite),
        [run.excerpt for run in report.tables.runs if run.excerpt],
        _levels([run.cell for run in opened.runs], ignore),
        [run.environment for run in counting],
        disturbed,
        by_cause=lambda cells: _by_cause(report, cells),
        undisturbed=rest if disturbed else None,
        failed=[run.cell for run in report.left_out],
    )


def _by_cause(report: LatencyReport, cells: Sequence[Cell]) -> list[RunsByCause | None]:
    from roslens.analysis.path.path import Paths, parts_of_quantile  # noqa: PLC0415

    wanted = set(map(key_of, cells))
    pending = set(wanted)

    def key_in(run: Run, group: TopicGroup) -> Key:
        key = key_of(group.cell(run))
        # The other side may have the work topic under its name.
        named = key_of({**run.cell, "topic": str(run.work_topic)})
        return named if group.topic is None and key not in wanted else key

    by_run: dict[str, list[tuple[Key, frozenset[str], Floats]]] = {}
    for group in report.groups:
        key = {run.name: key_in(run, group) for run in report.counting}
        runs = [run for run in report.counting if key[run.name] in pending]
        for samples in run_samples(report.messages, runs, group) if runs else ():
            if samples.delivered_ns.size:
                name = samples.run.name
                entry = (key[name], group.topics_of_run[name], samples.delivered_ns)
                by_run.setdefault(name, []).append(entry)
                pending.discard(key[name])
    by_cell: dict[Key, RunsByCause] = {}
    blocks = {run.name: run.block for run in report.counting}
    # The paths of a run serve all its topics; one run at a time limits the memory.
    for name in (run.name for run in report.counting if run.name in by_run):
        paths = Paths.of_run(report.tables, name)
        for cell, topics, delivered_ns in by_run[name]:
            causes = by_cell.setdefault(cell, RunsByCause({metric: [] for metric in SPLIT}, [], []))
            causes.kernel.append(paths.kernel is not None)
            causes.blocks.append(blocks[name])
            for metric, q in SPLIT.items():
                causes.parts[metric].append(parts_of_quantile(paths, topics, delivered_ns, q))
    return [by_cell.get(key_of(cell)) for cell in cells]


def measured(
    opened: Runs,
    metrics: Sequence[str],
    topics: Sequence[str] = (),
    leave_out: Sequence[LeaveOut] = (),
) -> tuple[LatencyReport, list[Estimate]]:
    """Return a latency report, and its estimates along with any of `metrics` that it lacks.

    Parameters
    ----------
    metrics
        The metrics that will be asked for (`roslens.asked_metrics`).
    topics, leave_out
        As in a latency report.

    Raises
    ------
    UsageError
        There is no such topic.
    """
    need_numpy()
    # This import loads plotting code, which a metrics.json does not need.
    from roslens.analysis.latency.report import LatencyParameters, LatencyReport  # noqa: PLC0415
    from roslens.asked_metrics import requested_estimates  # noqa: PLC0415

    places = [str(recording.path) for recording in opened.recordings]
    parameters = LatencyParameters.checked(
        {"recordings": places, "topics": list(topics), "leave_out": list(leave_out)}
    )
    report = LatencyReport(opened, parameters)
    return report, [*report.estimates, *requested_estimates(report, metrics)]


def estimates_of_run(
    path: Path, metrics: Sequence[str], topics: Sequence[str] = ()
) -> list[Estimate]:
    """Return estimates of one run's work topic, else of each topic, without the run's factors.

    Each estimate has a value although one run gives no interval.
    """
    opened = open_as(Runs, [path])
    run_cell = opened.runs[0].cell
    estimates = measured(opened, metrics, topics)[1]
    estimates = estimates if topics else application_only(estimates)
    run_metrics = {e.metric for e in estimates if e.cell == run_cell}
    return [
        replace(e, cell=without_ignored(e.cell, [*run_cell]))
        for e in estimates
        if e.cell == run_cell or e.metric not in run_metrics
    ]


def _with_cells(opened: Runs, cells: Mapping[str, Cell]) -> Runs:
    """Return the same recordings with their runs assigned to other cells."""
    runs = [replace(run, cell=cells[run.name]) for run in opened.runs]
    return opened.with_runs(runs)


def values_of_runs(
    path: Path,
    metrics: Sequence[str] = (),
    ignore: Sequence[str] = (),
    by: str | None = None,
    factors: Path | None = None,
) -> dict[str, list[Observation]]:
    """Return one value per run by metric, with its cell and block; empty for a metrics.json.

    Each run is measured as a cell of its own, so that every metric has its value.
    """
    given = [resolve(path)]
    if given[0].is_file() or (given[0] / METRICS_NAME).is_file():
        return {}
    opened = open_as(Runs, given, factors=factors)
    separate_runs = _with_cells(opened, {run.name: {BARE: run.name} for run in opened.runs})
    runs = {run.name: run for run in opened.runs}
    observations: dict[str, list[Observation]] = {}
    for e in measured(separate_runs, metrics)[1]:
        if e.value is not None and math.isfinite(e.value):
            more = {name: level for name, level in e.cell.items() if name != BARE}
            run = runs[str(e.cell[BARE])]
            cell = {**without_ignored(run.cell, ignore, by), **more}
            observations.setdefault(e.metric, []).append(Observation(cell, e.value, run.block))
    return observations


def without_ignored(cell: Cell, ignore: Sequence[str], by: str | None = FOLDER) -> Cell:
    """Remove ignored factors and names of bare traces, which are the runs of a side."""
    dropped = {*ignore, BARE} | ({FOLDER} - {by})
    return {name: level for name, level in cell.items() if name not in dropped}


def application_only(estimates: list[Estimate]) -> list[Estimate]:
    """Drop the topics that every node has, unless no other topic was heard.

    These topics carry too few messages to judge, so they must not decide a comparison.
    """
    application = [e for e in estimates if e.cell.get("topic") not in INTERNAL]
    return application if any(e.metric.startswith("latency") for e in application) else estimates


def _levels(cells: Sequence[Cell], names: Sequence[str]) -> dict[str, list[Level]]:
    return {n: list(dict.fromkeys(cell[n] for cell in cells if n in cell)) for n in names}


def _without_factors(
    estimates: Sequence[Estimate], ignore: Sequence[str], path: Path
) -> list[Estimate]:
    """Remove factors from estimates; refuse if estimates would have to be pooled."""
    reduced = [replace(e, cell=without_ignored(e.cell, ignore)) for e in estimates]
    keys = [(e.metric, tuple(sorted(e.cell.items()))) for e in reduced]
    if len(set(keys)) < len(keys):
        raise UsageError(
            f"{path}: a metrics.json has an estimate for each level of {', '.join(ignore)}; to "
            "take these together, give the recordings"
            if ignore
            else f"{path}: two estimates of a metric are of the same cell; make the report again"
        )
    return reduced
