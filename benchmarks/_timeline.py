"""Write tables of a dense recording for the benchmarks of the timeline and the screen.

The recording has 20 nodes in 4 processes; its callbacks take 0.2 ms on average.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
import numpy as np
import polars as pl

from roslens.analysis.runs import runs_of
from roslens.collectors.schema import TABLES
from roslens.recording import Recording
from roslens.recordings import Recordings

# A message causes six events (publish in three layers, take, callback start and end); an executor
# interval adds one.
EVENTS_PER_MESSAGE = 7
NODES, PROCESSES = 20, 4
FIRST_NS = 1_700_000_000_000_000_000


def table(name: str, columns: dict[str, object], rows: int) -> pl.DataFrame:
    """Return a table of the schema, with null in the columns that are not given."""
    frame = pl.DataFrame(columns)
    assert frame.height == rows
    empty = TABLES[name].empty()
    return frame.select(
        (pl.col(c) if c in columns else pl.lit(None)).cast(kind).alias(c)
        for c, kind in empty.schema.items()
    )


def write_tables(folder: Path, events: int) -> int:
    """Write the tables of a recording with `events` events; return its number of callbacks."""
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
    where = {"host": host, "vpid": 100 + process, "vtid": 100 + process}
    callbacks = {
        "callback_instance_id": identity, **where, "kind": ["subscription"] * count, "name": topics,
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
        **where, "state": ["wait"] * count, "begin_ns": start - 50_000, "end_ns": start - 1000,
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


def opened(folder: Path) -> Recordings:
    """Open the recording whose tables `write_tables` wrote below `folder`."""
    recording = Recording.at(folder)
    return Recordings([recording], runs_of([recording]))


def notebook_of(folder: Path, path: Path) -> None:
    """Write a notebook that draws the timeline in its second cell."""
    prepare = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
import roslens as rl
from _timeline import opened
recordings = opened(Path({str(folder)!r})); rl.timeline; 'ready'
"""
    cells = [prepare.strip(), "rl.timeline(recordings)"]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "", "language": "python"}},
    )
    nbformat.write(notebook, path)
