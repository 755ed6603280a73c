"""Measure how long callbacks took, and find the messages with the largest latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.measures.busy import cut_to_processes
from roslens.analysis.measures.pauses import recorded_time
from roslens.analysis.measures.samples import TopicGroup, labels_of, with_cells
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.omission import period_of_gaps
from roslens.analysis.statistics.over_runs import statistics_over_runs
from roslens.analysis.statistics.quantiles import mean_quantile_expression, supported_quantile_of
from roslens.collectors.ros2.callbacks import is_callback
from roslens.recording.arrays import Ints

CALLBACK = ("kind", "name", "node")
_PROCESS = ("run", "host", "vpid")

_OF_MESSAGE = (
    *("topic", "subscription_node", "outcome", "latency_ns", "publish_ns", "callback_start_ns"),
    *("callback_instance_id", "subscription_host", "subscription_vpid"),
)
# Columns are always selected before cells are joined: a factor may be called "cell" too.


def readable(name: pl.Expr) -> pl.Expr:
    """Make names of callbacks readable: a timer's ``66666666 ns`` becomes ``66.67 ms (15 Hz)``.

    A timer's name in the tables is its period in the largest unit that keeps it a whole number; a
    name of up to four digits stays as it is.
    """
    ns = _own_period_ns(name)

    def number(value: pl.Expr) -> pl.Expr:
        return value.round_sig_figs(4).cast(pl.String).str.strip_suffix(".0")

    period = pl.format("{} ms ({} Hz)", number(ns / 1e6), number(1e9 / ns))
    return pl.when(name.str.contains(r"^\d{5,} [nu]s$") & (ns > 0)).then(period).otherwise(name)


def _own_period_ns(name: pl.Expr) -> pl.Expr:
    """Return the period that the name of a timer's callback tells; null for other names."""
    units = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
    unit = name.str.extract(r"^\d+ (ns|us|ms|s)$").replace_strict(
        units, default=None, return_dtype=pl.Float64
    )
    return name.str.extract(r"^(\d+) ").cast(pl.Float64) * unit


def number_namesakes(instances: pl.LazyFrame) -> pl.LazyFrame:
    """Make names of callbacks readable, and number those of one name in a process at a time.

    Of two 10 ms timers of a node, the one that was created second is called ``10 ms #2``. A
    callback that began after another of its name had ended for good, as one of a node that was
    restarted, has the same name.
    """
    instances = instances.with_columns(name=readable(pl.col("name")))
    key = (*_PROCESS, *CALLBACK)
    lived = (
        instances.drop_nulls("callback_id")
        .group_by(*key, "callback_id")
        .agg(pl.col("start_ns").min(), end_ns=pl.max_horizontal("start_ns", "end_ns").max())
        .filter(pl.len().over(key) > 1)
        .sort("callback_id")
        .collect()
    )
    numbers: list[int] = []
    last_ends: dict[tuple[object, ...], list[int]] = {}
    for *name, _, start, end in lived.select(*key, "callback_id", "start_ns", "end_ns").rows():
        ends = last_ends.setdefault(tuple(name), [])
        free = (number for number, last in enumerate(ends) if last < start)
        number = next(free, len(ends))
        ends[number : number + 1] = [end]
        numbers.append(number + 1)
    later = lived.select(*_PROCESS, "callback_id", number=pl.Series(numbers, dtype=pl.Int64))
    later = later.filter(pl.col("number") > 1)
    if later.is_empty():
        return instances
    numbered = pl.concat_str("name", pl.format("#{}", "number"), separator=" ", ignore_nulls=True)
    return (
        instances.join(later.lazy(), on=[*_PROCESS, "callback_id"], how="left")
        .with_columns(name=pl.when(pl.col("number").is_null()).then("name").otherwise(numbered))
        .drop("number")
    )


def _by_executions(of_callback: pl.LazyFrame) -> pl.DataFrame:
    """Sort rows by cell and kind, those with the most executions first, and collect them."""
    order = ("cell", "kind", "count", *CALLBACK[1:])
    return of_callback.sort(order, descending=[column == "count" for column in order]).collect()


