"""How long callbacks took, and what a thread did while a message waited."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.measures.samples import TopicGroup
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import mean_over_runs, percentile_over_runs
from roslens.analysis.statistics.quantiles import percentile_name, quantile_of

CALLBACK = ("kind", "name", "node")

_OF_MESSAGE = (
    *("topic", "outcome", "publish_ns", "take_ns", "callback_start_ns", "latency_ns"),
    *("callback_instance_id", "subscription_node", "subscription_host", "subscription_vpid"),
)
# Columns are always selected first: a factor may be called "cell" too.


def readable(name: pl.Expr) -> pl.Expr:
    """Names of callbacks for people: a timer's ``66666666 ns`` as ``66.67 ms (15 Hz)``.

    Its name in the tables is its period in the largest unit that keeps it whole; up to four digits
    it stays as it is.
    """
    digits = name.str.extract(r"^(\d{5,}) (?:ns|us)$").cast(pl.Float64)
    ns = digits * pl.when(name.str.ends_with(" us")).then(1e3).otherwise(1.0)

    def number(value: pl.Expr) -> pl.Expr:
        return value.round_sig_figs(4).cast(pl.String).str.strip_suffix(".0")

    told = pl.format("{} ms ({} Hz)", number(ns / 1e6), number(1e9 / ns))
    return pl.when(ns > 0).then(told).otherwise(name)


def durations(instances: pl.LazyFrame, runs: Sequence[Run]) -> pl.DataFrame:
    """Duration of each callback in each cell.

    Parameters
    ----------
    instances
        ``callback_instances`` with ``run``.

    Returns
    -------
    ``cell``, ``kind``, ``name``, ``node``, ``runs``, ``count``, ``unfinished`` (started, no end
    recorded), ``mean_ns``, ``p50_ns``, ``p90_ns``, ``p99_ns``, ``max_ns``, ``busy`` (its share of
    the time from the first start to the last end in its runs). Percentiles are over all runs
    together: a description, without interval.
    """
    labels = _labels(runs)
    spans = instances.group_by("run").agg(
        span=(pl.col("end_ns").max() - pl.col("start_ns").min()).cast(pl.Float64)
    )
    d = pl.col("duration_ns")
    return (
        instances.select("run", *CALLBACK, "start_ns", "end_ns", "duration_ns")
        .with_columns(name=readable(pl.col("name")))
        .join(labels, on="run")
        .join(spans, on="run")
        .group_by("cell", *CALLBACK)
        .agg(
            runs=pl.col("run").n_unique(),
            count=pl.len(),
            unfinished=pl.col("end_ns").null_count(),
            mean_ns=d.mean(),
            p50_ns=quantile_of(d, 0.5),
            p90_ns=quantile_of(d, 0.9),
            p99_ns=quantile_of(d, 0.99),
            max_ns=d.max(),
            busy=d.sum() / pl.struct("run", "span").unique().struct.field("span").sum(),
        )
        .sort("cell", "kind", "count", *CALLBACK[1:], descending=[False, False, True, False, False])
        .collect()
    )


def callback_duration_estimates(
    instances: pl.LazyFrame,
    runs: Sequence[Run],
    group: TopicGroup,
    level: float = 0.95,
    percentiles: Sequence[float] = (),
) -> list[Estimate]:
    """``callback_duration_mean`` of the subscription callbacks on a topic, per cell.

    With `percentiles` those instead.
    """
    definition = f"callback_start -> callback_end of subscription callbacks; {group.scope}"
    rows = (
        instances.filter((pl.col("kind") == "subscription") & pl.col("duration_ns").is_not_null())
        .select("run", "name", "start_ns", "duration_ns")
        .sort("start_ns")
        .collect()
    )
    estimates = []
    for members in cells_of(runs).values():
        arrays = [
            rows.filter(
                (pl.col("run") == run.name)
                & pl.col("name").is_in(sorted(group.topics_of_run.get(run.name, frozenset())))
            )["duration_ns"].to_numpy()
            for run in members
        ]
        if not any(array.size for array in arrays):
            continue
        cell = group.cell(members[0])
        if not percentiles:
            metric = Metric("callback_duration_mean", definition, "ns")
            estimates.append(mean_over_runs(metric, cell, arrays, level))
        for q in percentiles:
            metric = Metric(f"callback_duration_{percentile_name(q).lower()}", definition, "ns")
            estimates.append(percentile_over_runs(metric, cell, arrays, q, level))
    return estimates


def worst_messages(
    messages: pl.LazyFrame, instances: pl.LazyFrame, runs: Sequence[Run], count: int = 10
) -> pl.DataFrame:
    """The messages with the largest latency, and what the receiving thread did meanwhile.

    Between publish and callback_start, the callbacks that ran on the thread that later took the
    message (in its process, where the thread is not known) are added up.

    Returns
    -------
    ``run``, ``cell``, ``topic``, ``subscription_node``, ``since_start_ns`` (from the first
    publication of the run), ``latency_ns``, ``to_take_ns`` (publish -> take),
    ``take_to_callback_ns``, ``busy_ns`` (time in callbacks; threads added up where the thread is
    not known), ``meanwhile`` (those callbacks, longest first), and of the message itself
    ``publish_ns``, ``callback_start_ns``, ``callback_instance_id``, ``subscription_host``,
    ``subscription_vpid``.
    """
    labels = _labels(runs)
    worst = (
        messages.select("run", *_OF_MESSAGE)
        .join(labels, on="run")
        .with_columns(first=pl.col("publish_ns").min().over("run"))
        .filter((pl.col("outcome") == "delivered") & pl.col("latency_ns").is_not_null())
        .top_k(count, by="latency_ns")
        .sort("latency_ns", "publish_ns", descending=[True, False])
        .collect()
    )
    names = worst["run"].unique().to_list()
    lives = (
        instances.filter(pl.col("run").is_in(names))
        .select(
            "run", "callback_instance_id", *CALLBACK, "host", "vpid", "vtid", "start_ns", "end_ns"
        )
        .with_columns(name=readable(pl.col("name")))
        .collect()
    )
    rows = [_explained(message, lives) for message in worst.iter_rows(named=True)]
    schema = {
        "run": pl.String,
        "cell": pl.String,
        "topic": pl.String,
        "subscription_node": pl.String,
        "since_start_ns": pl.Int64,
        "latency_ns": pl.Int64,
        "to_take_ns": pl.Int64,
        "take_to_callback_ns": pl.Int64,
        "busy_ns": pl.Int64,
        "meanwhile": pl.String,
        "publish_ns": pl.Int64,
        "callback_start_ns": pl.Int64,
        "callback_instance_id": pl.Int64,
        "subscription_host": pl.String,
        "subscription_vpid": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _explained(message: dict[str, object], lives: pl.DataFrame) -> dict[str, object]:
    begin, end = message["publish_ns"], message["callback_start_ns"]
    own = message["callback_instance_id"]
    of_process = lives.filter(
        (pl.col("run") == message["run"])
        & (pl.col("host") == message["subscription_host"])
        & (pl.col("vpid") == message["subscription_vpid"])
    )
    thread = of_process.filter(pl.col("callback_instance_id") == own)["vtid"].to_list()
    known = bool(thread) and thread[0] is not None
    if known:
        of_process = of_process.filter(pl.col("vtid") == thread[0])
    overlap = pl.min_horizontal(pl.col("end_ns").fill_null(end), pl.lit(end)) - pl.max_horizontal(
        pl.col("start_ns"), pl.lit(begin)
    )
    ran = (
        of_process.filter(pl.col("callback_instance_id").ne_missing(own))
        .with_columns(overlap=overlap)
        .filter(pl.col("overlap") > 0)
        .group_by(*CALLBACK)
        .agg(times=pl.len(), overlap=pl.col("overlap").sum())
        .sort("overlap", descending=True)
    )
    parts = [
        f"{kind or 'callback'} {name or '?'}{f' x{times}' if times > 1 else ''} "
        f"({overlapped / 1e6:.3g} ms)"
        for kind, name, _node, times, overlapped in ran.iter_rows()
    ]
    shown = ", ".join(parts[:4]) + (f" and {len(parts) - 4} more" if len(parts) > 4 else "")
    if not parts:
        shown = "no callback ran: it waited, or was busy outside callbacks"
    if not known:
        shown += " (thread not known: whole process)"
    return {
        **{key: message[key] for key in _KEPT},
        "since_start_ns": _minus(begin, message["first"]),
        "latency_ns": message["latency_ns"],
        "to_take_ns": _minus(message["take_ns"], begin),
        "take_to_callback_ns": _minus(end, message["take_ns"]),
        "busy_ns": int(ran["overlap"].sum()),
        "meanwhile": shown,
    }


_KEPT = (
    *("run", "cell", "topic", "subscription_node", "publish_ns", "callback_start_ns"),
    *("callback_instance_id", "subscription_host", "subscription_vpid"),
)


def _minus(later: object, earlier: object) -> int | None:
    return later - earlier if isinstance(later, int) and isinstance(earlier, int) else None


def _labels(runs: Sequence[Run]) -> pl.LazyFrame:
    return pl.LazyFrame(
        {"run": [r.name for r in runs], "cell": [r.label for r in runs]},
        schema={"run": pl.String, "cell": pl.String},
    )
