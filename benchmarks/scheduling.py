"""Where the time of callbacks went, on traces of real kernels, against a plain loop.

``python benchmarks/scheduling.py FOLDER... [--callbacks 20] [--seed 1]``

Each FOLDER holds an LTTng kernel trace with ``sched_switch``, not necessarily of ROS. On each of
its threads callbacks are drawn, one after the other, that begin and end while the thread has a
CPU, as those of a program do; one more lasts from the thread's first switch to its last. The table
``callback_scheduling`` of these and the kernel's events is compared with a loop over the events as
babeltrace2 reads them: every figure of every execution must be equal, to the nanosecond.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from roslens.collectors.reader import open_trace
from roslens.collectors.ros2 import build_tables
from roslens.recording import RoslensError

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.oracle import babeltrace

TIMES = ("cpu_ns", "preempted_ns", "blocked_ns", "scheduling_delay_ns")
COUNTS = ("preemptions", "waits", "migrations")
RUNNING, PREEMPTED, BLOCKED, WOKEN = range(4)
Change: TypeAlias = tuple[int, int, int | None]
"""A change of a thread's state: time, state, CPU."""


def rows(events: dict[str, pl.DataFrame], *names: str) -> Iterator[dict[str, Any]]:
    for name in names:
        frame = events.get(f"kernel:{name}", events.get(name))
        if frame is not None:
            for row in frame.iter_rows(named=True):
                yield {"name": name, **row}


def plain(value: Any) -> int:
    return int(value["value"] if isinstance(value, dict) else value)


def changes(events: dict[str, pl.DataFrame]) -> dict[int, list[Change]]:
    """Return the changes of state of each thread, by its number in the kernel."""
    by_thread: dict[int, list[Change]] = defaultdict(list)
    woken = "sched_waking" if any(True for _ in rows(events, "sched_waking")) else "sched_wakeup"
    order = sorted(
        rows(events, "sched_switch", woken),
        # A wake-up at the time of a switch is equivalent to one after it.
        key=lambda row: (row["time_ns"], row["name"] != "sched_switch"),
    )
    for row in order:
        if row["name"] == "sched_switch":
            runnable = plain(row["prev_state"]) & 0xFF == 0
            out, into = row["prev_tid"], row["next_tid"]
            state = PREEMPTED if runnable else BLOCKED
            by_thread[out].append((row["time_ns"], state, row["cpu_id"]))
            by_thread[into].append((row["time_ns"], RUNNING, row["cpu_id"]))
        elif by_thread[row["tid"]] and by_thread[row["tid"]][-1][1] == BLOCKED:
            by_thread[row["tid"]].append((row["time_ns"], WOKEN, None))
    del by_thread[0]  # idle threads, one on each CPU
    return by_thread


def drawn(line: list[Change], count: int, rng: random.Random) -> list[tuple[int, int]]:
    """Draw begin and end of executions on a thread, all at times when it runs."""
    runs = [
        (begin + 1, end - 1)
        for (begin, state, _), (end, _, _) in pairwise(line)
        if state == RUNNING and end - begin > 2
    ]
    if not runs:
        return []
    moments = sorted({rng.randint(*rng.choice(runs)) for _ in range(2 * count)})
    pairs = list(zip(moments[::2], moments[1::2], strict=False))
    whole = (runs[0][0], runs[-1][1])
    return [*pairs, whole] if whole[0] < whole[1] else pairs


def expected(line: list[Change], begin: int, end: int) -> dict[str, int]:
    """Return the time in each state, and the counts, from begin to end."""
    passed, counts = Counter[int](), Counter[str]()
    cpu: int | None = None
    for place, (time, state, on) in enumerate(line):
        until = line[place + 1][0] if place + 1 < len(line) else end
        passed[state] += max(0, min(until, end) - max(time, begin))
        within = begin < time <= end
        counts["preemptions"] += within and state == PREEMPTED
        counts["waits"] += within and state == BLOCKED
        if state == RUNNING:
            counts["migrations"] += within and cpu is not None and on != cpu
            cpu = on
    return {name: passed[k] for k, name in enumerate(TIMES)} | {n: counts[n] for n in COUNTS}


def callback_events(threads: dict[int, list[tuple[int, int]]]) -> dict[str, pl.DataFrame]:
    """Return the events that a program would have recorded for the executions."""
    kinds: dict[str, list[dict[str, Any]]] = {"callback_start": [], "callback_end": []}
    for tid, executions in threads.items():
        for key, (begin, end) in enumerate(executions):
            for name, time in (("callback_start", begin), ("callback_end", end)):
                row = {"time_ns": time, "vpid": tid, "vtid": tid, "callback": key}
                kinds[name].append(row | {"is_intra_process": 0})
    schema = {
        "time_ns": pl.Int64, "vpid": pl.Int32, "vtid": pl.Int32, "callback": pl.UInt64,
        "is_intra_process": pl.Int32,
    }  # fmt: skip
    return {
        f"ros2:{name}": pl.DataFrame(entries, schema=schema)
        .sort("time_ns")
        .with_columns(pl.lit("h0").alias("host"), pl.lit("p").alias("procname"))
        for name, entries in kinds.items()
    }


def check(folder: Path, count: int, rng: random.Random) -> bool:
    try:
        theirs = babeltrace.read(folder)
    except RoslensError as error:
        print(f"{folder.name}: left out: {error}")
        return True
    lines = changes(theirs)
    threads = {tid: drawn(line, count, rng) for tid, line in sorted(lines.items())}
    kernel = open_trace(folder).read()
    tables = build_tables(kernel | callback_events(threads), hosts=["h0"])
    row_by_span = {
        (row["vtid"], row["start_ns"], row["start_ns"] + row["duration_ns"]): row
        for row in tables["callback_scheduling"].iter_rows(named=True)
    }
    wrong = Counter[str]()
    total = 0
    for tid, executions in threads.items():
        for begin, end in executions:
            total += 1
            row = row_by_span.pop((tid, begin, end), None)
            if row is None:
                wrong["missing"] += 1
                continue
            for name, value in expected(lines[tid], begin, end).items():
                reported = row[name]
                # Without wake-ups, the end of a wait is unknown.
                wrong[name] += reported is not None and reported != value
    wrong["invented"] = len(row_by_span)
    used = [t for t, e in threads.items() if e]
    wrong += Counter()
    print(
        f"{folder.name}: {sum(map(len, lines.values()))} changes of {len(lines)} threads, "
        f"{total} executions on {len(used)} of them: "
        + (", ".join(f"{n} {c}" for n, c in wrong.items()) if wrong else "all equal")
    )
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--callbacks", type=int, default=20, help="per thread")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    equal = [check(folder, options.callbacks, rng) for folder in options.folders]
    return 0 if all(equal) else 1


if __name__ == "__main__":
    sys.exit(main())