def durations(
    instances: pl.LazyFrame,
    processes: pl.LazyFrame,
    losses: pl.LazyFrame,
    cells: Mapping[str, str],
) -> pl.DataFrame:
    """Return the durations of each callback in each cell.

    Parameters
    ----------
    instances, processes, losses
        `Tables.touching_executions`, `Tables.recorded_processes` and ``losses`` with ``run``.
    cells
        The label of each run's cell by run name; runs without one are left out.

    Returns
    -------
    ``cell``, ``kind``, ``name`` (as in `number_namesakes`), ``node``, ``runs``, ``count``,
    ``unfinished`` (started, no end recorded), ``mean_ns``, ``p50_ns``, ``p90_ns``, ``p99_ns``,
    ``max_ns``, ``busy`` (the part of the recorded time of its process, from the first to the last
    event, in which it ran, counted once where it ran beside itself; of the run's time, if the
    process is not known; of executions before and after a view, the part in it, though only those
    that began in it are counted and measured). Mean, percentiles and ``busy`` are computed
    per run and averaged over the runs in which the callback ran, without executions that began
    while the tracer lost events: long ones lose their end more often. A percentile is null where
    one of these runs has too few executions for its interval.
    """
    begun = pl.col("begun")
    d = pl.when(~pl.col("paused"), begun).then("duration_ns")
    inside = pl.when(~pl.col("paused")).then("inside_ns")
    end = pl.col("at") + inside
    before = end.fill_null(0).cum_max().shift(1).over(*_PROCESS, *CALLBACK)
    lived = recorded_time(
        processes.select(*_PROCESS, "begin_ns", "end_ns"), losses, "begin_ns", "end_ns"
    )
    of_process = lived.group_by(_PROCESS).agg(
        process_ns=(pl.col("end_ns") - pl.col("begin_ns")).sum()
    )
    of_run = lived.group_by("run").agg(run_ns=pl.col("end_ns").max() - pl.col("begin_ns").min())
    recorded = pl.struct("host", "vpid", recorded_ns=pl.coalesce("process_ns", "run_ns")).unique()
    whole = recorded.struct.field("recorded_ns").sum()
    percentiles = {"p50_ns": 0.5, "p90_ns": 0.9, "p99_ns": 0.99}
    return (
        with_cells(number_namesakes(instances), cells)
        .select(*_PROCESS, "cell", *CALLBACK, "start_ns", "end_ns", "duration_ns")
        .pipe(cut_to_processes, processes)
        .rename({"cut_start_ns": "at"})
        .with_columns(
            begun=pl.col("at") == pl.col("start_ns"), inside_ns=pl.col("cut_end_ns") - pl.col("at")
        )
        .pipe(recorded_time, losses, "at")
        .sort("at")
        .with_columns(ran_ns=(end - pl.max_horizontal("at", before)).clip(lower_bound=0))
        .join(of_process, on=_PROCESS, how="left")
        .join(of_run, on="run", how="left")
        .group_by("run", "cell", *CALLBACK)
        .agg(
            count=begun.sum(),
            unfinished=(begun & pl.col("end_ns").is_null()).sum(),
            mean_ns=d.mean(),
            max_ns=pl.col("duration_ns").filter(begun).max(),
            busy=pl.when(inside.count() > 0, whole > 0).then(pl.col("ran_ns").sum() / whole),
            **{name: supported_quantile_of(d, q) for name, q in percentiles.items()},
        )
        .filter((pl.col("count") > 0) | (pl.col("busy") > 0))
        .group_by("cell", *CALLBACK)
        .agg(
            pl.len().alias("runs"),
            pl.col("count", "unfinished").sum(),
            pl.col("mean_ns").mean(),
            *map(mean_quantile_expression, percentiles),
            pl.col("max_ns").max(),
            pl.col("busy").mean(),
        )
        .pipe(_by_executions)
    )


