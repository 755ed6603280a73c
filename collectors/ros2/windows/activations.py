"""Timer activations, timer by timer."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.timers import AROUND, on_grid, with_mean, with_phase, with_turns
from roslens.collectors.ros2.windows.buckets import Buckets
from roslens.collectors.ros2.windows.executions import TIMER_GROUPS
from roslens.collectors.ros2.windows.run import Run
from roslens.collectors.work import State

_ROWS = 500_000


def find_activations(run: Run, starts: Buckets) -> None:
    """Write all activations; `starts` of `find_executions`."""
    found = Buckets(run.work, "activations", "start_ns", run.windows.edges)

    def by_timer(group: int, state: State) -> State:
        rows = starts.read(group).drop("group")
        place = 0
        for timer in rows["timer_id"].unique().sort():
            mine = rows.filter(timer_id=timer).join(
                run.objects.timers.select("timer_id", "period_ns"), on="timer_id"
            )
            for part in _activations(mine.sort("start_ns", "callback_instance_id")):
                found.add(part, group * 10**6 + place)
                place += 1
        return state

    # Whether there is any or not, there is a schema.
    found.put(_of(starts.read(0).clear(), run), 0)
    run.work.stage("timers", TIMER_GROUPS, by_timer)

    def finish(number: int, state: State) -> State:
        run.write("timer_activations", found.read(number).sort("callback_instance_id"), number)
        return state

    run.work.stage("timer activations", len(run.windows), finish)


def _of(starts: pl.DataFrame, run: Run) -> pl.DataFrame:
    timers = run.objects.timers.select("timer_id", "period_ns")
    return pl.concat(_activations(starts.drop("group").join(timers, on="timer_id")))


def _activations(starts: pl.DataFrame, rows: int | None = None) -> list[pl.DataFrame]:
    """The activations of one timer, some after the other.

    Each is estimated with the `AROUND` ones on either side, and where their mean lies with as
    many around those.
    """
    rows = rows or _ROWS
    starts = starts.with_columns(pl.col("start_ns").first().alias("first_ns"))
    count, turned, parts = starts.height, pl.Series([], dtype=pl.Float64), []
    first: int | None = None
    for begin in range(0, max(count, 1), rows):
        end = min(begin + rows, count)
        # One more before it: an activation's release follows from the one before.
        inner, outer = max(begin - AROUND - 1, 0), max(begin - 2 * AROUND - 1, 0)
        until = min(end + AROUND, count)
        means = with_mean(starts.slice(outer, min(until + AROUND, count) - outer))
        means = means.slice(inner - outer, until - inner)
        turns = with_turns(means)
        if turned.len():
            turns = turns.with_columns(pl.col("turns") + turned[0])
        phased = with_phase(turns)
        if not begin and count:
            first = phased["phase_ns"][0]
        found = on_grid(phased, first)
        parts.append(found.slice(begin - inner, end - begin))
        following = max(end - AROUND - 1, 0) - inner
        turned = turns["turns"].slice(following, 1)
    return parts
