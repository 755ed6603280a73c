"""Compare a benchmark tool's figures of a run with the same figures from its trace."""

from __future__ import annotations

import polars as pl

from roslens.collectors.results.tool_result import ToolResult

STATISTICS = ("mean", "sd", "min", "max")
EXPLANATION = (
    "The tool takes its time just before publish() and on the first line of the callback; the "
    "trace at the first publish event and at callback_start. So the tool's latency is longer by "
    "the way into publish() and out of the executor: 1 to 4 us between processes, more where "
    "messages stay in the process, for rclcpp_intra_publish fires late inside of publish()."
)


def agreement(messages: pl.DataFrame, result: ToolResult) -> pl.DataFrame:
    """Return latency per subscription by the tool and by the trace.

    Parameters
    ----------
    messages
        Messages of one run: ``topic``, ``subscription_node``, ``latency_ns``.
    result
        The tool's result of the same run.

    Returns
    -------
    ``node``, ``topic``, ``received_tool``, ``received_trace``, and for mean, sd (of the
    population), min and max ``<statistic>_tool_ns``, ``<statistic>_trace_ns``; null where only one
    source has the statistic.
    """
    reported = (
        result.summary.filter(
            (pl.col("entity") == "subscription")
            & pl.col("metric").is_in(["received", *(f"latency_{s}" for s in STATISTICS)])
        )
        .with_columns(_bare("node"), _bare("name").alias("topic"))
        .pivot("metric", index=["node", "topic"], values="value", aggregate_function="first")
    )
    absent = [name for name in ("received", "latency_mean") if name not in reported.columns]
    reported = reported.with_columns(pl.lit(None, pl.Float64).alias(name) for name in absent)
    latency = pl.col("latency_ns")
    traced = (
        messages.filter(latency.is_not_null())
        .with_columns(_bare("subscription_node").alias("node"), _bare("topic"))
        .group_by("node", "topic")
        .agg(
            received_trace=pl.len().cast(pl.Int64),
            mean_trace_ns=latency.mean(),
            sd_trace_ns=latency.std(ddof=0),
            min_trace_ns=latency.min().cast(pl.Float64),
            max_trace_ns=latency.max().cast(pl.Float64),
        )
    )
    statistics = [s for s in STATISTICS if f"latency_{s}" in reported.columns]
    joined = reported.join(traced, on=["node", "topic"], how="left")
    return joined.select(
        "node",
        "topic",
        received_tool=pl.col("received").cast(pl.Int64),
        received_trace=pl.col("received_trace").fill_null(0),
        **{f"{s}_tool_ns": pl.col(f"latency_{s}") for s in statistics},
        **{f"{s}_trace_ns": pl.col(f"{s}_trace_ns") for s in statistics},
    ).sort("node", "topic")


def _bare(column: str) -> pl.Expr:
    return pl.col(column).str.strip_prefix("/")
