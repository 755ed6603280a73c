"""Follow the heap of processes whose allocations were recorded (``lttng_ust_libc:*``).

Decided when the event comes, with a state per address of a process: an allocation begins a block;
``free`` ends the block at its address, ``realloc`` ends one and begins another, unless it failed.
Freeing an address that no event returned ends nothing. If an address is returned again although no
event freed it, its block ends there. But the event of realloc comes after it has freed: if another
thread got the address meanwhile, realloc ended the block before that one. Without the context vpid,
the process of an address is not known, and the event is ignored.

Decided at the end: the live bytes over time, as a row per process (and callback) and step of
100 ms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from reference_model.callbacks import Callbacks, within
from reference_model.events import Event
from reference_model.objects import Row
from reference_model.walk import place

STEP_NS = 10**8


class Heap:
    """All blocks. Must get events after `Callbacks`."""

    def __init__(self, callbacks: Callbacks) -> None:
        self.callbacks = callbacks
        self.blocks: list[Row] = []
        self.frees: list[Row] = []
        self._live: dict[Any, Row] = {}

    def on_lttng_ust_libc_malloc(self, e: Event) -> None:
        self._return(e, e["ptr"], e["size"])

    on_lttng_ust_libc_memalign = on_lttng_ust_libc_malloc

    def on_lttng_ust_libc_calloc(self, e: Event) -> None:
        self._return(e, e["ptr"], e["size"] * e["nmemb"])

    def on_lttng_ust_libc_posix_memalign(self, e: Event) -> None:
        self._return(e, e["out_ptr"] if e["result"] == 0 else 0, e["size"])

    def on_lttng_ust_libc_realloc(self, e: Event) -> None:
        if e["ptr"] or not e["size"]:
            live = self._live.get((e["proc"], e["in_ptr"]))
            before = live and live["_before"]
            if before and live and live["_thread"] != e["thread"]:
                before["until_ns"], live["_before"] = e["time_ns"], None
                self._freed(e, before)
            else:
                self._free(e, e["in_ptr"])
        self._return(e, e["ptr"], e["size"])

    def on_lttng_ust_libc_free(self, e: Event) -> None:
        self._free(e, e["ptr"])

    def _return(self, e: Event, address: int, size: int) -> None:
        if not address or e["vpid"] is None:
            return
        before = self._live.get((e["proc"], address))
        if before is not None:
            before["until_ns"] = e["time_ns"]
        block = {**self._call(e, size), "until_ns": None, "_before": before}
        self._live[e["proc"], address] = block
        self.blocks.append(block)

    def _free(self, e: Event, address: int) -> None:
        if address and e["vpid"] is not None:
            block = self._live.pop((e["proc"], address), None)
            if block is not None:
                block["until_ns"] = e["time_ns"]
            self._freed(e, block)

    def _freed(self, e: Event, block: Row | None) -> None:
        self.frees.append(self._call(e, block["size"] if block else None))

    def _call(self, e: Event, size: int | None) -> Row:
        running = self.callbacks.running(e["thread"])
        return {**place(e), "time_ns": e["time_ns"], "size": size, "_running": running}

    # ------------------------------------------------------------ the end

    def finish(self) -> None:
        for call in (*self.blocks, *self.frees):
            call["_instance"] = within(call["_running"])

    def processes(self) -> list[Row]:
        """Return the rows of ``heap``."""
        return _over_time(self.blocks, lambda block: (block["_proc"], None))

    def by_callback(self) -> list[Row]:
        """Return the rows of ``callback_heap``."""
        blocks = [b for b in self.blocks if b["_instance"] and b["_instance"]["_callback"]]
        by_id = {id(b["_instance"]["_callback"]): b["_instance"]["_callback"] for b in blocks}
        rows = _over_time(blocks, lambda b: (b["_proc"], id(b["_instance"]["_callback"])))
        for row in rows:
            callback = row["_callback"] = by_id[row["_of"]]
            row |= {name: callback[name] for name in ("kind", "name", "node")}
        return rows

    def instances(self) -> list[Row]:
        """Return the rows of ``callback_allocations``, for processes with a recorded heap."""
        recorded = {call["_proc"] for call in (*self.blocks, *self.frees)}
        got, gave = defaultdict(list), defaultdict(list)
        for calls, by_instance in ((self.blocks, got), (self.frees, gave)):
            for call in calls:
                by_instance[id(call["_instance"])].append(call)
        return [
            instance
            | {
                "_callback_instance": instance,
                "allocations": len(got[id(instance)]),
                "allocated_bytes": sum(b["size"] for b in got[id(instance)]),
                "frees": len(gave[id(instance)]),
                "freed_bytes": sum(f["size"] or 0 for f in gave[id(instance)]),
                "kept_bytes": sum(b["size"] for b in got[id(instance)] if b["until_ns"] is None),
            }
            for instance in self.callbacks.instances
            if instance["_proc"] in recorded
        ]


def _over_time(blocks: Iterable[Row], key_of: Callable[[Row], Any]) -> list[Row]:
    changes = [(b["time_ns"], 1, b["size"], key_of(b)) for b in blocks]
    changes += [
        (b["until_ns"], -1, -b["size"], key_of(b)) for b in blocks if b["until_ns"] is not None
    ]
    # At the same time, blocks are freed before others are allocated.
    changes.sort(key=lambda change: change[:2])
    sums: dict[Any, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    steps: dict[Any, Row] = {}
    for time_ns, n, size, key in changes:
        totals = sums[key]
        for i, amount in enumerate((size, n, max(size, 0), max(n, 0))):
            totals[i] += amount
        proc = key[0]
        row = steps.setdefault(
            (*key, time_ns // STEP_NS),
            {"host": proc[0], "vpid": proc[2], "_of": key[1], "peak_bytes": totals[0]},
        )
        names = ("live_bytes", "live_blocks", "allocated_bytes", "allocations")
        row |= {"time_ns": time_ns, **dict(zip(names, totals, strict=True))}
        row["peak_bytes"] = max(row["peak_bytes"], totals[0])
    return list(steps.values())