def periods(instances: pl.LazyFrame, losses: pl.LazyFrame, runs: Sequence[Run]) -> pl.DataFrame:
    """Measure how regularly each callback or probed function began, in each cell.

    The period is the median of the times between consecutive starts in a run. Jitter is the
    absolute difference between such a time and the period that is expected: a timer's own, else
    that median if most of at least `LEAST_GAPS` times are like it, as in `expected_period`. No such
    time spans a pause in which nothing was recorded, and starts within a pause do not count.

    Parameters
    ----------
    instances, losses
        ``callback_instances`` and ``losses`` with ``run``.

    Returns
    -------
    ``cell``, ``kind``, ``name`` (as in `number_namesakes`), ``node``, ``count`` (starts),
    ``period_ns`` (mean over runs and, for functions, threads), ``jitter_p50_ns``,
    ``jitter_p99_ns``, ``jitter_max_ns``, ``overruns`` (executions that lasted
    longer than the period expected), ``skipped`` (such periods without a start). All but the count
    are null where no period is expected in one of the runs, and a percentile is null where its
    interval needs more times (6 for P50, 299 for P99).
    """
    key = ("run", "callback_id", "caller")
    interval = pl.col("start_ns").diff().over(*key, "pauses")
    jitter = (pl.col("interval_ns") - pl.col("expected_ns")).abs()
    of_timer = pl.when(pl.col("kind") == "timer").then(_own_period_ns(pl.col("name")))
    starts = (
        number_namesakes(instances.with_columns(own_ns=of_timer))
        .drop_nulls("callback_id")
        # Each thread may call a function in a loop of its own.
        .with_columns(caller=pl.when(~is_callback()).then("vtid"))
        .select(*key, "host", *CALLBACK, "start_ns", "duration_ns", "own_ns")
        .pipe(recorded_time, losses, "start_ns")
        .filter(~pl.col("paused"))
        .sort("start_ns")
        .with_columns(interval_ns=interval)
        .pipe(with_cells, labels_of(runs))
        .collect()
    )
    gaps = starts.group_by(key).agg(
        pl.col("own_ns").first(),
        gaps=pl.col("interval_ns").drop_nulls(),
        period_ns=pl.col("interval_ns").median(),
    )
    regular = pl.Series([period_of_gaps(of_key) for of_key in gaps["gaps"]], dtype=pl.Float64)
    expected = pl.coalesce(pl.when(pl.col("own_ns") > 0).then("own_ns"), regular)
    told = pl.col("expected_ns").null_count() == 0
    first = pl.struct(key).is_first_distinct()
    # A late start lengthens one interval and shortens the next, which cancels.
    more = ((pl.col("interval_ns") / pl.col("expected_ns")).round() - 1).sum().over(key)
    return (
        starts.lazy()
        .join(gaps.lazy().select(*key, "period_ns", expected_ns=expected), on=key, nulls_equal=True)
        .with_columns(skipped=more.clip(lower_bound=0).cast(pl.Int64))
        .group_by("cell", *CALLBACK)
        .agg(
            pl.len().alias("count"),
            *(
                pl.when(told).then(value).alias(name)
                for name, value in {
                    "period_ns": pl.col("period_ns").filter(first).mean(),
                    "jitter_p50_ns": supported_quantile_of(jitter, 0.5),
                    "jitter_p99_ns": supported_quantile_of(jitter, 0.99),
                    "jitter_max_ns": jitter.max(),
                    "overruns": (pl.col("duration_ns") > pl.col("expected_ns")).sum(),
                    "skipped": pl.col("skipped").filter(first).sum(),
                }.items()
            ),
        )
        .pipe(_by_executions)
    )


def callback_duration_estimates(
    instances: pl.LazyFrame,
    runs: Sequence[Run],
    groups: Sequence[TopicGroup],
    level: float = 0.95,
    percentiles: Sequence[float] = (),
) -> list[list[Estimate]]:
    """Estimate ``callback_duration_mean`` of the subscription callbacks on each topic, per cell.

    With `percentiles`, estimate those instead of the mean.
    """
    rows = (
        instances.filter((pl.col("kind") == "subscription") & pl.col("duration_ns").is_not_null())
        .select("run", "name", "start_ns", "duration_ns")
        .sort("start_ns")
        .collect()
    )
    of_topic = rows.partition_by("run", "name", as_dict=True)
    cells = list(cells_of(runs).values())

    def took(run: Run, group: TopicGroup) -> Ints:
        topics = sorted(group.topics_of_run.get(run.name, ()))
        frames = (of_topic.get((run.name, topic), rows.clear()) for topic in topics)
        return pl.concat([rows.clear(), *frames])["duration_ns"].to_numpy()

    estimates: list[list[Estimate]] = []
    for group in groups:
        definition = f"callback_start -> callback_end of subscription callbacks; {group.scope}"
        metric = Metric("callback_duration", definition, "ns")
        estimates.append([])
        for members in cells:
            arrays = [took(run, group) for run in members]
            if any(array.size for array in arrays):
                cell = group.cell(members[0])
                estimates[-1] += statistics_over_runs(
                    metric, cell, arrays, percentiles or ("mean",), level
                )
    return estimates


def worst_messages(
    messages: pl.LazyFrame, processes: pl.LazyFrame, runs: Sequence[Run], count: int = 10
) -> pl.DataFrame:
    """Return the delivered messages with the largest latency, the largest first.

    Returns
    -------
    ``run``, ``cell``, ``topic``, ``subscription_node``, ``since_start_ns`` (from the first
    event of the run), ``latency_ns`` (publish to callback_start), ``publish_ns``,
    ``callback_start_ns``, ``callback_instance_id``, ``subscription_host``, ``subscription_vpid``.
    """
    first = processes.group_by("run").agg(pl.col("begin_ns").min())
    return (
        messages.select("run", *_OF_MESSAGE)
        .pipe(with_cells, labels_of(runs))
        .join(first, on="run", how="left")
        .with_columns((pl.col("publish_ns") - pl.col("begin_ns")).alias("since_start_ns"))
        .filter((pl.col("outcome") == "delivered") & pl.col("latency_ns").is_not_null())
        .top_k(count, by="latency_ns")
        .sort("latency_ns", "publish_ns", descending=[True, False])
        .select(
            *("run", "cell", "topic", "subscription_node", "since_start_ns"),
            *_OF_MESSAGE[3:],
        )
        .collect()
    )
