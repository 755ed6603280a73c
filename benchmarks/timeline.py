"""The timeline on a recording of 10 million events: first picture, then zooming and panning.

Makes the tables that such a recording has (20 nodes in 4 processes, callbacks of 0.2 ms on
average), opens them as a notebook does, and answers what the browser asks. Only the kernel's side
is measured: the browser draws at most 10,000 marks whatever the recording.

    python benchmarks/timeline.py [--events 10000000]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from analysis.runs import runs_of
from analysis.timeline.tracks import MOST_MARKS
from collectors.schema import TABLES
from roslens.recordings import Recordings
from roslens.widgets.timeline import TimelineWidget
from tracing.recording import Recording

# Of one message: publish in three layers, take, callback start and end; of the executor's
# interval: one event.
EVENTS_PER_MESSAGE = 7
NODES, PROCESSES = 20, 4
FIRST_NS = 1_700_000_000_000_000_000
WIDTH = 1200


def table(name: str, columns: dict[str, object], rows: int) -> pl.DataFrame:
    """A table of the schema; columns that are not given are null."""
    frame = pl.DataFrame(columns)
    assert frame.height == rows
    empty = TABLES[name].empty()
    return frame.select(
        (pl.col(c) if c in columns else pl.lit(None)).cast(kind).alias(c)
        for c, kind in empty.schema.items()
    )


def write_tables(folder: Path, events: int) -> int:
    """Tables of a recording with so many events; returns how many callbacks it has."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(20261121)
    count = events // EVENTS_PER_MESSAGE
    node = rng.integers(0, NODES, count)
    start = FIRST_NS + np.sort(rng.integers(0, count * 100_000, count))
    duration = rng.exponential(200_000, count).astype(np.int64) + 1000
    process = node % PROCESSES
    names = np.array([f"/node_{i}" for i in range(NODES)])[node]
    topics = np.array([f"/topic_{i}" for i in range(NODES)])[node]
    host = ["h0"] * count
    identity = np.arange(count)
    publish = start - rng.exponential(300_000, count).astype(np.int64) - 1000
    own = {"host": host, "vpid": 100 + process, "vtid": 100 + process}
    callbacks = {
        "callback_instance_id": identity, **own, "kind": ["subscription"] * count, "name": topics,
        "node": names, "start_ns": start, "end_ns": start + duration, "duration_ns": duration,
    }  # fmt: skip
    messages = {
        "message_id": identity, "host": host, "topic": topics, "subscription_node": names,
        "publish_ns": publish, "rcl_publish_ns": publish + 300, "rmw_publish_ns": publish + 600,
        "take_ns": start - 400, "callback_start_ns": start, "callback_end_ns": start + duration,
        "latency_ns": start - publish, "outcome": ["delivered"] * count,
        "callback_instance_id": identity,
    }  # fmt: skip
    sender = np.where(identity > 100, identity - rng.integers(1, 100, count), 0)
    publications = {
        "message_id": identity, "host": host, "topic": topics, "publish_ns": publish,
        "callback_instance_id": sender,
    }  # fmt: skip
    waits = {
        **own, "state": ["wait"] * count, "begin_ns": start - 50_000, "end_ns": start - 1000,
    }  # fmt: skip
    processes = {
        "process_id": range(PROCESSES), "host": ["h0"] * PROCESSES,
        "vpid": [100 + i for i in range(PROCESSES)],
        "procname": [f"container_{i}" for i in range(PROCESSES)],
    }  # fmt: skip
    for name, columns in (
        ("callback_instances", callbacks),
        ("messages", messages),
        ("publications", publications),
        ("executor_intervals", waits),
    ):
        table(name, columns, count).write_parquet(folder / f"{name}.parquet")
    table("processes", processes, PROCESSES).write_parquet(folder / "processes.parquet")
    return count


def ask(widget: TimelineWidget, begin: float, end: float) -> float:
    """Seconds that one question of the browser takes."""
    shown = list(range(len(widget.timeline.tracks)))
    started = time.perf_counter()
    widget._answer(
        widget,
        {"type": "view", "begin": begin, "end": end, "width": WIDTH, "shown": shown},
        [],
    )
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    events = parser.parse_args().events
    with tempfile.TemporaryDirectory() as place:
        recording = Recording.at(Path(place, "recording"))
        count = write_tables(recording.tables, events)
        opened = Recordings([recording], runs_of([recording]))
        started, used = time.perf_counter(), time.process_time()
        widget = TimelineWidget(opened)
        length = float(widget.timeline.end_ns - widget.timeline.begin_ns)
        ask(widget, 0, length)
        first, cpu = time.perf_counter() - started, time.process_time() - used
        rng = np.random.default_rng(1)
        taken = []
        for _ in range(300):
            span = length * 10 ** rng.uniform(-5, 0)
            begin = rng.uniform(0, length - span)
            taken.append(ask(widget, begin, begin + span))
        most = widget.timeline.picture(
            widget.timeline.begin_ns, widget.timeline.end_ns, WIDTH
        ).marks
    print(f"events                    {events:>12,}")
    print(f"callbacks, messages       {count:>12,}")
    print(f"tracks                    {len(widget.timeline.tracks):>12,}")
    print(f"first picture             {first:>12.3f} s    (CPU {cpu:.3f} s; bar: 2 s)")
    print(f"pan or zoom, median       {1e3 * statistics.median(taken):>12.1f} ms   (bar: 100 ms)")
    print(f"pan or zoom, worst of 300 {1e3 * max(taken):>12.1f} ms")
    print(f"marks of the whole        {most:>12,}    (at most {MOST_MARKS:,})")


if __name__ == "__main__":
    main()
