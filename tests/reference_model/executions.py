"""Find the executions of callbacks, and what they show of executors, timers and the heap.

The rules are those of docs/model.md, under "Processes and objects", "What a thread does" and
"Heap". ``callback_start`` gets its ``instance``, every event the execution that it is ``within``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from operator import itemgetter
from typing import Any, TypeAlias

from reference_model.events import EXECUTOR, FOREVER, Event, Row, column, grouped, place
from reference_model.gaps import Gaps, Stretch

Spans: TypeAlias = list[tuple[int, int]]
WAITS = {"rclcpp_executor_wait_for_work", "executor_wait_start"}
STEP_NS = 10**8
AROUND, CUTS = 50, 16
_GRID = ("release_ns", "lateness_ns", "drift_ns", "skipped")


def callbacks(stretches: Iterable[Stretch]) -> list[Row]:
    """Return the executions of callbacks, in order of time."""
    starts = []
    for stretch in stretches:
        for e in stretch:
            if e["event"] == "callback_start":
                e["instance"] = _execution(e)
                starts.append(e)
            began = e.get("begun") or {}
            if began.get("stretch") == e["stretch"]:
                _end(began["instance"], e)
        running: list[Row] = []
        for e in stretch:
            if e["event"] == "callback_end" and e["begun"]:
                running = [row for row in running if row is not e["begun"]["instance"]]
            e["within"] = running[-1] if running else None
            if e["event"] == "callback_start" and e["instance"]["end_ns"] is not None:
                running.append(e["instance"])
    return [e["instance"] for e in sorted(starts, key=lambda e: e["n"])]


def functions(stretches: Iterable[Stretch]) -> list[Row]:
    """Return the executions of probed functions."""
    calls = []
    for stretch in stretches:
        entered: list[tuple[Event, Row]] = []
        for e in stretch:
            if e["event"] not in {"function_entry", "function_exit"}:
                continue
            for entry, call in entered:
                same = (entry["stack"], entry["function"]) == (e["stack"], e["function"])
                if same and e["event"] == "function_exit":
                    _end(call, e)
            entered = [(entry, call) for entry, call in entered if entry["stack"] > e["stack"]]
            if e["event"] == "function_entry":
                calls.append(_execution(e))
                entered.append((e, calls[-1]))
    return calls


def _execution(e: Event) -> Row:
    about = {name: column(e["of"], name) for name in ("kind", "name", "node", "symbol", "_owner")}
    intra = None
    if e["event"] == "callback_start" and about["kind"] in {None, "subscription"}:
        intra = e["is_intra_process"] != 0
    began = {"start_ns": e["time_ns"], "end_ns": None, "duration_ns": None}
    return {**place(e), **about, **began, "_callback": e["of"], "intra_process": intra}


def _end(execution: Row, e: Event) -> None:
    execution |= {"end_ns": e["time_ns"], "duration_ns": e["time_ns"] - execution["start_ns"]}


def executor_intervals(gaps: Gaps, instances: Iterable[Row]) -> list[Row]:
    """Return the rows of ``executor_intervals``."""
    ran = grouped(instances, itemgetter("_thread"))
    intervals, waits = _intervals(gaps)
    peers = _peers(ran, waits)
    rows: list[Row] = []
    for row in intervals:
        thread, begin, end = row["_thread"], row["begin_ns"], row["end_ns"]
        if end is None:
            rows.append(row | dict.fromkeys(("duration_ns", "executed", "callback_ns")))
            continue
        within = [i for i in ran[thread] if i["start_ns"] < end and begin <= (i["end_ns"] or end)]
        spans = _merged((i["start_ns"], i["end_ns"]) for i in within if i["end_ns"] is not None)
        waited = [span for peer in peers.get(thread, ()) for span in waits[peer]]
        idle = _idle(row, within) if waited and row["state"] == "busy" else []
        blocked = _merged((a, b) for part in idle for a, b in _clipped(waited, *part) if a < b)
        pieces = []
        for number, (a, b) in enumerate(pairwise([begin, *chain(*blocked), end])):
            piece = row | {"begin_ns": a, "end_ns": b, "duration_ns": b - a}
            piece["callback_ns"] = sum(d - c for c, d in _clipped(spans, a, b))
            if blocked:
                starts = (i["start_ns"] for i in within if i["kind"] in {"timer", "subscription"})
                piece["state"] = "blocked" if number % 2 else "busy"
                piece["executed"] = sum(a <= t < b for t in starts)
            if a < b or not blocked:
                pieces.append(piece)
        pieces[0]["executed"] += max(row["executed"] - sum(p["executed"] for p in pieces), 0)
        rows += pieces
    return rows


def _intervals(gaps: Gaps) -> tuple[list[Row], dict[Any, Spans]]:
    """Return all intervals, none of them blocked, and the waits of each thread."""
    rows = []
    latest, waits = {}, defaultdict(list)
    for stretch in gaps.stretches:
        row: Row | None = None
        for e in (e for e in stretch if e["event"] in {*EXECUTOR, "callback_start"}):
            latest[e["thread"]], waited = e["time_ns"], e["event"] in WAITS
            if e["event"] in EXECUTOR and (row is None or waited or row["state"] == "wait"):
                if row is not None:
                    row["end_ns"] = e["time_ns"]
                row = {
                    **place(e), "state": "wait" if waited else "busy", "begin_ns": e["time_ns"],
                    "end_ns": None, "timeout_ns": e.get("timeout"), "executed": 0,
                }  # fmt: skip
                rows.append(row)
            if e["event"] == "rclcpp_executor_execute" and row is not None:
                row["executed"] += 1
    for row in (row for row in rows if row["state"] == "wait"):
        begin, end = row["begin_ns"], row["end_ns"]
        if end is None and not gaps.losses and begin == latest[row["_thread"]]:
            # The last thing that a thread does may last for ever.
            end = FOREVER
        waits[row["_thread"]] += [] if end is None else [(begin, end)]
    return rows, waits


def _peers(ran: Mapping[Any, Iterable[Row]], waits: Mapping[Any, Spans]) -> dict[Any, set[Any]]:
    """Return the other threads of each thread's executor that ever waited."""
    by_callback = defaultdict(set)
    for thread, executions in ran.items():
        for i in (i for i in executions if i["_callback"]):
            by_callback[id(i["_callback"])].add(thread)
    linked = {thread: {thread} for thread in ran}
    for threads in by_callback.values():
        together = set().union(*(linked[thread] for thread in threads))
        linked |= dict.fromkeys(together, together)
    return {
        thread: {
            peer for peer in threads & waits.keys() - {thread}
            if not any(_clipped(waits[peer], *wait) for wait in waits.get(thread, ()))
        }
        for thread, threads in linked.items()
    }  # fmt: skip


