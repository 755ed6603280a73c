"""Publishers and subscriptions of messages up to 10 MB, in one process or in two.

``python3 run.py --publishers 10 --payload 1000000 --rate 100 --seconds 5 --output FOLDER``

Each of ``--publishers`` has a topic of its own, ``/topic_0`` and so on, with ``--subscriptions``
on it; all publish once per period, one after the other, in a thread next to the executor, or, with
``--processes 2``, in another process. Reliable, KEEP_LAST 10, SingleThreadedExecutor. A
publisher that cannot keep up falls behind and does not make up for it.

This is the rclpy form of the study of rclcpp's communication. Python has no equivalent of its
other two factors, which are left out: rclpy has no intra-process communication, and no callback
that takes a shared or a unique pointer.

Written into FOLDER: ``messages.csv`` (times in ns since the epoch; empty = it did not happen), a
row per message and subscription: topic, sequence, publish_realtime_ns (just before ``publish()``),
callback_realtime_ns (first line of the callback).

Exit status: 0 done; 1 the publishing process died, or publishers and subscriptions did not find
each other; 128 + N ended by signal N. The file that ``ROSLENS_READY_FILE`` names is made when they
have found each other.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tracing" / "workloads"))
import rclpy_side as side  # type: ignore[import-not-found]
from rclpy_traffic import Messages  # type: ignore[import-not-found]

DRAIN_SECONDS = 1.0
END_SECONDS = 10.0
PART = "published.csv"


class Sender:
    """All publishers, which share the content of their messages."""

    def __init__(self, options: argparse.Namespace, node: Any) -> None:
        self.options = options
        self.stopping = threading.Event()
        self.messages = [
            Messages(f"/topic_{n}", node, None, 0 if n else options.payload)
            for n in range(options.publishers)
        ]
        for each in self.messages:
            each.message = self.messages[0].message

    def all_matched(self) -> bool:
        """Return whether every publisher knows all its subscriptions."""
        wanted = self.options.subscriptions
        return all(
            messages.publisher.get_subscription_count() >= wanted for messages in self.messages
        )

    def run(self) -> None:
        """Publish until the time is over or `stopping` is set."""
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
        """Times at which each message was published, by topic."""
        return [messages.sent for messages in self.messages]


Publishing = tuple[Callable[[], bool], Callable[[], list[list[int]]]]
"""Returns whether they still publish; ends them and returns publication times by topic."""


def publish_in_thread(options: argparse.Namespace, node: Any, stop: Any) -> Publishing:
    """Publish in a thread next to the executor."""
    sender = Sender(options, node)
    thread = threading.Thread(target=sender.run, name="publishers")
    if side.wait_until(stop, sender.all_matched):
        side.say_ready()
        thread.start()

    def finish() -> list[list[int]]:
        sender.stopping.set()
        if thread.ident is not None:
            thread.join()
        return sender.sent

    return thread.is_alive, finish


def publish_in_process(options: argparse.Namespace) -> Publishing:
    """Publish in a process next to this one."""
    process = subprocess.Popen([sys.executable, *sys.argv, "--role", "publishers"])

    def finish() -> list[list[int]]:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        part = options.output / PART
        if not part.is_file():
            sys.exit(f"the publishing process died (exit status {process.returncode})")
        sent: list[list[int]] = [[] for _ in range(options.publishers)]
        with part.open(newline="", encoding="utf-8") as stream:
            for topic, _, published in list(csv.reader(stream))[1:]:
                sent[int(topic)].append(int(published))
        part.unlink()
        return sent

    return lambda: process.poll() is None, finish


def receive(options: argparse.Namespace) -> int:
    """Run the subscriptions, and start the publishers; return the exit status."""
    with side.nodes("comm") as (stop, (node,)):
        # Subscriptions of one topic are adjacent.
        received = [
            Messages(f"/topic_{topic}", None, node, 0)
            for topic in range(options.publishers)
            for _ in range(options.subscriptions)
        ]
        executor = side.make_executor("SingleThreaded")
        executor.add_node(node)
        if options.processes == 1:
            publishing, finish = publish_in_thread(options, node, stop)
        else:
            publishing, finish = publish_in_process(options)
        while not stop.signal and publishing():
            executor.spin_once(timeout_sec=0.05)
        last, count = time.monotonic(), 0
        while not stop.signal and time.monotonic() < last + DRAIN_SECONDS:
            executor.spin_once(timeout_sec=0.05)
            before, count = count, sum(len(messages.received) for messages in received)
            last = last if count == before else time.monotonic()
        sent = finish()
        executor.shutdown()
    for number, each in enumerate(received):
        each.sent = sent[number // options.subscriptions]
    rows = (row for each in received for row in each.rows())
    side.write_csv(options.output / "messages.csv", Messages.header, rows)
    return int(stop.status)


def publish(options: argparse.Namespace) -> int:
    """Run the publishing process of two; return its exit status."""
    with side.nodes("comm_publishers") as (stop, (node,)):
        publishing, finish = publish_in_thread(options, node, stop)
        while publishing() and not stop.signal:
            time.sleep(0.05)
        sent = finish()
    rows = ((n, i, at) for n, times in enumerate(sent) for i, at in enumerate(times))
    side.write_csv(options.output / PART, ("topic", "sequence", "published"), rows)
    return int(stop.status)


def main() -> int:
    """Run this process; return its exit status."""
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
