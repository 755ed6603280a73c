"""Write a CTF 1.8 trace of ros2 events, as LTTng-UST records them, of any size.

``python benchmarks/make_trace.py FOLDER [--events 5000000] [--cpus 2] [--packet-size 262144]
[--named]``

The event classes are those of tracetools 8.6, with the contexts vpid, vtid and procname and
LTTng's large event header: 45 bytes per event, so 5 M events are 225 MB. Per CPU one stream with
its packets and its index file. Every 20 us, each CPU publishes a message (3 events) and takes one
that another CPU published before (3 events, and a callback of 2); which comes first, which of
four processes does it and when exactly is drawn, so streams interleave event by event. The same
options give the same bytes.

Named, the trace begins with the init events of nodes, publishers, subscriptions and callbacks, each
CPU runs its own thread of a process, and what is taken is what was published on the next CPU one
slot before: every publication but the last ones is delivered once.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from roslens.generate.ctf import CLOCK_OFFSET_NS, COMMON, HEAD, metadata, write_stream

TRACE_UUID = UUID("0f7a4c52-6f1d-4a57-8b0a-9d1c1a2b3c4d")
SLOT_NS = 20_000
START_NS = 5_000_000_000
PROCESSES = (
    (4001, b"camera_driver"),
    (4017, b"localisation"),
    (4023, b"planner_node"),
    (4042, b"controller"),
)
PUBLISH = ("rclcpp_publish", "rcl_publish", "rmw_publish")
TAKE = ("rmw_take", "rcl_take", "rclcpp_take", "callback_start", "callback_end")
CLASSES: dict[str, tuple[tuple[str, str], ...]] = {
    "rclcpp_publish": (("message", "u8"),),
    "rcl_publish": (("publisher_handle", "u8"), ("message", "u8")),
    "rmw_publish": (("rmw_publisher_handle", "u8"), ("message", "u8"), ("timestamp", "i8")),
    "rmw_take": (
        ("rmw_subscription_handle", "u8"),
        ("message", "u8"),
        ("source_timestamp", "i8"),
        ("taken", "i4"),
    ),
    "rcl_take": (("message", "u8"),),
    "rclcpp_take": (("message", "u8"),),
    "callback_start": (("callback", "u8"), ("is_intra_process", "i4")),
    "callback_end": (("callback", "u8"),),
}
INIT: dict[str, tuple[tuple[str, str], ...]] = {
    "rcl_node_init": (
        ("node_handle", "u8"),
        ("rmw_handle", "u8"),
        ("node_name", "text"),
        ("namespace", "text"),
    ),
    "rmw_publisher_init": (("rmw_publisher_handle", "u8"), ("gid", "gid")),
    "rcl_publisher_init": (
        ("publisher_handle", "u8"),
        ("node_handle", "u8"),
        ("rmw_publisher_handle", "u8"),
        ("topic_name", "text"),
        ("queue_depth", "u8"),
    ),
    "rmw_subscription_init": (("rmw_subscription_handle", "u8"), ("gid", "gid")),
    "rcl_subscription_init": (
        ("subscription_handle", "u8"),
        ("node_handle", "u8"),
        ("rmw_subscription_handle", "u8"),
        ("topic_name", "text"),
        ("queue_depth", "u8"),
    ),
    "rclcpp_subscription_init": (("subscription_handle", "u8"), ("subscription", "u8")),
    "rclcpp_subscription_callback_added": (("subscription", "u8"), ("callback", "u8")),
    "rclcpp_callback_register": (("callback", "u8"), ("symbol", "text")),
}
IDS = {name: number for number, name in enumerate((*CLASSES, *INIT))}
NODE, RMW_NODE = 0x5610_0050_1000, 0x5610_0060_1000
PUBLISHER, RMW_PUBLISHER = 0x5610_0000_1000, 0x5610_0020_1000
SUBSCRIPTION, RMW_SUBSCRIPTION = 0x5610_0070_1000, 0x5610_0030_1000
OBJECT, CALLBACK = 0x5610_0080_1000, 0x5610_0040_1000


def event_type(name: str) -> np.dtype:
    """The bytes of one event."""
    return np.dtype(COMMON + [(field, f"<{kind}") for field, kind in CLASSES[name]])


def begin_of(process: int, time: int) -> bytes:
    """The init events of one process: it publishes /topic_N, and subscribes to the one before."""
    vpid, procname = PROCESSES[process]
    topics = [f"/topic_{n % len(PROCESSES)}".encode() for n in (process, process - 1)]
    node, publisher = NODE + process * 0x40, PUBLISHER + process * 0x40
    rmw_publisher = RMW_PUBLISHER + process * 0x80
    subscription, rmw = SUBSCRIPTION + process * 0x40, RMW_SUBSCRIPTION + process * 0x80
    of_rclcpp, callback = OBJECT + process * 0x40, CALLBACK + process * 0x100
    values: dict[str, tuple[int | bytes, ...]] = {
        "rcl_node_init": (node, RMW_NODE + process * 0x40, procname, b"/"),
        "rmw_publisher_init": (rmw_publisher, bytes([1, process] * 8)),
        "rcl_publisher_init": (publisher, node, rmw_publisher, topics[0], 10),
        "rmw_subscription_init": (rmw, bytes([2, process] * 8)),
        "rcl_subscription_init": (subscription, node, rmw, topics[1], 10),
        "rclcpp_subscription_init": (subscription, of_rclcpp),
        "rclcpp_subscription_callback_added": (of_rclcpp, callback),
        "rclcpp_callback_register": (callback, b"on_message"),
    }
    written = b""
    for place, (name, fields) in enumerate(INIT.items()):
        common = np.zeros(1, COMMON)
        common["id"], common["stamp"] = IDS[name], (time + place * 100) & 0xFFFFFFFF
        common["vpid"] = common["vtid"] = vpid
        common["procname"] = procname
        written += common.tobytes()
        for (_, kind), value in zip(fields, values[name], strict=True):
            if isinstance(value, int):
                written += value.to_bytes(8, "little")
            else:
                written += value + (b"\0" if kind == "text" else b"")
    return written


def block(
    names: tuple[str, ...],
    times: NDArray[np.int64],
    process: NDArray[np.int64],
    thread: int,
) -> dict[str, NDArray[np.void]]:
    """Events of these names, one of each per row; common fields filled."""
    vpids = np.array([vpid for vpid, _ in PROCESSES])[process]
    procnames = np.array([name for _, name in PROCESSES], "S17")[process]
    found = {}
    for column, name in enumerate(names):
        events = np.zeros(len(times), event_type(name))
        events["id"] = IDS[name]
        events["stamp"] = times[:, column] & 0xFFFFFFFF
        events["vpid"] = vpids
        events["vtid"] = vpids + thread
        events["procname"] = procnames
        found[name] = events
    return found


def glued(events: dict[str, NDArray[np.void]]) -> NDArray[np.uint8]:
    """The bytes of a block, one row per slot."""
    parts = [e.view(np.uint8).reshape(len(e), e.itemsize) for e in events.values()]
    return np.hstack(parts)


class Drawn:
    """What is drawn for each slot of a CPU that is published on and taken from; named only."""

    def __init__(self, cpus: int, cpu: int, total: int) -> None:
        rng = np.random.default_rng([cpus, cpu, 1])
        self.publish_first = rng.random(total) < 0.5
        self.publisher = rng.integers(0, len(PROCESSES), total)
        gaps = rng.integers(300, 1500, (total, 3))
        start = START_NS + np.arange(total, dtype=np.int64) * SLOT_NS
        half = np.where(self.publish_first, 0, SLOT_NS // 2)
        self.published = (start + half)[:, None] + gaps.cumsum(axis=1)


def slots(
    rng: np.random.Generator,
    first: int,
    count: int,
    cpu: int,
    drawn: tuple[Drawn, Drawn] | None = None,
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The bytes of `count` slots of a CPU, and the first and last time in each."""
    number = np.arange(first, first + count, dtype=np.int64)
    start = START_NS + number * SLOT_NS
    publish_first = rng.random(count) < 0.5
    half = SLOT_NS // 2
    gaps = rng.integers(300, 1500, (count, 8))
    published = (start + np.where(publish_first, 0, half))[:, None] + gaps[:, :3].cumsum(axis=1)
    taken = (start + np.where(publish_first, half, 0))[:, None] + gaps[:, 3:].cumsum(axis=1)
    publisher = rng.integers(0, len(PROCESSES), count)
    subscriber = rng.integers(0, len(PROCESSES), count)
    stamp = CLOCK_OFFSET_NS + start - half
    thread = 1
    if drawn is not None:
        mine, other = drawn
        here, before = slice(first, first + count), np.maximum(number - 1, 0)
        publish_first, published = mine.publish_first[here], mine.published[here]
        taken = (start + np.where(publish_first, half, 0))[:, None] + gaps[:, 3:].cumsum(axis=1)
        publisher = mine.publisher[here]
        subscriber = (other.publisher[before] + 1) % len(PROCESSES)
        stamp = CLOCK_OFFSET_NS + other.published[before, 2]
        thread = 1 + cpu
    message = (0x7F3A_1C00_0000 + (number * 2 + cpu) % 1024 * 256).astype(np.uint64)

    events = block(PUBLISH, published, publisher, thread)
    for name in PUBLISH:
        events[name]["message"] = message
    events["rcl_publish"]["publisher_handle"] = PUBLISHER + publisher * 0x40
    events["rmw_publish"]["rmw_publisher_handle"] = RMW_PUBLISHER + publisher * 0x80
    events["rmw_publish"]["timestamp"] = CLOCK_OFFSET_NS + published[:, 2]
    one = glued(events)

    events = block(TAKE, taken, subscriber, thread)
    for name in ("rmw_take", "rcl_take", "rclcpp_take"):
        events[name]["message"] = message + np.uint64(0x10_0000)
    events["rmw_take"]["rmw_subscription_handle"] = RMW_SUBSCRIPTION + subscriber * 0x80
    events["rmw_take"]["source_timestamp"] = stamp
    events["rmw_take"]["taken"] = 1
    for name in ("callback_start", "callback_end"):
        events[name]["callback"] = CALLBACK + subscriber * 0x100
    other = glued(events)

    rows = np.where(publish_first[:, None], np.hstack([one, other]), np.hstack([other, one]))
    both = np.hstack([published, taken])
    return rows, both.min(axis=1), both.max(axis=1)


