"""Service calls, put together among those of equal key; and the goals of actions."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from roslens.collectors.ros2.actions import find_action_goals
from roslens.collectors.ros2.callbacks import Callbacks
from roslens.collectors.ros2.events import nothing
from roslens.collectors.ros2.services import (
    BEGIN,
    callbacks_alone,
    in_order,
    joined_calls,
    requests_sent,
    requests_taken,
    responses_sent,
    responses_taken,
    service_events_happened,
    unknown_ends,
)
from roslens.collectors.ros2.types import I64, TEXT
from roslens.collectors.ros2.windows.buckets import Buckets
from roslens.collectors.ros2.windows.part import Part
from roslens.collectors.ros2.windows.run import Run, frame_of, number_of
from roslens.collectors.work import State

_TAKEN = "rmw_take_request"
_EVENTS = ("rmw_send_request", _TAKEN, "rmw_send_response", "rmw_take_response")
_PER_GROUP = 500_000
_GROUP = "group"


def find_served(run: Run, told: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Write all service calls; returns the goals of actions, and `unknown_ends`."""
    calls = _together(run) if service_events_happened(run.events) else None

    def finish(number: int, state: State) -> State:
        if calls is None:
            found = callbacks_alone(run.seen(run.instances.read(number)))
        else:
            found = in_order(calls.read(number).drop("began_ns"))
        run.write("service_calls", found, number)
        service = pl.col("service").cast(TEXT)
        of_actions = found.filter(service.str.contains("/_action/", literal=True))
        before = [frame_of(state, "actions")] if "actions" in state else []
        return {
            "actions": pl.concat([*before, of_actions]),
            "unknown": number_of(state, "unknown") + unknown_ends(found),
        }

    state = run.work.stage("service calls", len(run.windows), finish, {"unknown": 0})
    goals = find_action_goals(run.objects, frame_of(state, "actions"), told)
    return goals, number_of(state, "unknown")


def _together(run: Run) -> Buckets:
    """Calls by stretch of their begin."""
    events = [run.events.scan(name) for name in _EVENTS]
    count = sum(x.select(pl.len()).collect().item() for x in events if x is not None)
    groups = 1 + count // _PER_GROUP
    parts: dict[str, Callable[[Part, Callbacks], pl.DataFrame]] = {
        "requests_sent": lambda part, runs: requests_sent(part, run.objects, runs),
        "requests_taken": lambda part, runs: requests_taken(part, run.objects, runs),
        "responses_sent": lambda part, _: responses_sent(part, run.objects),
        "responses_taken": lambda part, _: responses_taken(part, run.objects),
    }
    spread = {name: Buckets(run.work, name, _GROUP) for name in parts}
    low, sequence = pl.col("gid_low").fill_null(0), pl.col("sequence_number").fill_null(0).abs()
    group = ((low % groups).cast(I64) + sequence % groups) % groups

    def look(number: int, state: State) -> State:
        part = run.part(number, {_TAKEN: frame_of(state, "waiting")})
        runs = run.runs(number)
        waits = pl.Series([], dtype=pl.UInt32) if run.last(number) else _waiting(part[_TAKEN], runs)
        rows = part[_TAKEN].with_row_index("row")
        waiting = pl.col("row").is_in(waits.implode())
        part.instead(_TAKEN, rows.filter(~waiting).drop("row"))
        for name, find in parts.items():
            spread[name].add(find(part, runs).with_columns(group.cast(I64).alias(_GROUP)), number)
        return {"waiting": rows.filter(waiting).drop("row")}

    run.work.stage("requests", len(run.windows), look, {"waiting": nothing(_TAKEN)})
    calls = Buckets(run.work, "calls_served", "began_ns", run.windows.edges)

    def join(number: int, state: State) -> State:
        sent, taken, answered, got = (spread[name].read(number).drop(_GROUP) for name in parts)
        both = joined_calls(sent, taken, answered, got, run.objects)
        calls.add(both.with_columns(BEGIN.alias("began_ns")), number)
        return state

    run.work.stage("calls joined", groups, join)
    for rows in spread.values():
        rows.drop()
    return calls


def _waiting(taken: pl.DataFrame, runs: Callbacks) -> pl.Series:
    """The rows of the last requests of threads that ran no callback since."""
    last = taken.with_row_index("row").unique("thread", keep="last", maintain_order=True)
    since = runs.instances.group_by("thread").agg(pl.col("start_ns").max())
    found = last.join(since, on="thread", how="left", maintain_order="left")
    return found.filter(
        pl.col("start_ns").is_null() | (pl.col("start_ns") < pl.col("time_ns"))
    )["row"]  # fmt: skip
