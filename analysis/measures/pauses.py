"""Time in which not all was recorded: pauses, so that attaching cost little, and lost events.

Rates and shares are of the time that was recorded, and no interval reaches over any other.
"""

from __future__ import annotations

import math

import polars as pl

from roslens.collectors.ros2.losses import FOREVER, of_kernel
from roslens.recording.errors import UsageError
from roslens.recording.layout import NOT_SAMPLED

PAUSE = pl.col("kind").cast(pl.String) == NOT_SAMPLED
"""Rows of ``losses`` that are pauses."""
_WHOLE = {"pauses": pl.lit(0, dtype=pl.Int64), "paused": pl.lit(value=False)}


def recorded_time(
    rows: pl.LazyFrame, losses: pl.LazyFrame | None, *times: str, host: str = "host"
) -> pl.LazyFrame:
    """Take pauses out of the times of runs, so that differences are of recorded time.

    Stretches of which the tracer lost events of programs are pauses, too: what was recorded of them
    would be taken for all that happened.

    Parameters
    ----------
    rows
        With ``run``, `host` and `times` (ns).
    losses
        The table of that name, of the same runs; None: nothing paused.
    times
        Columns to replace. A time inside of a pause becomes that of the pause's begin.

    Returns
    -------
    In any order, with ``pauses`` (how many of its host began before the first of `times`) and
    ``paused`` (whether that time lies in one of them: most that happened then was not recorded).
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
    """Runs that paused: what lasts longer than they recorded at a time is not seen in them."""
    runs = losses.filter(PAUSE).select(pl.col("run").cast(pl.String).unique().sort())
    return runs.collect()["run"].to_list()


def lost_events(losses: pl.LazyFrame) -> dict[str, float]:
    """How many events of programs each run lacks, of those that lack some; infinite: not known."""
    known = (pl.col("kind").cast(pl.String) == "discarded_events") & pl.col("count").is_not_null()
    count = pl.when(known).then(pl.col("count")).otherwise(math.inf)
    lost = losses.filter(~of_kernel()).group_by(pl.col("run").cast(pl.String)).agg(count.sum())
    return dict(lost.collect().iter_rows())


def too_many_lost(lost: float, of: int) -> bool:
    """Whether so many lost events may make a count wrong by more than one in a hundred."""
    return 100 * lost > of


def whole_only(losses: pl.LazyFrame, what: str) -> None:
    """Refuse `what` of runs of which one paused.

    Raises
    ------
    UsageError
        One did.
    """
    for run in paused_runs(losses):
        raise UsageError(
            f"{run}: {what} needs all that a run did, and attaching recorded this one with pauses; "
            "attach with --full"
        )


def _pauses(losses: pl.LazyFrame) -> pl.DataFrame:
    """Each in order of its begin, with how long those before it were; what overlaps is one."""
    length = pl.col("_end") - pl.col("_begin")
    key = ("run", "_host")
    new = (pl.col("_begin") > pl.col("_end").cum_max().shift(1)).fill_null(value=True)
    return (
        losses.filter(~of_kernel())
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
