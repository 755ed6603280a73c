"""Measure CPU and memory use of the recorded processes."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.measures.measured_part import MEASURED
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.recording.arrays import np

_PROCESS = ("host", "vpid")

CPU = Metric(
    "cpu",
    f"CPU time of all recorded processes / time, over {MEASURED}; 1 is one core fully used",
    "core",
)
PSS = Metric(
    "pss",
    "mean over time of the proportional set size, all recorded processes added up, over "
    f"{MEASURED}",
    "byte",
)
RSS = Metric(
    "rss",
    "mean over time of the resident set size (not its peak), all recorded processes added up; "
    f"pages they share count in each; over {MEASURED}",
    "byte",
)
STARTUP_CPU = Metric(
    "startup_cpu",
    "CPU time of all recorded processes until the workload was ready (timing.ready_ns): "
    "interpreters, libraries, discovery",
    "ns",
)
METRICS = (CPU, PSS, RSS, STARTUP_CPU)
_USAGE = {
    "run": pl.String,
    "samples": pl.Int64,
    "begin_ns": pl.Int64,
    "end_ns": pl.Int64,
    **dict.fromkeys((metric.name for metric in METRICS), pl.Float64),
}


def usage_per_run(
    resources: pl.LazyFrame, parts: pl.DataFrame, warm_up_s: float = 0.0
) -> pl.DataFrame:
    """Return the resource use of each run over its measured part, one row per run.

    CPU time at both ends of the part is interpolated between samples. The first sample of a
    process is taken while it is still being loaded and does not count as a level of memory. Memory
    counts for the time in which the process was sampled: each sample stands for half a period
    before and after it.

    Parameters
    ----------
    resources
        ``resources.parquet`` with ``run``.
    parts
        From `measured_parts`; runs that are not in it are left out.
    warm_up_s
        Seconds to leave out at the beginning of each part.

    Returns
    -------
    ``run``, ``samples``, ``begin_ns`` and ``end_ns`` of the part as far as it was sampled, ``cpu``
    (cores), ``pss`` and ``rss`` (bytes), ``startup_cpu`` (ns). Null where not measured; memory
    also where that of a process was not read in the part.
    """
    columns = ("time_ns", "cpu_time_ns", "pss_bytes", "rss_bytes")
    rows = (
        resources.select("run", *_PROCESS, *columns)
        .join(parts.lazy(), on="run")
        .sort("run", *_PROCESS, "time_ns")
        .collect()
    )
    usages: list[dict[str, object]] = [
        dict.fromkeys(_USAGE) | _usage_of_run(str(name), of_run, warm_up_s)
        for (name,), of_run in rows.partition_by("run", as_dict=True, maintain_order=True).items()
    ]
    return pl.DataFrame(usages, schema=_USAGE, orient="row")


def _usage_of_run(name: str, rows: pl.DataFrame, warm_up_s: float) -> dict[str, object]:
    begin, end = _sampled_part(rows, warm_up_s)
    ready = rows["ready"][0]
    inside = rows.filter(pl.col("time_ns").is_between(begin, end))
    usage: dict[str, object] = {"run": name, "samples": inside.height}
    if begin >= end:
        return usage
    processes = rows.partition_by(*_PROCESS, maintain_order=True)
    used = [
        times for p in processes if (times := _cpu_time(p, begin, end, whole=ready)) is not None
    ]
    if used:
        usage["cpu"] = sum(after - before for before, after in used) / (end - begin)
        if ready and not warm_up_s:
            usage["startup_cpu"] = sum(before for before, _ in used)
    time = pl.col("time_ns")
    half = (rows.select(time.diff().over(_PROCESS).median()).item() or 0) / 2
    lived = [
        min(end, p["time_ns"][-1] + half) - max(begin, p["time_ns"][0] - half) for p in processes
    ]
    for memory in ("pss", "rss"):
        levels = [_level(p, f"{memory}_bytes", begin, end) for p in processes]
        measured = [
            level * part / (end - begin)
            for level, part in zip(levels, lived, strict=True)
            if level is not None
        ]
        if inside.height and len(measured) == len(levels):
            usage[memory] = sum(measured)
    return {**usage, "begin_ns": begin, "end_ns": end}


def _sampled_part(rows: pl.DataFrame, warm_up_s: float) -> tuple[int, int]:
    """Return begin and end of the measured part of a run, as far as it was sampled."""
    times = rows["time_ns"].to_numpy()
    first, last = int(times.min()), int(times.max())
    begin, end = rows.select("begin_ns", "end_ns").row(0)
    return max(begin or first, first) + round(warm_up_s * 1e9), min(end or last, last)


def _cpu_time(
    process: pl.DataFrame, begin: int, end: int, *, whole: bool
) -> tuple[float, float] | None:
    """Return the CPU time of a process at `begin` and at `end`.

    In a `whole` run, a process without an earlier sample is known not to have begun.
    """
    samples = process.drop_nulls("cpu_time_ns")
    if not samples.height:
        return None
    # Relative, because floats cannot hold times since the epoch to the nanosecond.
    times = (samples["time_ns"] - begin).to_numpy()
    before, after = np.interp([0, end - begin], times, samples["cpu_time_ns"].to_numpy())
    return 0.0 if whole and times[0] > 0 else float(before), float(after)


def _level(process: pl.DataFrame, column: str, begin: int, end: int) -> float | None:
    """Return the mean memory of a process while it lived; 0 if it did not, None if not read."""
    in_part = pl.col("time_ns").is_between(begin, end)
    if not process.filter(in_part).height:
        return 0.0
    samples = process.with_row_index("number").filter(in_part).drop_nulls(column)
    settled = samples.filter(pl.col("number") > 0)
    mean = (settled if settled.height else samples)[column].cast(pl.Float64).mean()
    return mean if isinstance(mean, float) else None


def cpu_between_samples(
    resources: pl.LazyFrame, parts: pl.DataFrame, warm_up_s: float = 0.0
) -> pl.DataFrame:
    """Return the CPU of each run between samples of its measured part, summed over processes.

    The samples are those of the process with the most samples; CPU time of others is interpolated.

    Parameters
    ----------
    resources, parts, warm_up_s
        See `usage_per_run`.

    Returns
    -------
    ``run``, ``seconds`` (s between the samples), ``cpu`` (cores).
    """
    rows = (
        resources.select("run", *_PROCESS, "time_ns", "cpu_time_ns")
        .drop_nulls("cpu_time_ns")
        .join(parts.lazy(), on="run")
        .sort("run", *_PROCESS, "time_ns")
        .collect()
    )
    schema = {"run": pl.String, "seconds": pl.Float64, "cpu": pl.Float64}
    frames = [pl.DataFrame(schema=schema)]
    for (name,), of_run in rows.partition_by("run", as_dict=True, maintain_order=True).items():
        begin, end = _sampled_part(of_run, warm_up_s)
        processes = [
            ((process["time_ns"] - begin).to_numpy(), process["cpu_time_ns"].to_numpy())
            for process in of_run.partition_by(*_PROCESS)
        ]
        inside = [times[(times >= 0) & (times <= end - begin)] for times, _ in processes]
        ends = max(inside, key=len)
        used = sum(np.diff(np.interp(ends, *process)) for process in processes)
        seconds = np.diff(ends)
        columns = {"run": [name] * seconds.size, "seconds": seconds / 1e9, "cpu": used / seconds}
        frames.append(pl.DataFrame(columns, schema=schema))
    return pl.concat(frames)


def resource_estimates(
    usage: pl.DataFrame, runs: Sequence[Run], level: float = 0.95
) -> list[Estimate]:
    """Estimate each of `METRICS` for each cell whose runs were sampled, from `usage_per_run`."""
    estimates = []
    for members in cells_of(runs).values():
        rows = usage.filter(pl.col("run").is_in([run.name for run in members]))
        for metric in METRICS:
            measured = rows.filter(pl.col(metric.name).is_not_null())
            if measured.height:
                values = measured[metric.name].to_list()
                samples = int(measured["samples"].sum())
                estimates.append(value_over_runs(metric, members[0].cell, values, samples, level))
    return estimates


def usage_over_time(resources: pl.LazyFrame) -> pl.DataFrame:
    """Return the resource use of each process at each sample, for drawing.

    Returns
    -------
    ``run``, ``process`` (its name, or pid if it has none), ``seconds`` (since the run's first
    sample), ``cpu`` (cores, since the previous sample; null for the first), ``pss_bytes``,
    ``rss_bytes`` (null in samples in which memory was not read).
    """
    key = ["run", *_PROCESS]
    step = pl.col("time_ns").diff().over(key)
    return (
        resources.sort("run", *_PROCESS, "time_ns")
        .with_columns(
            cpu=pl.when(step > 0).then(pl.col("cpu_time_ns").diff().over(key) / step),
            seconds=(pl.col("time_ns") - pl.col("time_ns").min().over("run")) / 1e9,
            process=pl.coalesce("process", pl.format("pid {}", pl.col("vpid"))),
        )
        .select("run", "process", "vpid", "seconds", "cpu", "pss_bytes", "rss_bytes")
        .collect()
    )