def _idle(row: Row, executions: Iterable[Row]) -> Spans:
    """Return the parts of an interval that follow its callbacks, or all if nothing was executed."""
    begin, end = row["begin_ns"], row["end_ns"]
    spans = _merged(
        (i["start_ns"], end if i["end_ns"] is None else i["end_ns"])
        for i in executions if i["end_ns"] is not None or begin <= i["start_ns"]
    )  # fmt: skip
    if row["executed"] == 0 and all(stop <= begin for _, stop in spans):
        return [(begin, end)]
    return [(a, b) for (_, a), (b, _) in pairwise([*spans, (end, end)]) if a < end]


def _merged(spans: Iterable[tuple[int, int]]) -> Spans:
    """Merge overlapping spans, so that nested executions count once."""
    whole: Spans = []
    for start, end in sorted(spans):
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(end, whole[-1][1]))
        else:
            whole.append((start, end))
    return whole


def _clipped(spans: Iterable[tuple[int, int]], begin: int, end: int) -> Spans:
    return [(max(a, begin), min(b, end)) for a, b in spans if a < end and begin < b]


def timer_activations(instances: Iterable[Row], gaps: Gaps) -> list[Row]:
    """Make a row per execution of a timer's callback."""
    activations = [
        {**i, "_callback_instance": i, "_timer": i["_owner"], "period_ns": i["_owner"]["period_ns"],
         **dict.fromkeys(_GRID)}
        for i in instances if i["kind"] == "timer" and i["_owner"] is not None
    ]  # fmt: skip
    for rows in grouped(activations, lambda row: id(row["_timer"])).values():
        anew = []
        for n, (a, b) in enumerate(pairwise(rows), 1):
            between = b["_proc"], a["start_ns"] + 1, b["start_ns"] - 1
            if gaps.dropped(*between) or gaps.disordered(*between):
                anew.append(n)
        for begin, end in pairwise([0, *anew, len(rows)]):
            _of_one(rows[begin:end], rows[0]["period_ns"])
            few = anew and end - begin < 10
            for row in rows[begin : end if few else begin + (begin > 0)]:
                row.update(dict.fromkeys(_GRID))
    return activations


def _of_one(rows: Sequence[Row], period: int | None) -> None:
    """Fill the activations of one timer between which none is missing."""
    intervals = [None, *(b["start_ns"] - a["start_ns"] for a, b in pairwise(rows))]
    for row, interval in zip(rows, intervals, strict=True):
        jitter = None if None in {interval, period} else interval - period
        row.update(interval_ns=interval, jitter_ns=jitter)
    if not period or period < 0:
        return
    since = [row["start_ns"] - rows[0]["start_ns"] for row in rows]
    points = _points(since, period)
    served = _served(points)
    after = [s - point * period for s, point in zip(since, served, strict=True)]
    phases = [min(around) for around in _around(after)]
    skipped = [b - a - 1 for a, b in pairwise(served)]
    skipped.append(0 if points[-1] == served[-1] else None)
    for row, late, phase, skips in zip(rows, after, phases, skipped, strict=True):
        lateness, drift = late - phase, phase - phases[0]
        row.update(lateness_ns=lateness, drift_ns=drift, skipped=skips)
        row["release_ns"] = row["start_ns"] - lateness


