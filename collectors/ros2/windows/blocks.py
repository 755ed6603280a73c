"""The heap: blocks are paired with what frees them among those of nearby addresses."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.callbacks import enclosing
from roslens.collectors.ros2.events import HEAP_FIELDS
from roslens.collectors.ros2.heap import (
    LIVE,
    STEP_NS,
    SUMS,
    Heap,
    begins_and_ends,
    heap_calls,
    of_callbacks,
    over_time,
    paired,
    sorted_changes,
    sums_of,
    with_live,
    with_sums,
    without_partner,
)
from roslens.collectors.ros2.types import I32, I64
from roslens.collectors.ros2.windows.buckets import Buckets
from roslens.collectors.ros2.windows.run import Run, frame_of, number_of
from roslens.collectors.work import State

_NUMBER = "callback_instance_id"
_PER_GROUP = 1_000_000
_GROUP = "group"
_CHANGE = {
    "proc": I32, _NUMBER: I64, "callback_id": I64, "order": I64, "time_ns": I64, "bytes": I64,
    "n": I32,
}  # fmt: skip


def find_blocks(run: Run) -> Heap:
    """Write all tables of the heap; returns the counts."""
    scans = [run.events.scan(name) for name in HEAP_FIELDS]
    count = sum(x.select(pl.len()).collect().item() for x in scans if x is not None)
    if not count:
        return _nothing(run)
    groups = 1 + count // _PER_GROUP
    spread = Buckets(run.work, "heap_calls", _GROUP)

    def look(number: int, state: State) -> State:
        calls, failed = heap_calls(run.part(number))
        # Blocks are aligned: their lowest bits are equal.
        group = ((pl.col("ptr") // 16) % groups).cast(I64).alias(_GROUP)
        spread.add(calls.with_columns(group), number)
        seen = pl.concat([frame_of(state, "seen"), calls.select("proc").unique()])
        return {"failed": number_of(state, "failed") + failed, "seen": seen.unique()}

    start: State = {"failed": 0, "seen": pl.DataFrame(schema={"proc": I32})}
    seen = run.work.stage("heap", len(run.windows), look, start)
    if frame_of(seen, "seen").is_empty():
        return _nothing(run, number_of(seen, "failed"))
    by_time = Buckets(run.work, "heap_paired", "time_ns", run.windows.edges)

    def pair(group: int, state: State) -> State:
        calls = paired(spread.read(group).drop(_GROUP)).with_columns(
            pl.int_range(pl.len(), dtype=I64).alias("place")
        )
        by_time.add(calls, group)
        unknown, unseen = without_partner(calls)
        return {
            "unknown": number_of(state, "unknown") + unknown,
            "unseen": number_of(state, "unseen") + unseen,
        }

    alone = run.work.stage("blocks", groups, pair, {"unknown": 0, "unseen": 0})
    spread.drop()
    changes = Buckets(run.work, "heap_changes", "time_ns", run.windows.edges)
    sums = Buckets(run.work, "heap_sums", "start_ns", run.windows.edges)

    def place(number: int, state: State) -> State:
        # As in one piece: by address, then by time.
        calls = by_time.read(number).sort("time_ns", "proc", "ptr", "place").drop("place")
        runs = run.runs(number).instances
        within = enclosing(runs, calls.select("thread", "time_ns"))
        order = pl.int_range(pl.len(), dtype=I64) + number_of(state, "count")
        calls = calls.with_columns(within, order.alias("order")).join(
            runs.select(_NUMBER, "callback_id", "start_ns"),
            on=_NUMBER, how="left", maintain_order="left",
        )  # fmt: skip
        changes.add(
            begins_and_ends(calls, "callback_id", "order")
            .select(list(_CHANGE))
            .cast(pl.Schema(_CHANGE)),
            number,
        )
        found = sums_of(calls).join(runs.select(_NUMBER, "start_ns"), on=_NUMBER)
        sums.add(found, number)
        return {"count": number_of(state, "count") + calls.height}

    run.work.stage("heap of callbacks", len(run.windows), place, {"count": 0})
    _write(run, changes, sums, frame_of(seen, "seen"))
    nothing = pl.DataFrame()
    return Heap(
        processes=nothing,
        callbacks=nothing,
        instances=nothing,
        unknown_frees=number_of(alone, "unknown"),
        unseen_frees=number_of(alone, "unseen"),
        failed=number_of(seen, "failed"),
    )


def _nothing(run: Run, failed: int = 0) -> Heap:
    nothing = pl.DataFrame()
    for table in ("heap", "callback_heap", "callback_allocations"):
        run.write(table, nothing, 0)
    return Heap(processes=nothing, callbacks=nothing, instances=nothing, failed=failed)


def _write(run: Run, changes: Buckets, sums: Buckets, seen: pl.DataFrame) -> None:
    """Write the tables, each step of time once its changes are complete."""
    keys = {"heap": ["proc"], "callback_heap": ["proc", "callback_id"]}

    def write(number: int, state: State) -> State:
        mine = changes.read(number).sort(
            "time_ns", pl.col("n") > 0, "order", maintain_order=True
        )  # fmt: skip
        every = sorted_changes(pl.concat([frame_of(state, "rest"), mine]))
        end = run.windows.end(number)
        over = pl.col("time_ns") // STEP_NS < (2**62 if end is None else end // STEP_NS)
        whole, after = every.filter(over), {"rest": every.filter(~over)}
        for table, of in keys.items():
            rows = whole.drop_nulls(of)
            before = frame_of(state, table)
            rows = _going_on(with_live(rows, of), before, of)
            last = rows.unique(of, keep="last", maintain_order=True).select(before.columns)
            after[table] = pl.concat([before, last]).unique(of, keep="last", maintain_order=True)
            found = over_time(rows, of) if table == "heap" else of_callbacks(rows, run.callbacks)
            run.write(table, found, number)
        own = sums.read(number).drop("start_ns").group_by(_NUMBER).agg(pl.col(list(SUMS)).sum())
        instances = with_sums(run.instances.read(number), own, seen)
        run.write("callback_allocations", instances, number)
        return dict(after)

    start: State = {"rest": pl.DataFrame(schema=_CHANGE)}
    for table, of in keys.items():
        schema = {name: _CHANGE[name] for name in of} | dict.fromkeys(LIVE, I64)
        start[table] = pl.DataFrame(schema=schema)
    run.work.stage("heap over time", len(run.windows), write, start)


def _going_on(rows: pl.DataFrame, before: pl.DataFrame, of: list[str]) -> pl.DataFrame:
    """Add to running sums what they had come to before."""
    known = before.rename({name: f"before_{name}" for name in LIVE})
    joined = rows.join(known, on=of, how="left", maintain_order="left")
    return joined.with_columns(
        pl.col(name) + pl.col(f"before_{name}").fill_null(0) for name in LIVE
    ).drop(f"before_{name}" for name in LIVE)
