"""Messages of rclpy that are late by one cause that is known, at times that are known.

``python3 run.py --cause gil --rate 50 --every 10 --hold_us 15000 --seconds 5 --output FOLDER``

This is the rclpy form of the program ``causes`` of the rclcpp workloads, whose README describes
each cause and the kind it must lead to. Causes that do not involve Python exist only there, as
does that of a callback group: while one callback works, Python's lock keeps all others waiting. A
process publishes ``/work`` whenever the clock is a multiple of the period. Another receives it, on
an executor thread with its own CPU, and injects the cause: 1 ms before every ``--every``'th
message is due, or in its callback, for ``--hold_us``. ``queue`` is ten messages at once, ``gil``
a C function that keeps Python's lock and sleeps.

Written into FOLDER: ``callbacks.csv`` (sequence, start_realtime_ns, end_realtime_ns),
``injections.csv`` (cause, begin_realtime_ns, end_realtime_ns, vtid of the injecting thread).

Exit status: 0 done; 1 a process failed. The file named by ``ROSLENS_READY_FILE`` is created when
both processes have found each other.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import rclpy_side as side  # type: ignore[import-not-found]  # in the folder above

CAUSES = ("same_thread", "timer_burst", "queue", "disk", "lock", "service", "gil")
BURST = 10
AHEAD_NS = 1_000_000
BLOCK = bytes(65536)
INJECTIONS = ("cause", "begin_realtime_ns", "end_realtime_ns", "vtid")


def sleep_until(realtime_ns: int) -> None:
    """Sleep until a time, unless it has passed."""
    time.sleep(max(realtime_ns - time.time_ns(), 0) / 1e9)


def busy(seconds: float) -> None:
    """Use the CPU for some time, like real work."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


