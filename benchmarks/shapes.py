"""What an event costs, whatever the shape of the trace: no shape may be a cliff.

``python benchmarks/shapes.py FOLDER [--events 2000000] [--shape NAME ...]``

Writes the event files of each shape into FOLDER as `collect` does and has the model make all tables
of them, in a process of its own and with the memory bounds of `collect`. Prints CPU time per event,
its ratio to the plain shape's, and the largest resident set. Exit status 1 where a shape takes more
than 1.5 times the plain one's CPU per event, or more than 400 MiB and 2 KiB per object.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).resolve().parents[1]
MOST_RATIO = 1.5
MOST_MIB = 400
OBJECT_KIB = 2
EVENTS_PER_MESSAGE = 8
START_NS = 1_760_000_000_000_000_000
Frames = Iterator[tuple[str, pl.DataFrame]]


@dataclass(frozen=True)
class Shape:
    """Messages of some topics, from threads of one process to threads of another."""

    topics: int = 4
    nodes: int = 4
    threads: int = 4
    period_ns: int = 20_000
    in_flight: int = 1
    """Messages that are published before one is taken."""
    stamp_rate: float = 1.0
    """How fast the clock of the source timestamps runs, against that of the events."""
    stamp_offset_ns: int = 0
    """How far that clock is ahead, for every second topic."""
    taken: float = 1.0
    """The share of topics whose messages are taken."""


PLAIN = Shape()
SHAPES = {
    "plain": PLAIN,
    "in flight 1,000": replace(PLAIN, in_flight=1_000),
    "in flight 100,000": replace(PLAIN, in_flight=100_000),
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


def frames(shape: Shape, messages: int) -> Frames:
    """The events of a shape by name: first those that make objects, then the messages."""
    topic, node = np.arange(shape.topics), np.arange(shape.nodes)
    of_node = topic % shape.nodes
    names = [f"/topic_{n}" for n in topic]

    def made(name: str, process: int, count: np.ndarray, **fields: object) -> Frames:
        yield (
            name,
            pl.DataFrame(
                {
                    "time_ns": START_NS - 1_000_000_000 + np.arange(len(count)) * 100,
                    "vpid": np.full(len(count), process, np.int32),
                    "vtid": np.full(len(count), process, np.int32),
                    **fields,
                }
            ),
        )

    def pointers(base: int, of: np.ndarray) -> np.ndarray:
        return (base + of * 0x100).astype(np.uint64)

    for process in (1, 2):
        labels = [f"node_{process}_{n}" for n in node]
        yield from made(
            "rcl_node_init", process, node, node_handle=pointers(1 << 40, node),
            rmw_handle=pointers(2 << 40, node), node_name=labels, namespace=["/"] * len(node),
        )  # fmt: skip
    yield from made(
        "rcl_publisher_init", 1, topic, publisher_handle=pointers(3 << 40, topic),
        node_handle=pointers(1 << 40, of_node), rmw_publisher_handle=pointers(4 << 40, topic),
        topic_name=names, queue_depth=np.full(len(topic), 10, np.uint64),
    )  # fmt: skip
    yield from made(
        "rcl_subscription_init", 2, topic, subscription_handle=pointers(5 << 40, topic),
        node_handle=pointers(1 << 40, of_node), rmw_subscription_handle=pointers(6 << 40, topic),
        topic_name=names, queue_depth=np.full(len(topic), 10, np.uint64),
    )  # fmt: skip
    yield from made(
        "rclcpp_subscription_init", 2, topic, subscription_handle=pointers(5 << 40, topic),
        subscription=pointers(7 << 40, topic),
    )  # fmt: skip
    yield from made(
        "rclcpp_subscription_callback_added", 2, topic, subscription=pointers(7 << 40, topic),
        callback=pointers(8 << 40, topic),
    )  # fmt: skip

    number = np.arange(messages)
    of, published = number % shape.topics, START_NS + number * shape.period_ns
    late = np.where(of % 2 == 1, shape.stamp_offset_ns, 0)
    stamp = START_NS + ((published - START_NS) * shape.stamp_rate).astype(np.int64) + late
    message = (0x7F00_0000_0000 + number % 1024 * 0x100).astype(np.uint64)

    def happened(
        name: str, process: int, times: np.ndarray, of: np.ndarray, **fields: object
    ) -> Frames:
        thread = 1_000 * process + of % shape.threads
        yield (
            name,
            pl.DataFrame(
                {
                    "time_ns": times,
                    "vpid": np.full(len(times), process, np.int32),
                    "vtid": thread.astype(np.int32),
                    **fields,
                }
            ),
        )

    yield from happened("rclcpp_publish", 1, published, of, message=message)
    yield from happened(
        "rcl_publish", 1, published + 500, of, publisher_handle=pointers(3 << 40, of),
        message=message,
    )  # fmt: skip
    yield from happened(
        "rmw_publish", 1, published + 1_000, of, rmw_publisher_handle=pointers(4 << 40, of),
        message=message, timestamp=stamp,
    )  # fmt: skip
    there = of < shape.taken * shape.topics
    at = published[there] + shape.in_flight * shape.period_ns - shape.period_ns // 2
    of, message, stamp = of[there], message[there], stamp[there]
    yield from happened(
        "rmw_take", 2, at, of, rmw_subscription_handle=pointers(6 << 40, of), message=message,
        source_timestamp=stamp, taken=np.ones(len(of), np.int32),
    )  # fmt: skip
    yield from happened("rcl_take", 2, at + 300, of, message=message)
    yield from happened("rclcpp_take", 2, at + 600, of, message=message)
    callback = pointers(8 << 40, of)
    yield from happened(
        "callback_start", 2, at + 900, of, callback=callback,
        is_intra_process=np.zeros(len(of), np.int32),
    )  # fmt: skip
    yield from happened("callback_end", 2, at + 1_500, of, callback=callback)


def write(folder: Path, shape: Shape, events: int) -> int:
    """Write the files of a shape; returns the number of events of messages."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    count = 0
    found: dict[str, list[pl.DataFrame]] = {}
    for name, frame in frames(shape, events // EVENTS_PER_MESSAGE):
        found.setdefault(name, []).append(frame)
        count += frame.height
    for name, parts in found.items():
        frame = pl.concat(parts).with_columns(
            pl.lit("h0").alias("host"), pl.lit("p").alias("procname")
        )
        frame.write_parquet(folder / f"{name}.parquet", compression="zstd", compression_level=1)
    return count


def model(folder: Path) -> None:
    """Make all tables of the events of a folder; prints CPU seconds and MiB."""
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
        count = write(folder, shape, options.events)
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
    """CPU seconds and MiB of making the tables in a process of its own."""
    read, write_end = os.pipe()
    command = [sys.executable, __file__, str(folder), "--model"]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), "POLARS_MAX_THREADS": "2"}
    redirect = [(os.POSIX_SPAWN_DUP2, write_end, 1)]
    process = os.posix_spawn(sys.executable, command, environment, file_actions=redirect)
    os.close(write_end)
    with open(read, encoding="utf-8") as told:  # noqa: PTH123  (a pipe)
        text = told.read()
    if os.waitpid(process, 0)[1]:
        raise SystemExit("the model failed")
    spent, peak = map(float, text.split())
    return spent, peak


if __name__ == "__main__":
    sys.exit(main())
