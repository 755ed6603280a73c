"""Find how late each activation of a timer was, and which releases passed without one.

rcl calls a timer once however late it is, then continues with the next point of its grid
(``rcl_timer_call``). So an activation serves the first release after the activation before it, and
the releases up to that of the next activation are skipped. Each activation serves a release of its
own: one that seems early for a release that the next one serves was late for the one before, and if
an executor queues the calls of timers, several in a row are late.

No event shows the grid's phase: timers are reset, and their clock (often ``CLOCK_MONOTONIC_RAW``)
runs at a slightly different rate from that of the events. The phase is estimated from the
activations around, in two steps: of some places where the circle of one period can be cut, the one
by which they were least late in all is chosen, where possible among those by which no release was
skipped; then the least late of them is exactly on the grid.
"""

from __future__ import annotations

import polars as pl

_AROUND = 50
"""The number of activations on either side that the phase is estimated from."""
_WIDTH = 2 * _AROUND + 1
_FEW = 10
"""The grid cannot be estimated from fewer activations between gaps."""
_CUTS = 16
"""The number of places where the circle of one period may be cut."""
_PART = "part"


def timer_activations(starts: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the table, with the other columns of `starts`.

    Parameters
    ----------
    starts
        Executions of timers' callbacks, in their order: ``timer_id``, ``period_ns``, ``start_ns``,
        and whether other activations may be missing before it (``apart``).
    """
    if starts.is_empty():
        return starts
    start, period, served = (pl.col(name) for name in ("start_ns", "period_ns", "served"))
    rows = starts.with_columns(
        (pl.col("timer_id") * 2**32 + pl.col("apart").cum_sum().over("timer_id")).alias(_PART),
        pl.when(period > 0).then(period).alias("grid_ns"),
    ).with_columns(
        start.diff().over(_PART).alias("interval_ns"),
        (start - start.first()).over(_PART).alias("since"),
    )
    rows = rows.with_columns(_points().over(_PART).alias("point"))
    rows = rows.with_columns(_served(pl.col("point")).over(_PART).alias("served"))
    rows = rows.with_columns((pl.col("since") - served * pl.col("grid_ns")).alias("after"))
    phase = pl.col("after").rolling_min(_WIDTH, min_samples=1, center=True)
    rows = rows.with_columns(
        (pl.col("after") - phase).over(_PART).alias("lateness_ns"),
        (phase - phase.first()).over(_PART).alias("drift_ns"),
        (served.shift(-1) - served - 1).over(_PART).alias("skipped"),
    ).with_columns(
        (pl.col("interval_ns") - period).alias("jitter_ns"),
        (start - pl.col("lateness_ns")).alias("release_ns"),
        # The last activation skipped nothing, if no release lies between its own and its start.
        pl.col("skipped").fill_null(pl.when(pl.col("point") == served).then(0)),
    )
    few = (pl.len().over(_PART) < _FEW) & pl.col("apart").any().over("timer_id")
    known = pl.when(~(pl.col("apart") | few))
    grid = ("release_ns", "lateness_ns", "drift_ns", "skipped")
    return rows.with_columns(known.then(name).alias(name) for name in grid)


def _points() -> pl.Expr:
    """Return the last point of the grid up to each start, of the activations of one timer."""
    since, period = pl.col("since"), pl.col("grid_ns")

    def point(start: pl.Expr, cut: pl.Expr | int) -> pl.Expr:
        return (start - cut * period // _CUTS) // period

    def cost(cut: int) -> pl.Expr:
        served = _served(point(since, cut))
        late = since - cut * period // _CUTS - served * period
        step = served.diff().fill_null(1).rolling_max(_WIDTH, min_samples=1, center=True)
        # Late for half a period each is likelier than a release skipped without need.
        needless = (step.clip(1, 2) - 1) * _AROUND * period
        # In one number with the cut, of which the least is sought.
        return (late.rolling_sum(_WIDTH, min_samples=1, center=True) + needless) * _CUTS + cut

    best = pl.min_horizontal(cost(cut) for cut in range(_CUTS)) % _CUTS
    passed = point(since, best) - point(since.shift(1), best)
    return pl.when(period.is_not_null()).then(passed.fill_null(0).cum_sum())


def _served(point: pl.Expr) -> pl.Expr:
    """Return the releases that activations serve, from the last points of the grid before each."""
    place = pl.int_range(pl.len())
    latest = (point - place).cum_min(reverse=True) + place
    return pl.min_horizontal(latest, point.shift(1) + 1)