class Settings:
    """The settings of a process; times in ns."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.cause, self.output = options.cause, options.output
        self.period, self.every = round(1e9 / options.rate), options.every
        self.hold_s, self.seconds = options.hold_us / 1e6, options.seconds
        self.work_s = 0.0015 if self.cause == "queue" else 0.0002
        self.injections: list[tuple[str, int, int, int]] = []

    def during(self, work: Callable[[], Any]) -> None:
        """Run `work`, and log it as an injection."""
        begin = time.time_ns()
        work()
        # Other threads may have had Python's lock before this one has it again.
        end = begin + round(self.hold_s * 1e9) if self.cause == "gil" else time.time_ns()
        self.injections.append((self.cause, begin, end, threading.get_native_id()))

    def wait_for_hit(self, late_ns: float) -> None:
        """Wait until an injection is to begin that a message meets, and be at most this late."""
        begin, step = 0, self.period * self.every
        while time.time_ns() > begin + late_ns:
            begin = ((time.time_ns() + AHEAD_NS) // step + 1) * step - AHEAD_NS
            sleep_until(begin)

    def write(self) -> None:
        """Write the log of injections."""
        side.write_csv(self.output / "injections.csv", INJECTIONS, self.injections)


def publish(settings: Settings, node: Any, stop: Any) -> None:
    """Publish until the time is over."""
    from std_msgs.msg import UInt64  # noqa: PLC0415 (only in ROS)

    publisher = node.create_publisher(UInt64, "/work", BURST)
    side.wait_until(stop, lambda: publisher.get_subscription_count() > 0)
    side.say_ready()
    first = time.time_ns() // settings.period + 1
    for index in range(first, first + int(settings.seconds * 1e9) // settings.period):
        sleep_until(index * settings.period)
        if stop.signal:
            break
        burst = BURST if settings.cause == "queue" and index % settings.every == 0 else 1
        begin = time.time_ns()
        for number in range(burst):
            publisher.publish(UInt64(data=index * BURST + number))
        if burst > 1:
            # The callbacks take this long.
            end = begin + round(burst * settings.work_s * 1e9)
            settings.injections.append((settings.cause, begin, end, threading.get_native_id()))
    time.sleep(0.5)
    if settings.cause == "queue":
        settings.write()


class Subscriber:
    """A node that receives messages and injects causes."""

    def __init__(self, settings: Settings, node: Any) -> None:
        from std_msgs.msg import UInt64  # noqa: PLC0415 (only in ROS)
        from std_srvs.srv import Empty  # noqa: PLC0415

        self.settings, self.node = settings, node
        self.rows: list[tuple[int, int, int]] = []
        self.lock, self.over = threading.Lock(), threading.Event()
        self.subscription = node.create_subscription(UInt64, "/work", self.receive, BURST)
        if settings.cause == "service":
            self.service = node.create_service(Empty, "/own", lambda _, response: response)
            self.client, self.request = node.create_client(Empty, "/own"), Empty.Request()
        if settings.cause == "disk":
            self.file = (settings.output / "scratch.bin").open("wb", buffering=0)

    def receive(self, message: Any) -> None:
        """Handle a message in its callback."""
        settings, start = self.settings, time.time_ns()
        busy(settings.work_s)
        if settings.cause == "lock":
            with self.lock:
                pass
        elif message.data // BURST % settings.every == 0:
            if settings.cause == "disk":
                settings.during(self._write)
            elif settings.cause == "service":
                settings.during(self._call)
        self.rows.append((message.data, start, time.time_ns()))

    def _write(self) -> None:
        end = time.perf_counter() + self.settings.hold_s
        while time.perf_counter() < end:
            os.pwrite(self.file.fileno(), BLOCK, 0)
            os.fsync(self.file.fileno())

    def _call(self) -> None:
        """Call a service that only this thread could serve, and give up."""
        answered = threading.Event()
        future = self.client.call_async(self.request)
        future.add_done_callback(lambda _: answered.set())
        answered.wait(self.settings.hold_s)
        self.client.remove_pending_request(future)

    def start(self) -> None:
        """Start the injections that do not happen in a message's callback."""
        from rclpy.callback_groups import MutuallyExclusiveCallbackGroup  # noqa: PLC0415

        cause, settings = self.settings.cause, self.settings
        if cause in ("same_thread", "timer_burst"):
            count, group = BURST if cause == "timer_burst" else 1, MutuallyExclusiveCallbackGroup()
            # A timer keeps the phase at which it was created: if late, it would affect no message.
            settings.wait_for_hit(AHEAD_NS / 4)
            for _ in range(count):
                self.node.create_timer(
                    settings.period * settings.every / 1e9,
                    lambda: settings.during(lambda: busy(settings.hold_s / count)), group,
                )  # fmt: skip
        elif cause in ("lock", "gil"):
            threading.Thread(target=self._repeat, daemon=True).start()

    def _repeat(self) -> None:
        name = f"inject_{self.settings.cause}"
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)
        usleep, settings = ctypes.PyDLL(None).usleep, self.settings
        while not self.over.is_set():
            # A message that came first may be held up elsewhere.
            settings.wait_for_hit(AHEAD_NS)
            if settings.cause == "gil":
                settings.during(lambda: usleep(round(settings.hold_s * 1e6)))
            else:
                with self.lock:
                    settings.during(lambda: time.sleep(settings.hold_s))

    def run(self, cpu: int, stop: Any) -> None:
        """Receive until the publisher has gone."""
        executor = side.make_executor("SingleThreaded")
        executor.add_node(self.node)

        def spin() -> None:
            os.sched_setaffinity(0, {cpu})
            while not self.over.is_set():
                executor.spin_once(timeout_sec=0.5)

        spinning = threading.Thread(target=spin)
        spinning.start()
        count = self.subscription.get_publisher_count
        try:
            side.wait_until(stop, lambda: count() > 0)
            self.start()
            while count() > 0:
                time.sleep(0.05)
        finally:
            self.over.set()
            spinning.join()
        header = ("sequence", "start_realtime_ns", "end_realtime_ns")
        side.write_csv(self.settings.output / "callbacks.csv", header, self.rows)
        if self.settings.cause != "queue":
            self.settings.write()


def main() -> int:
    """Run one process or both; return the exit status."""
    parser = side.parser(__doc__.splitlines()[0], rate=50.0, seconds=5.0)
    parser.add_argument("--cause", choices=CAUSES, default=CAUSES[0])
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--hold_us", type=float, default=15000.0)
    parser.add_argument("--role", choices=("both", "subscriber"), default="both")
    options = side.parse(parser)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        parser.error("needs two CPUs")
    subscriber = None
    if options.role == "both":
        subscriber = subprocess.Popen([sys.executable, *sys.argv, "--role", "subscriber"])
    # Set before the middleware starts threads: only the executor has the last CPU.
    os.sched_setaffinity(0, cpus[:1])
    settings = Settings(options)
    try:
        with side.nodes("publisher" if subscriber else "subscriber") as (stop, (node,)):
            if subscriber is None:
                Subscriber(settings, node).run(cpus[-1], stop)
            else:
                publish(settings, node, stop)
    except BaseException:
        if subscriber is not None:
            subscriber.terminate()
        raise
    return 0 if subscriber is None else min(subscriber.wait(), 1)


if __name__ == "__main__":
    sys.exit(main())
