"""Build cells.csv: one row per cell and run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from roslens.analysis.measures.samples import LOST
from roslens.analysis.runs import Run, cells_of
from roslens.studies.communication.backlog import Backlog
from roslens.studies.communication.evidence import Evidence
from roslens.studies.communication.periods import publisher_periods, subscription_periods
from roslens.studies.communication.traffic import Traffic

COLUMNS: Mapping[str, str] = {
    "publications": "publications on the topics looked at, each once",
    "receptions": "callbacks that ran for them, over all subscriptions",
    "lost": (
        "publications that a subscription never took: lost on the way, replaced by newer ones in "
        "its history, or overwritten in its intra-process buffer; one per publication and "
        "subscription"
    ),
    "publisher_period_ms": "(last - first) / (n - 1) of each publisher, mean over publishers",
    "subscription_period_ms": (
        "(last - first) / (n - 1) of each subscription's callbacks, mean over subscriptions"
    ),
    "latency_mean_ms": (
        "first publish event -> callback_start, mean over received messages; within a process the "
        "copy of what is published by reference comes before that event"
    ),
    "queue_depth_seen": (
        "median over received messages of the publications by the same publisher within "
        "(publish_ns, take_ns]"
    ),
    "queue_depth": "the subscriptions' depth of history, the smallest",
    "queue_full": "whether the queue was full: half of the messages had queue_depth - 1 others "
    "behind them, or it pushed messages out (they were overwritten or replaced, or lost while as "
    "many later ones as it holds were sent before the next take, and queue_depth - 1 were behind "
    "what was taken)",
    "unknown": "publications of which nobody can say whether they arrived",
    "evidence": (
        "exact, approximate (some messages joined by order) or partial (some not known), and why"
    ),
}
"""Meaning of each column; the factors, ``run`` and ``repetition`` come before these columns."""

_GIVEN = {
    "run": pl.String,
    "repetition": pl.Int64,
    "queue_depth_seen": pl.Float64,
    "queue_depth": pl.Int64,
    "queue_full": pl.Boolean,
    "evidence": pl.String,
}


def cells(
    runs: Sequence[Run],
    found: Traffic,
    backlogs: Mapping[str, Backlog],
    evidence: Mapping[str, Evidence],
) -> pl.DataFrame:
    """Return one row per run, cell by cell: its factors, and the columns of `COLUMNS`.

    A factor that has the name of a column is called ``factor_<name>``.
    """
    outcome = pl.col("outcome")
    counts = found.messages.group_by("run").agg(
        pl.col("message_id").n_unique().alias("publications"),
        outcome.is_in(LOST).sum().alias("lost"),
        (outcome == "unknown").sum().alias("unknown"),
        (pl.col("latency_ns").filter(outcome == "delivered").mean() / 1e6).alias("latency_mean_ms"),
    )
    of_publishers = publisher_periods(found.messages).group_by("run").agg(
        (pl.col("period_ns").mean() / 1e6).alias("publisher_period_ms")
    )  # fmt: skip
    of_subscriptions = subscription_periods(found.callbacks).group_by("run").agg(
        (pl.col("period_ns").mean() / 1e6).alias("subscription_period_ms"),
        pl.col("receptions").sum(),
    )  # fmt: skip
    taken = {"run", "repetition", *COLUMNS}
    factors = {
        f"factor_{name}" if name in taken else name: name for run in runs for name in run.cell
    }
    rows = []
    for run in (run for members in cells_of(runs).values() for run in members):
        backlog = backlogs.get(run.name, Backlog(None, None))
        rows.append(
            [
                *(_text(run.cell.get(name)) for name in factors.values()),
                *(run.name, run.repetition),
                *(backlog.depth_seen, backlog.queue_depth, backlog.full),
                evidence.get(run.name, Evidence()).label,
            ]
        )
    return (
        pl.DataFrame(rows, {**dict.fromkeys(factors, pl.String), **_GIVEN}, orient="row")
        .join(counts, on="run", how="left", maintain_order="left")
        .join(of_publishers, on="run", how="left", maintain_order="left")
        .join(of_subscriptions, on="run", how="left", maintain_order="left")
        .with_columns(
            pl.col("publications", "receptions", "lost", "unknown").cast(pl.Int64).fill_null(0)
        )
        .select(*factors, "run", "repetition", *COLUMNS)
    )


def _text(level: object) -> str | None:
    if isinstance(level, bool):
        return str(level).lower()
    return None if level is None else str(level)
