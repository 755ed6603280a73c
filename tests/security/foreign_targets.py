"""Provide files to mutate, for readers in a limited process and for tables."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import yaml
from tests.analysis.test_bag import BEGIN, IMU, SCHEMA, TEXT, cdr, write_mcap
from tests.kernel import test_perf_data as perf
from tests.kernel import test_perfetto_traces as perfetto
from tests.kernel.ring_buffer import event, irq, page, switch, trace_dat, write_raw
from tests.samples import RUN, uncollected

from roslens.collectors.collection import collect
from roslens.collectors.reader import Trace, open_trace
from roslens.recording import Recording, RoslensError
from roslens.recording.foreign import read_here
from roslens.recordings import open_recordings
from roslens.tracing.unpacking import unpack_into

LARGEST = 4 << 20
"""Limit of the bytes that the few pages of a kernel trace may become."""
TRIGGERS = """triggers:
- latency of /talk -> /a -> /listen > 50 ms
- gap of /scan > 1 s
- rate of /scan < 9.5 Hz
- loss of /scan > 1 %
- callback > 5 ms
after_s: 2
cooldown_s: 30
most_mb: 100
window_s: 10
"""


@dataclass(frozen=True)
class Target:
    """A reader, a maker of a whole file or folder for it, and the files that are changed."""

    make: Callable[[Path], Path]
    read: Callable[[Path], object]
    files: str = "**/*"
    mutants: int = 40
    """How many mutants the tests read: few if a separate process, or all tables, read each."""


def file(name: str, content: str | bytes) -> Callable[[Path], Path]:
    """Return a function that makes a file with this content."""

    def write(folder: Path) -> Path:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def collected(folder: Path) -> Path:
    """Make a recording with its tables."""
    run = uncollected(RUN, folder / "run")
    collect(Recording.at(run))
    return run


def without_digests(folder: Path) -> Path:
    """Make tables without the note of their digests."""
    run = collected(folder)
    (run / "tables" / "collected.json").unlink()
    return run


def with_bag(folder: Path) -> Path:
    """Make a recording and beside it a bag of MCAP and SQLite, with its own messages."""
    run = collected(folder)
    sent = open_recordings(run, collect=False).messages.collect()
    sent = sent.filter(pl.col("outcome") == "delivered").head(40)
    rows = [
        (topic, (IMU, TEXT)[number % 2], cdr(time - 5_000_000), time, time + 100_000)
        for number, (topic, time) in enumerate(
            sent.select("topic", "source_timestamp_ns").iter_rows()
        )
    ]
    write_mcap(run / "bag" / "bag_0.mcap", rows)
    with closing(sqlite3.connect(run / "bag" / "bag_1.db3")) as database:
        database.executescript(
            SCHEMA
            + "INSERT INTO topics VALUES (1, 't', 'p', 'cdr');"
            + "".join(
                f"INSERT INTO messages VALUES ({i}, 1, {BEGIN + i}, x'00');" for i in range(9)
            )
        )
    about = {"rosbag2_bagfile_information": {"version": 5, "compression_mode": ""}}
    (run / "bag" / "metadata.yaml").write_text(yaml.safe_dump(about))
    return run


def joined(run: Path) -> object:
    """Return what the bag says about the recording's messages."""
    bag = open_recordings(run, collect=False).bag()
    return bag.messages, bag.topics, repr(bag)


def read_back(run: Path) -> object:
    """Return every table."""
    opened = open_recordings(run, collect=False)
    return [opened.table(path.stem).collect() for path in (run / "tables").glob("*.parquet")]


def kernel_trace(path: Path) -> None:
    """Read a kernel trace as `unpack` does in a slowly starting separate process, and open it."""
    out = path.with_name("out")
    out.mkdir()
    try:
        with read_here(path, "a kernel trace"):
            unpack_into(path, scratch=str(out), folder=str(path.parent), max_bytes=LARGEST)
        assert sum(entry.stat().st_size for entry in out.rglob("*") if entry.is_file()) < LARGEST
        for step in (Trace.info, Trace.read):
            with suppress(RoslensError):
                step(open_trace(out))
    finally:
        shutil.rmtree(out)


def pages() -> bytes:
    """Return ring-buffer pages, some of which follow a loss."""
    draw = random.Random(7)
    return b"".join(
        page(
            10**6 * n,
            *(event(draw.randrange(1 << 12), switch(k, k + 1)) for k in range(20)),
            *(event(3, irq(k, b"timer")) for k in range(5)),
            missed=n % 3 or None,
        )
        for n in range(8)
    )


KERNEL_TRACES = {
    "own.pftrace": perfetto.GOOD.SerializeToString(),
    "trace.dat": trace_dat([pages(), pages()]),
    "perf.data": perf.GOOD,
}
FOREIGN = {
    "bag": Target(with_bag, joined, "bag/*", mutants=12),
    **{
        name: Target(file(name, content), kernel_trace, mutants=100)
        for name, content in KERNEL_TRACES.items()
    },
    "ring buffers": Target(
        lambda folder: write_raw(folder / "raw", [pages()]), kernel_trace, mutants=100
    ),
    "tables": Target(collected, read_back, "tables/*", mutants=4),
    "tables without digests": Target(without_digests, read_back, "tables/*.parquet", mutants=4),
}
