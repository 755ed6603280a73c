"""Account for time not fully recorded: pauses that keep attaching cheap, and lost events.

Rates and shares are of recorded time, and no interval spans any unrecorded time.
"""

from __future__ import annotations

import math

import polars as pl

from roslens.collectors.ros2.losses import FOREVER, is_kernel_loss
from roslens.recording.errors import UsageError
from roslens.recording.layout import NOT_SAMPLED

PAUSE = pl.col("kind").cast(pl.String) == NOT_SAMPLED
"""Condition for rows of ``losses`` that are pauses."""
_WHOLE = {"pauses": pl.lit(0, dtype=pl.Int64), "paused": pl.lit(value=False)}


def recorded_time(
    rows: pl.LazyFrame, losses: pl.LazyFrame | None, *times: str, host: str = "host"
) -> pl.LazyFrame:
    """Take pauses out of the times of runs, so that their differences are recorded time.

    Intervals in which the tracer lost events of programs count as pauses, too: otherwise the part
    that was recorded would be taken for all that happened.

    Parameters
    ----------
    rows
        Rows with ``run``, `host` and `times` (ns).
    losses
        The ``losses`` table of the same runs; None if nothing paused.
    times
        Columns to replace. A time inside a pause becomes the begin of that pause.

    Returns
    -------
    The rows in any order, with ``pauses`` (the number of pauses of its host that began before the
    first of `times`) and ``paused`` (whether that time lies in a pause: most of what happened then
    was not recorded).
    """
    pauses = None if losses is None else _pauses(losses)
    if pauses is None or pauses.is_empty():
        return rows.with_columns(**_WHOLE)
    key, inside = ["run", "_host"], pl.col("_end") > pl.col("_at")
    rows = rows.with_columns(_host=pl.col(host).cast(pl.String))
    for time in reversed(times):
        recorded = pl.when(inside).then("_begin").otherwise(pl.col("_at") - pl.col("_length"))
        rows = (
            rows.with_columns(_at=time)
            .sort("_at", nulls_last=True)
            .join_asof(
                pauses.lazy(), left_on="_at", right_on="_begin", by=key,
                check_sortedness=False, coalesce=False,
            )
            .with_columns(
                pl.coalesce(recorded - pl.col("_before"), "_at").alias(time),
                pauses=pl.col("_number").fill_null(0), paused=inside.fill_null(value=False),
            )
            .drop("_at", *(set(pauses.columns) - set(key)))
        )  # fmt: skip
    return rows.drop("_host")


def paused_runs(losses: pl.LazyFrame) -> list[str]:
    """Return the runs that paused, in which nothing longer than a recorded stretch is seen."""
    runs = losses.filter(PAUSE).select(pl.col("run").cast(pl.String).unique().sort())
    return runs.collect()["run"].to_list()


def lost_events(losses: pl.LazyFrame) -> dict[str, float]:
    """Return how many program events each run lacks (infinite: unknown), if it lacks any."""
    known = (pl.col("kind").cast(pl.String) == "discarded_events") & pl.col("count").is_not_null()
    count = pl.when(known).then(pl.col("count")).otherwise(math.inf)
    lost = losses.filter(~is_kernel_loss()).group_by(pl.col("run").cast(pl.String)).agg(count.sum())
    return dict(lost.collect().iter_rows())


def too_many_lost(lost: float, of: int) -> bool:
    """Return whether `lost` events may make a count of `of` wrong by more than one in a hundred."""
    return 100 * lost > of


def refuse_paused_runs(losses: pl.LazyFrame, what: str) -> None:
    """Raise an error if one of the runs paused, because `what` needs complete runs.

    Raises
    ------
    UsageError
        A run paused.
    """
    for run in paused_runs(losses):
        raise UsageError(
            f"{run}: {what} needs all that a run did, and attaching recorded this one with pauses; "
            "attach with --full"
        )


def _pauses(losses: pl.LazyFrame) -> pl.DataFrame:
    """Return pauses by begin, overlapping ones merged, with the total length of those before."""
    length = pl.col("_end") - pl.col("_begin")
    key = ("run", "_host")
    new = (pl.col("_begin") > pl.col("_end").cum_max().shift(1)).fill_null(value=True)
    return (
        losses.filter(~is_kernel_loss())
        .select(
            "run", _host=pl.col("host").cast(pl.String),
            _begin=pl.col("begin_ns").fill_null(0), _end=pl.col("end_ns").fill_null(FOREVER),
        )
        .sort("_begin")
        .with_columns(_number=new.cum_sum().over(key).cast(pl.Int64))
        .group_by(*key, "_number")
        .agg(pl.col("_begin").min(), pl.col("_end").max())
        .sort("_begin")
        .with_columns(_length=length)
        .with_columns(_before=pl.col("_length").cum_sum().over(key) - pl.col("_length"))
        .collect()
    )  # fmt: skip
