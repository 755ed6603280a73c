"""Publishers and subscriptions of messages up to 10 MB, in one process or in two.

``python3 run.py --publishers 10 --payload 1000000 --rate 100 --seconds 5 --output FOLDER``

Each of ``--publishers`` has a topic of its own, ``/topic_0`` and so on, with ``--subscriptions``
on it; all publish once per period, one after the other, in a thread beside the executor, or, with
``--processes 2``, in a process beside it. Reliable, KEEP_LAST 10, SingleThreadedExecutor. A
publisher that cannot keep up falls behind and does not make up for it.

This is the rclpy form of the study of rclcpp's communication. Python has no equivalent of its
other two factors, which are left out: rclpy has no intra-process communication, and no callback
that takes a shared or a unique pointer.

Written into FOLDER: ``messages.csv`` (times in ns since the epoch; empty = it did not happen), a
row per message and subscription: topic, sequence, publish_realtime_ns (just before ``publish()``),
callback_realtime_ns (first line of the callback).

Exit status: 0 done; 1 the publishing process died; 128 + N ended by signal N. The file that
``ROSLENS_READY_FILE`` names is made when publishers and subscriptions have found each other.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tracing" / "workloads"))
import rclpy_side as side  # type: ignore[import-not-found]
from rclpy_traffic import Messages  # type: ignore[import-not-found]

DRAIN_SECONDS = 1.0
END_SECONDS = 10.0
PART = "published.csv"


class Sender:
    """All publishers; what they publish has one content."""

    def __init__(self, options: argparse.Namespace, node: Any) -> None:
        self.options = options
        self.stopping = threading.Event()
        self.messages = [
            Messages(f"/topic_{n}", node, None, 0 if n else options.payload)
            for n in range(options.publishers)
        ]
        for each in self.messages:
            each.message = self.messages[0].message

    def found(self) -> bool:
        """Every publisher knows all its subscriptions."""
        wanted = self.options.subscriptions
        return all(x.publisher.get_subscription_count() >= wanted for x in self.messages)

    def run(self) -> None:
        """Publish until the time is over or somebody stops it."""
        period = 1 / self.options.rate
        due = time.monotonic()
        end = due + self.options.seconds
        while not self.stopping.is_set() and due < end:
            for each in self.messages:
                each.send()
                if self.stopping.is_set():
                    return
            due = max(due + period, time.monotonic())
            self.stopping.wait(max(0.0, due - time.monotonic()))

    @property
    def sent(self) -> list[list[int]]:
        """When each message was published, by topic."""
        return [x.sent for x in self.messages]


class InThread:
    """The publishers in a thread beside the executor."""

    def __init__(self, options: argparse.Namespace, node: Any) -> None:
        self.sender = Sender(options, node)
        self.thread = threading.Thread(target=self.sender.run, name="publishers")

    def ready(self) -> bool:
        """They have found the subscriptions."""
        return self.sender.found()

    def start(self) -> None:
        """Begin to publish."""
        self.thread.start()

    def done(self) -> bool:
        """They have published all."""
        return not self.thread.is_alive()

    def finish(self) -> list[list[int]]:
        """End them; when each message was published, by topic."""
        self.sender.stopping.set()
        if self.thread.ident is not None:
            self.thread.join()
        return self.sender.sent


class InProcess:
    """The publishers in a process beside this one."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        own = {k: v for k, v in os.environ.items() if k != "ROSLENS_READY_FILE"}
        self.process = subprocess.Popen(
            [
                *(sys.executable, __file__, "--role", "publishers"),
                *("--publishers", str(options.publishers)),
                *("--subscriptions", str(options.subscriptions)),
                *("--payload", str(options.payload), "--rate", str(options.rate)),
                *("--seconds", str(options.seconds), "--output", str(options.output)),
            ],
            env=own,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.said = threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.readline()
        self.said.set()

    def ready(self) -> bool:
        """It has said so, or died."""
        return self.said.is_set()

    def start(self) -> None:
        """Tell it to begin."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(b"start\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has died: done() is true, finish() says so

    def done(self) -> bool:
        """It has ended."""
        return self.process.poll() is not None

    def finish(self) -> list[list[int]]:
        """End it; when each message was published, by topic."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        part = self.options.output / PART
        if not part.is_file():
            sys.exit(f"the publishing process died (exit status {self.process.returncode})")
        sent: list[list[int]] = [[] for _ in range(self.options.publishers)]
        with part.open(newline="", encoding="utf-8") as stream:
            for topic, _, published in list(csv.reader(stream))[1:]:
                sent[int(topic)].append(int(published))
        part.unlink()
        return sent


def receive(options: argparse.Namespace) -> int:
    """The subscriptions, and in one way or the other the publishers; the exit status."""
    import rclpy  # noqa: PLC0415 (only in ROS)

    stop = side.Stop()
    side.start_rclpy()
    node = rclpy.create_node("comm")
    # By topic, the subscriptions of each.
    received = [
        Messages(f"/topic_{topic}", None, node, 0)
        for topic in range(options.publishers)
        for _ in range(options.subscriptions)
    ]
    sender = InThread(options, node) if options.processes == 1 else InProcess(options)
    executor = side.make_executor("SingleThreaded")
    executor.add_node(node)
    if side.wait_until(stop, sender.ready):
        side.say_ready()
        sender.start()
        while not stop.signal and not sender.done():
            executor.spin_once(timeout_sec=0.05)
        last, count = time.monotonic(), 0
        while not stop.signal and time.monotonic() < last + DRAIN_SECONDS:
            executor.spin_once(timeout_sec=0.05)
            before, count = count, sum(len(x.received) for x in received)
            last = last if count == before else time.monotonic()
    sent = sender.finish()
    for number, each in enumerate(received):
        each.sent = sent[number // options.subscriptions]
    rows = (row for each in received for row in each.rows())
    side.write_csv(options.output / "messages.csv", Messages.header, rows)
    executor.shutdown()
    node.destroy_node()
    rclpy.shutdown()
    return int(stop.status)


def publish(options: argparse.Namespace) -> int:
    """The publishing process of two; its exit status."""
    import rclpy  # noqa: PLC0415 (only in ROS)

    stop = side.Stop()
    side.start_rclpy()
    node = rclpy.create_node("comm_publishers")
    sender = Sender(options, node)
    if side.wait_until(stop, sender.found):
        print("ready", flush=True)
        sys.stdin.readline()
        thread = threading.Thread(target=sender.run, name="publishers")
        thread.start()
        while thread.is_alive():
            thread.join(0.05)
            if stop.signal:
                sender.stopping.set()
    rows = ((n, i, at) for n, sent in enumerate(sender.sent) for i, at in enumerate(sent))
    side.write_csv(options.output / PART, ("topic", "sequence", "published"), rows)
    node.destroy_node()
    rclpy.shutdown()
    return int(stop.status)


def main() -> int:
    """Run this process; its exit status."""
    parser = side.parser(__doc__.splitlines()[0], rate=100.0, seconds=5.0)
    parser.add_argument("--publishers", type=int, default=1, help="each with a topic of its own")
    parser.add_argument("--subscriptions", type=int, default=1, help="on each topic")
    parser.add_argument("--payload", type=int, default=100000, help="bytes of a message (>= 8)")
    parser.add_argument("--processes", type=int, choices=(1, 2), default=1)
    parser.add_argument("--role", choices=("all", "publishers"), default="all")
    options = side.parse(parser)
    if min(options.publishers, options.subscriptions) < 1:
        parser.error("--publishers and --subscriptions are at least 1")
    return publish(options) if options.role == "publishers" else receive(options)


if __name__ == "__main__":
    sys.exit(main())
