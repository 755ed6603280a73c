"""Timer activations: how late, and which releases passed without one.

rcl calls a timer once however late it is, then goes on with the next point of its grid
(``rcl_timer_call``). So an activation serves the first release after the activation before it, and
the releases between that one and its start are skipped.

No event shows the grid's phase: timers are reset, and their clock (often CLOCK_MONOTONIC_RAW) runs
a little otherwise than that of the events. It is estimated from the activations around: first
where they lie on the circle of one period, as mean direction and spread, then exactly by the least
late of them.
"""

from __future__ import annotations

import math

import polars as pl

from roslens.collectors.ros2.callbacks import Callbacks
from roslens.collectors.ros2.objects import Objects

AROUND = 50
_WINDOW = 2 * AROUND + 1
_ONE = 2**40
_LEAST_SPREAD = 1 / 32
"""In periods: how much earlier than the mean an activation may be, however alike they are."""
_MOST_SPREAD = 1 / 2


def find_timer_activations(objects: Objects, callbacks: Callbacks) -> pl.DataFrame:
    """One row per execution of a timer's callback; columns of the table, and proc and thread."""
    starts = (
        callbacks.instances.filter((pl.col("kind") == "timer") & pl.col("owner_id").is_not_null())
        .select(
            "callback_instance_id",
            "proc",
            "thread",
            pl.col("owner_id").alias("timer_id"),
            "node",
            "start_ns",
        )
        .join(objects.timers.select("timer_id", "period_ns"), on="timer_id")
        .sort("timer_id", "start_ns", "callback_instance_id")
    )
    first = pl.col("start_ns").first().over("timer_id").alias("first_ns")
    starts = with_mean(starts.with_columns(first))
    return on_grid(with_phase(with_turns(starts))).sort("callback_instance_id")


def with_mean(starts: pl.DataFrame) -> pl.DataFrame:
    """Add where activations lie on the circle of one period: ``mean`` and ``spread``.

    `starts` has, beside what the table has, ``first_ns``, the timer's first start. What is added
    to a row depends on the `AROUND` rows before and after it, and on nothing else.
    """
    interval = pl.col("start_ns").diff().over("timer_id")
    starts = starts.with_columns(
        interval.alias("interval_ns"),
        (interval - pl.col("period_ns")).alias("jitter_ns"),
        pl.when(pl.col("period_ns") > 0).then("period_ns").alias("period"),
        (pl.col("start_ns") - pl.col("first_ns")).alias("since_ns"),
    )
    angle = 2 * math.pi * (pl.col("since_ns") % pl.col("period")) / pl.col("period")
    some = _around(pl.col("period").is_not_null().cast(pl.Int64))
    starts = starts.with_columns(
        (_around(_fixed(angle.cos())) / some / _ONE).over("timer_id").alias("x"),
        (_around(_fixed(angle.sin())) / some / _ONE).over("timer_id").alias("y"),
    )
    mean = pl.arctan2("y", "x") / (2 * math.pi)
    strength = (pl.col("x") ** 2 + pl.col("y") ** 2).sqrt().clip(1e-9, 1)
    deviation = (-2 * strength.log()).sqrt() / (2 * math.pi)
    return starts.with_columns(
        mean.alias("mean"), (2 * deviation).clip(_LEAST_SPREAD, _MOST_SPREAD).alias("spread")
    )


def with_turns(starts: pl.DataFrame) -> pl.DataFrame:
    """Add ``turns``, how often the mean has slid around the circle since the timer's first row."""
    # It does so slowly: no step is longer than half of it.
    step = pl.col("mean").diff().fill_null(0).round()
    return starts.with_columns(step.cum_sum().over("timer_id").alias("turns"))


def with_phase(starts: pl.DataFrame) -> pl.DataFrame:
    """Add ``point``, number of the last grid point up to the start, and ``late_ns`` after it.

    ``phase_ns`` is where the grid lies against one with a point at ``first_ns``. They, too,
    depend on the `AROUND` rows before and after it alone.
    """
    edge = pl.col("mean") - pl.col("turns") - pl.col("spread")
    rough = (pl.col("since_ns") / pl.col("period") - edge).floor().cast(pl.Int64)
    after = pl.col("since_ns") - pl.col("rough") * pl.col("period")
    return (
        starts.with_columns(rough.alias("rough"))
        .with_columns(after.alias("after_ns"))
        .with_columns(
            pl.col("after_ns")
            .rolling_min(_WINDOW, min_samples=1, center=True)
            .over("timer_id")
            .alias("phase_ns")
        )
        .with_columns(
            pl.col("rough").alias("point"),
            (pl.col("after_ns") - pl.col("phase_ns")).alias("late_ns"),
        )
    )


def _around(value: pl.Expr) -> pl.Expr:
    return value.rolling_sum(_WINDOW, min_samples=1, center=True)


def _fixed(value: pl.Expr) -> pl.Expr:
    """As a whole number: sums of those do not depend on what was summed before."""
    return (value * _ONE).round().cast(pl.Int64)


def on_grid(starts: pl.DataFrame, first_phase_ns: int | None = None) -> pl.DataFrame:
    """Add the release that each start served, which depends on the row before; and the drift.

    ``first_phase_ns`` is the phase of the timer's first activation, where that is not among them.
    """
    first = pl.col("phase_ns").first().over("timer_id")
    if first_phase_ns is not None:
        first = pl.lit(first_phase_ns, dtype=pl.Int64)
    before = pl.col("point").shift(1).over("timer_id")
    served = pl.min_horizontal(before.fill_null(pl.col("point")) + 1, pl.col("point"))
    served = pl.when(before.is_null()).then("point").otherwise(served)
    return (
        starts.with_columns((pl.col("point") - served).alias("skipped"))
        .with_columns(
            (pl.col("late_ns") + pl.col("skipped") * pl.col("period")).alias("lateness_ns")
        )
        .with_columns(
            (pl.col("start_ns") - pl.col("lateness_ns")).alias("release_ns"),
            (pl.col("phase_ns") - first).alias("drift_ns"),
        )
    )
