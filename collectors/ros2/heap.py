"""The heap of processes that ran with LTTng's allocator wrapper (``lttng_ust_libc:*``).

A block lives from the event that returned its address to the one that frees that address: by
``free``, or by ``realloc``, which frees one address and returns another one unless it fails. A
freed address that no event returned was allocated before the recording, or by the parent process:
it is counted and not subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from roslens.collectors.ros2.callbacks import Callbacks, enclosing
from roslens.collectors.ros2.events import HEAP, HEAP_FIELDS, Events
from roslens.collectors.ros2.types import I64

STEP_NS = 100_000_000
"""One row per process, or callback, and this time in which its heap changed."""
LIVE = ("live_bytes", "live_blocks", "allocated_bytes", "allocations")
SUMS = ("allocations", "allocated_bytes", "frees", "freed_bytes", "kept_bytes")


@dataclass(frozen=True)
class Heap:
    """The heap, by who allocated.

    Attributes
    ----------
    processes, callbacks
        Over time: columns of the tables ``heap`` and ``callback_heap``, and proc.
    instances
        Per execution: columns of ``callback_allocations``, and proc and thread.
    unknown_frees
        Freed addresses that no event had returned.
    unseen_frees
        Addresses that were returned again although no event had freed them.
    failed
        Allocations that failed.
    """

    processes: pl.DataFrame
    callbacks: pl.DataFrame
    instances: pl.DataFrame
    unknown_frees: int = 0
    unseen_frees: int = 0
    failed: int = 0


def find_heap(events: Events, callbacks: Callbacks) -> Heap:
    """What was allocated, by process and by callback."""
    nothing = pl.DataFrame()
    if not any(map(events.declared, HEAP_FIELDS)):
        return Heap(processes=nothing, callbacks=nothing, instances=nothing)
    calls, failed = heap_calls(events)
    if calls.is_empty():
        return Heap(processes=nothing, callbacks=nothing, instances=nothing, failed=failed)
    calls = paired(calls)
    unknown, unseen = without_partner(calls)
    number = "callback_instance_id"
    calls = calls.sort("time_ns", maintain_order=True)
    calls = calls.with_columns(enclosing(callbacks.instances, calls.select("thread", "time_ns")))
    changes = sorted_changes(begins_and_ends(calls))
    of = callbacks.instances.select(number, "callback_id")
    by_callback = changes.filter(pl.col(number).is_not_null()).join(
        of, on=number, how="left", maintain_order="left"
    )
    return Heap(
        processes=over_time(with_live(changes, ["proc"]), ["proc"]),
        callbacks=of_callbacks(
            with_live(by_callback.drop_nulls("callback_id"), ["proc", "callback_id"]),
            callbacks.objects,
        ),
        instances=with_sums(callbacks.instances, sums_of(calls), calls["proc"].unique().to_frame()),
        unknown_frees=unknown,
        unseen_frees=unseen,
        failed=failed,
    )


def heap_calls(events: Events) -> tuple[pl.DataFrame, int]:
    """Blocks returned and addresses freed: proc, thread, time_ns, ptr, size, kind; and failures.

    ``kind`` orders what one realloc does: 0 frees (realloc), 1 returns, 2 frees (free). Calls of
    nobody knows which process are left out: one address is many blocks there.
    """
    loaded = {name.removeprefix(HEAP): events[name].drop_nulls("proc") for name in HEAP_FIELDS}
    size, ptr = pl.col("size"), pl.col("ptr")
    loaded["calloc"] = loaded["calloc"].with_columns(size * pl.col("nmemb"))
    aligned = loaded["posix_memalign"].rename({"out_ptr": "ptr"})
    loaded["posix_memalign"] = aligned.with_columns(
        pl.when(pl.col("result") == 0).then(ptr).otherwise(0).alias("ptr")
    )
    columns = ["proc", "thread", "time_ns", "ptr", "size", "kind"]
    parts, failed = [], 0
    for name, frame in loaded.items():
        if name == "free":
            continue
        failed += frame.filter((ptr == 0) & (size > 0)).height
        returned = frame.filter(ptr != 0)
        parts.append(returned.with_columns(pl.lit(1, pl.Int8).alias("kind")).select(columns))
    gone = loaded["realloc"].filter((pl.col("in_ptr") != 0) & ((ptr != 0) | (size == 0)))
    for frame, kind in ((gone.drop("ptr").rename({"in_ptr": "ptr"}), 0), (loaded["free"], 2)):
        parts.append(
            frame.filter(ptr != 0)
            .with_columns(
                pl.lit(kind, pl.Int8).alias("kind"), pl.lit(None, pl.UInt64).alias("size")
            )
            .select(columns)
        )
    return pl.concat(parts).with_columns(size.cast(I64)), failed


def paired(calls: pl.DataFrame) -> pl.DataFrame:
    """Put blocks and frees of one address together.

    Adds ``is_block``; to blocks ``until_ns`` (freed then; null: never) and ``unseen``; to frees
    the ``size`` of their block.
    """
    address = ["proc", "ptr"]
    calls = calls.sort(*address, "time_ns", "kind", maintain_order=True)
    same = pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in address)
    block = pl.col("kind") == 1
    # realloc tells after it has freed: meanwhile another thread may have got the address.
    late = (
        (pl.col("kind") == 0)
        & same
        & block.shift(1)
        & same.shift(1)
        & block.shift(2)
        & (pl.col("thread") != pl.col("thread").shift(1))
    ).fill_null(value=False)
    place = pl.int_range(pl.len())
    swapped = pl.when(late).then(place - 1).when(late.shift(-1)).then(place + 1).otherwise(place)
    calls = calls.with_columns(swapped.alias("place")).sort("place").drop("place")
    follows = pl.all_horizontal(pl.col(name) == pl.col(name).shift(-1) for name in address)
    taken_again = (follows & block & block.shift(-1)).fill_null(value=False)
    freed_ns = pl.when(follows & block).then(pl.col("time_ns").shift(-1))
    its_block = (same & block.shift(1)).fill_null(value=False)
    return calls.with_columns(
        block.alias("is_block"),
        freed_ns.alias("until_ns"),
        taken_again.alias("unseen"),
        pl.when(block).then("size").when(its_block).then(pl.col("size").shift(1)).alias("size"),
    )


def without_partner(calls: pl.DataFrame) -> tuple[int, int]:
    """Of paired calls, how many freed what is not known, and how many were never seen freed."""
    unknown = calls.filter(~pl.col("is_block") & pl.col("size").is_null()).height
    return unknown, calls.filter(pl.col("is_block") & pl.col("unseen")).height


def begins_and_ends(calls: pl.DataFrame, *more: str) -> pl.DataFrame:
    """Each block's end and begin: proc, callback_instance_id (that allocated it), `more` columns
    of the call, time_ns, the change of live bytes and blocks.
    """  # noqa: D205
    blocks = calls.filter("is_block")
    common = ["proc", "callback_instance_id", *more]
    begin = blocks.select(*common, "time_ns", pl.col("size").alias("bytes"), pl.lit(1).alias("n"))
    end = blocks.filter(pl.col("until_ns").is_not_null()).select(
        *common,
        pl.col("until_ns").alias("time_ns"),
        (-pl.col("size")).alias("bytes"),
        pl.lit(-1).alias("n"),
    )
    return pl.concat([end, begin])


def sorted_changes(changes: pl.DataFrame) -> pl.DataFrame:
    """Sort `begins_and_ends` by time; of the same time ends come first."""
    return changes.sort("time_ns", maintain_order=True)


def with_live(changes: pl.DataFrame, of: list[str]) -> pl.DataFrame:
    """Add what has been allocated up to each change, and what lives: the columns `LIVE`."""
    size, more = pl.col("bytes"), pl.col("n") > 0
    return changes.with_columns(
        size.cum_sum().over(of).alias("live_bytes"),
        pl.col("n").cum_sum().over(of).cast(I64).alias("live_blocks"),
        pl.when(more).then(size).otherwise(0).cum_sum().over(of).alias("allocated_bytes"),
        more.cast(I64).cum_sum().over(of).alias("allocations"),
    )


def over_time(changes: pl.DataFrame, of: list[str]) -> pl.DataFrame:
    """One row per `of` and step of time, of changes `with_live`."""
    return (
        changes.group_by(
            *of, pl.col("time_ns").floordiv(STEP_NS).alias("step"), maintain_order=True
        )
        .agg(
            pl.col("time_ns").last(),
            pl.col("live_bytes").max().alias("peak_bytes"),
            pl.col(list(LIVE)).last(),
        )
        .sort("time_ns", *of)
    )


def of_callbacks(changes: pl.DataFrame, objects: pl.DataFrame) -> pl.DataFrame:
    """The same by callback, with what is known of it."""
    known = objects.select("callback_id", "kind", "name", "node")
    found = over_time(changes, ["proc", "callback_id"])
    return found.join(known, on="callback_id", how="left", maintain_order="left")


def sums_of(calls: pl.DataFrame) -> pl.DataFrame:
    """What each execution allocated and freed: callback_instance_id and the columns `SUMS`."""
    number = "callback_instance_id"
    block, size = pl.col("is_block"), pl.col("size")
    return (
        calls.filter(pl.col(number).is_not_null())
        .group_by(number)
        .agg(
            block.sum().cast(I64).alias("allocations"),
            size.filter(block).sum().alias("allocated_bytes"),
            (~block).sum().cast(I64).alias("frees"),
            size.filter(~block).sum().alias("freed_bytes"),
            size.filter(block & pl.col("until_ns").is_null()).sum().alias("kept_bytes"),
        )
    )


def with_sums(instances: pl.DataFrame, sums: pl.DataFrame, recorded: pl.DataFrame) -> pl.DataFrame:
    """Every execution of a process whose heap was recorded; `recorded` has its ``proc``."""
    return (
        instances.join(recorded, on="proc", how="semi", maintain_order="left")
        .join(sums, on="callback_instance_id", how="left", maintain_order="left")
        .with_columns(pl.col(list(SUMS)).fill_null(0))
    )
