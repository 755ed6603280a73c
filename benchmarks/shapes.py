"""What an event costs, whatever the shape of the trace: no shape may be a cliff.

``python benchmarks/shapes.py FOLDER [--events 2000000] [--shape NAME ...]``

Writes the event files of each shape into FOLDER as `collect` does, and makes all tables of them in
a separate process with the memory bounds of `collect`. Prints CPU time per event, its ratio to the
plain shape's, and the largest resident set. The exit status is 1 if a shape takes more than 1.5
times the plain one's CPU per event, or more than 400 MiB and 2 KiB per object.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import polars as pl

from roslens.generate.shape import Shape, generated

ROOT = Path(__file__).resolve().parents[1]
MOST_RATIO = 1.5
MOST_MIB = 400
OBJECT_KIB = 2


PLAIN = Shape()
SHAPES = {
    "plain": PLAIN,
    "in flight 1,000": replace(PLAIN, lag=1_000),
    "in flight 100,000": replace(PLAIN, lag=100_000),
    "200 topics": replace(PLAIN, topics=200, nodes=50),
    "20,000 topics": replace(PLAIN, topics=20_000, nodes=2_000),
    "300 threads": replace(PLAIN, topics=300, threads=300),
    "stamps 1 % fast": replace(PLAIN, stamp_rate=1.01),
    "stamps 1 % slow": replace(PLAIN, stamp_rate=0.99),
    "stamps 10 s apart": replace(PLAIN, stamp_offset_ns=10_000_000_000),
    "half never taken": replace(PLAIN, topics=8, taken=0.5),
    "nothing taken": replace(PLAIN, taken=0.0),
    "3 hours": replace(PLAIN, period_ns=10_800_000_000_000 // 250_000),
}


def write(folder: Path, shape: Shape, events: int) -> int:
    """Write the event files of a shape; return the number of events."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    frames = generated(shape, events).events
    for name, frame in frames.items():
        frame.with_columns(pl.lit("h0").alias("host"), pl.lit("p").alias("procname")).write_parquet(
            folder / f"{name}.parquet", compression="zstd", compression_level=1
        )
    return sum(frame.height for frame in frames.values())


def model(folder: Path) -> None:
    """Make all tables of a folder's events; print CPU seconds and MiB."""
    from roslens.collectors.ros2.model import make_tables  # noqa: PLC0415
    from roslens.collectors.ros2.one_pass import Rows  # noqa: PLC0415

    files = {f"ros2:{path.stem}": path for path in sorted(folder.glob("*.parquet"))}
    raw = {name: pl.scan_parquet(path) for name, path in files.items()}
    with tempfile.TemporaryDirectory(dir=folder) as scratch:

        def give(name: str, table: pl.DataFrame | Rows) -> None:
            if isinstance(table, Rows):
                table.write(Path(scratch, f"{name}.parquet"), {})

        begin = time.process_time()
        make_tables(raw, give, files=files, path=Path(scratch, "rows"))
        spent = time.process_time() - begin
    print(spent, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", action="append", dest="shapes", choices=SHAPES, help="all")
    parser.add_argument("--events", type=int, default=2_000_000)
    parser.add_argument("--model", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.model:
        model(options.folder)
        return 0
    plain, missed = 0.0, False
    for name in dict.fromkeys(["plain", *(options.shapes or SHAPES)]):
        shape, folder = SHAPES[name], options.folder / "events"
        # In a separate process: the peak of the measured child would include this one's memory.
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            count = pool.submit(write, folder, shape, options.events).result()
        spent, peak = run(folder)
        cost = spent / count * 1e9
        plain = plain or cost
        bar = MOST_MIB + (3 * shape.topics + 2 * shape.nodes) * OBJECT_KIB / 1024
        slow, large = cost > MOST_RATIO * plain, peak > bar
        missed |= slow or large
        marks = ("  SLOW" if slow else "") + ("  LARGE" if large else "")
        print(
            f"{name:20} {cost:6.0f} ns/event {cost / plain:6.2f} x {peak:6.0f} MiB{marks}",
            flush=True,
        )
    shutil.rmtree(options.folder / "events")
    return int(missed)


def run(folder: Path) -> tuple[float, float]:
    """Return CPU seconds and MiB of making the tables in a separate process."""
    output = subprocess.check_output(
        [sys.executable, __file__, str(folder), "--model"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "POLARS_MAX_THREADS": "2"},
        text=True,
    )
    spent, peak = map(float, output.split())
    return spent, peak


if __name__ == "__main__":
    sys.exit(main())