def _points(since: Sequence[int], period: int) -> list[int]:
    """Return the number of the last point of the grid up to each start."""
    late, points = [], []
    for cut in range(CUTS):
        offset = cut * period // CUTS
        points.append([(s - offset) // period for s in since])
        served = _served(points[cut])
        lateness = [s - offset - n * period for s, n in zip(since, served, strict=True)]
        steps = [1, *(b - a for a, b in pairwise(served))]
        late.append([
            sum(around) + AROUND * period * (max(near) > 1)
            for around, near in zip(_around(lateness), _around(steps), strict=True)
        ])  # fmt: skip
    best = [min(range(CUTS), key=lambda cut: late[cut][n]) for n in range(len(since))]
    passed = (points[cut][n] - points[cut][n - 1] for n, cut in enumerate(best) if n)
    return list(accumulate(passed, initial=0))


def _served(points: Sequence[int]) -> list[int]:
    """Return the releases that activations serve: the latest that those after them leave."""
    latest = list(accumulate(reversed(points), lambda after, point: min(point, after - 1)))[::-1]
    return [latest[0], *map(min, latest[1:], (point + 1 for point in points))]


def _around(values: Sequence[Any]) -> list[Sequence[Any]]:
    return [values[max(i - AROUND, 0) : i + AROUND + 1] for i in range(len(values))]


def heap_tables(events: Iterable[Event], instances: Iterable[Row]) -> dict[str, list[Row]]:
    """Return ``heap``, ``callback_heap`` and ``callback_allocations``."""
    blocks, frees = _blocks(events)
    recorded = {row["_proc"] for row in (*blocks, *frees)}
    by_instance = grouped((*blocks, *frees), lambda row: id(row["_within"]))
    allocations = []
    for i in (i for i in instances if i["_proc"] in recorded):
        got = [row for row in by_instance[id(i)] if "until_ns" in row]
        gave = [row for row in by_instance[id(i)] if "until_ns" not in row]
        allocations.append(i | {
            "_callback_instance": i, "allocations": len(got), "frees": len(gave),
            "allocated_bytes": sum(row["size"] for row in got),
            "freed_bytes": sum(row["size"] or 0 for row in gave),
            "kept_bytes": sum(row["size"] for row in got if row["until_ns"] is None),
        })  # fmt: skip
    return {
        "heap": _over_time({**block, "_callback": None} for block in blocks),
        "callback_heap": _over_time(block for block in blocks if block["_callback"]),
        "callback_allocations": allocations,
    }


def _blocks(events: Iterable[Event]) -> tuple[list[Row], list[Row]]:
    """Return all blocks, and what was freed."""
    blocks, frees = [], []
    live: dict[Any, Row] = {}
    for e in events:
        provider, _, name = e["event"].partition(":")
        if provider != "lttng_ust_libc" or e["vpid"] is None:
            continue
        callback = column(e["within"], "_callback")
        about = {**place(e), "time_ns": e["time_ns"], "_within": e["within"], "_callback": callback}
        moved = name == "realloc" and (e["ptr"] or not e["size"])
        given = e["ptr"] if name == "free" else e["in_ptr"] if moved else None
        if given:
            block = live.get((e["proc"], given))
            if block and block["_before"] and moved and block["_thread"] != e["thread"]:
                # Another thread got the address after realloc had freed it.
                block["_before"], block = None, block["_before"]
            else:
                live.pop((e["proc"], given), None)
            if block:
                block["until_ns"] = e["time_ns"]
            frees.append({**about, "size": block and block["size"]})
        got = e["ptr"] if name != "posix_memalign" else e["out_ptr"] if e["result"] == 0 else None
        if got and name != "free":
            before = live.get((e["proc"], got))
            if before is not None:
                before["until_ns"] = e["time_ns"]
            size = e["size"] * (e["nmemb"] if name == "calloc" else 1)
            block = {**about, "size": size, "until_ns": None, "_before": before}
            live[e["proc"], got] = block
            blocks.append(block)
    return blocks, frees


def _over_time(blocks: Iterable[Row]) -> list[Row]:
    """Return a row per process (and callback) and step in which its blocks changed."""
    rows = []
    for same in grouped(blocks, lambda b: (b["_proc"], id(b["_callback"]))).values():
        about = {name: same[0][name] for name in ("host", "vpid", "_callback")}
        about |= {name: column(about["_callback"], name) for name in ("kind", "name", "node")}
        changes = [(b["time_ns"], 1, b["size"]) for b in same]
        changes += [(b["until_ns"], -1, -b["size"]) for b in same if b["until_ns"] is not None]
        totals = dict.fromkeys(("live_bytes", "live_blocks", "allocated_bytes", "allocations"), 0)
        steps: dict[int, Row] = {}
        # At the same time, blocks are freed before others are allocated.
        for time_ns, n, size in sorted(changes, key=itemgetter(0, 1)):
            for name, amount in zip(totals, (size, n, max(size, 0), max(n, 0)), strict=True):
                totals[name] += amount
            step = steps.setdefault(time_ns // STEP_NS, {**about, "peak_bytes": 0})
            peak = max(step["peak_bytes"], totals["live_bytes"])
            step |= {**totals, "time_ns": time_ns, "peak_bytes": peak}
        rows += steps.values()
    return rows
