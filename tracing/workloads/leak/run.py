"""A node that publishes to itself and leaks a known number of bytes per message received.

``python3 run.py --leak 1024 --rate 500 --seconds 60 --output FOLDER``

This is the positive control of leak detection: for each message received, it allocates LEAK bytes
with the C library's malloc, writes to all of them, and never frees them. The growth is thus LEAK
bytes of heap, and one chunk of the allocator (LEAK + 8, rounded up to 16, with glibc on 64 bits)
of resident memory. Its own logs are allocated, and touched, before it begins.

Written into FOLDER (times in ns since the epoch; empty = it did not happen): ``messages.csv``:
topic, sequence, publish_realtime_ns (just before ``publish()``), callback_realtime_ns (first line
of the callback); ``leak.json``: bytes leaked per message, the allocator's chunk, messages.

Exit status: 0 done; 128 + N ended by signal N. The file named by ``ROSLENS_READY_FILE`` is created
when publisher and subscription have found each other.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import struct
import sys
import time
from array import array
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import rclpy_side as side  # type: ignore[import-not-found]  # in the folder above
from rclpy_traffic import Messages, reliable  # type: ignore[import-not-found]

TOPIC = "/data"
HEADER = struct.Struct("<q")
DRAIN_SECONDS = 1.0


class Leaking:
    """The node: a timer publishes, the subscription leaks."""

    def __init__(self, options: argparse.Namespace, node: Any) -> None:
        from std_msgs.msg import UInt8MultiArray  # noqa: PLC0415 (only in ROS)

        self.leak = int(options.leak)
        room = int(options.rate * options.seconds * 1.1) + 16
        # Filled with ones first, so that every page is resident.
        self.sent, self.received = array("q", [1]) * room, array("q", [1]) * room
        for number in range(room):
            self.sent[number] = self.received[number] = 0
        self.count = self.arrived = 0
        self.deadline = 0.0
        self.libc = ctypes.CDLL(None)
        self.libc.malloc.restype = ctypes.c_void_p
        self.libc.malloc.argtypes = [ctypes.c_size_t]
        self.libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
        self.libc.malloc_usable_size.restype = ctypes.c_size_t
        self.libc.malloc_usable_size.argtypes = [ctypes.c_void_p]
        qos = reliable()
        self.message = UInt8MultiArray(data=array("B", bytes(max(options.payload, HEADER.size))))
        self.publisher = node.create_publisher(UInt8MultiArray, TOPIC, qos)
        self.subscription = node.create_subscription(UInt8MultiArray, TOPIC, self.receive, qos)
        self.timer = node.create_timer(1 / options.rate, self.publish)
        self.timer.cancel()

    def start(self, seconds: float) -> None:
        """Publish for `seconds`."""
        self.deadline = time.monotonic() + seconds
        self.timer.reset()

    def publish(self) -> None:
        """Publish the next message."""
        if self.count == len(self.sent) or time.monotonic() >= self.deadline:
            self.timer.cancel()
            return
        now = time.time_ns()
        HEADER.pack_into(self.message.data, 0, self.count)
        self.sent[self.count] = now
        self.count += 1
        self.publisher.publish(self.message)

    def receive(self, message: Any) -> None:
        """Log the time, and leak."""
        now = time.time_ns()
        self.received[HEADER.unpack_from(message.data)[0]] = now
        self.arrived += 1
        if self.leak:
            self.libc.memset(self.libc.malloc(self.leak), 1, self.leak)

    def chunk(self) -> int:
        """Return the bytes that the allocator takes for one leak, including its header (glibc)."""
        if not self.leak:
            return 0
        pointer = self.libc.malloc(self.leak)
        return int(self.libc.malloc_usable_size(pointer)) + ctypes.sizeof(ctypes.c_size_t)

    @property
    def done(self) -> bool:
        """Return whether everything was sent and has arrived."""
        return bool(self.deadline) and self.timer.is_canceled() and self.arrived >= self.count

    def write(self, folder: Path) -> None:
        """Write the logs."""
        rows = ((TOPIC, n, self.sent[n], self.received[n]) for n in range(self.count))
        side.write_csv(folder / "messages.csv", Messages.header, rows)
        facts = {"bytes": self.leak, "chunk_bytes": self.chunk(), "messages": self.arrived}
        (folder / "leak.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")


def main() -> int:
    """Run the node; return its exit status."""
    parser = side.parser(__doc__.splitlines()[0], rate=500.0, seconds=60.0)
    parser.add_argument("--leak", type=int, default=1024, help="bytes per message; 0: none")
    parser.add_argument("--payload", type=int, default=100, help="bytes of a message (>= 8)")
    options = side.parse(parser)
    if options.leak < 0:
        parser.error("--leak is at least 0")
    with side.nodes("leaking") as (stop, (node,)):
        leaking = Leaking(options, node)
        executor = side.make_executor("SingleThreaded")
        executor.add_node(node)
        if side.wait_until(stop, lambda: leaking.publisher.get_subscription_count() > 0):
            side.say_ready()
            leaking.start(options.seconds)
            end = leaking.deadline + DRAIN_SECONDS
            while not stop.signal and not leaking.done and time.monotonic() < end:
                executor.spin_once(timeout_sec=0.1)
        leaking.write(options.output)
        executor.shutdown()
    return int(stop.status)


if __name__ == "__main__":
    sys.exit(main())