def write_trace(
    folder: Path, events: int, cpus: int, packet_size: int, *, named: bool = False
) -> int:
    """Write the trace into `folder` (made anew); returns the number of events in it."""
    if folder.exists() and not (folder / "metadata").is_file():
        raise SystemExit(f"{folder}: is there and is no trace; give another folder")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    classes = CLASSES | INIT if named else CLASSES
    (folder / "metadata").write_text(metadata(TRACE_UUID, classes), encoding="ascii")
    total = events // (8 * cpus)
    width = sum(event_type(name).itemsize for name in CLASSES)
    drawn = [Drawn(cpus, cpu, total) for cpu in range(cpus)] if named else []
    begins = b""
    if named:
        gap = 1_000
        at = START_NS - gap * len(PROCESSES)
        begins = b"".join(begin_of(n, at + n * gap) for n in range(len(PROCESSES)))
    per_packet = (packet_size - HEAD.itemsize - len(begins)) // width
    if per_packet < 1:
        raise SystemExit(f"a packet takes at least {HEAD.itemsize + len(begins) + width} bytes")

    def packets(cpu: int) -> Iterator[tuple[bytes, int, int]]:
        rng = np.random.default_rng([cpus, cpu])
        pair = (drawn[cpu], drawn[(cpu + 1) % cpus]) if named else None
        for first in range(0, total, per_packet):
            rows, begin, end = slots(rng, first, min(per_packet, total - first), cpu, pair)
            opening = begins if cpu == first == 0 else b""
            if opening:
                begin[0] = START_NS - 1_000 * len(PROCESSES)
            yield opening + rows.tobytes(), int(begin[0]), int(end[-1])

    for cpu in range(cpus):
        write_stream(folder, TRACE_UUID, cpu, packets(cpu), packet_size)
    return total * 8 * cpus


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--packet-size", type=int, default=262_144, help="bytes")
    parser.add_argument("--named", action="store_true", help="with objects, and takes that match")
    options = parser.parse_args()
    count = write_trace(
        options.folder, options.events, options.cpus, options.packet_size, named=options.named
    )
    size = sum(f.stat().st_size for f in options.folder.glob("ch0_*"))
    print(f"{options.folder}: {count:,} events, {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
