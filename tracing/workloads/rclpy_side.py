"""Provide the common parts of rclpy workloads, which run in the interpreter of ROS.

Only the standard library and rclpy are used: a workload may run with any sourced ROS 2.
"""

from __future__ import annotations

import argparse
import csv
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

EXECUTORS = ("SingleThreaded", "MultiThreaded", "Events")
DISCOVERY_SECONDS = 15.0
_FOREVER_SECONDS = 1e6


def parser(description: str, *, rate: float, seconds: float) -> argparse.ArgumentParser:
    """Return a parser with the options that every workload has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rate", type=float, default=rate, help="per second")
    parser.add_argument("--seconds", type=float, default=seconds, help="how long is worked")
    parser.add_argument(
        "--output",
        type=Path,
        default=os.environ.get("ROSLENS_NATIVE_DIR"),
        help="where the logs go (default: $ROSLENS_NATIVE_DIR)",
    )
    return parser


def parse(found: argparse.ArgumentParser) -> argparse.Namespace:
    """Parse the options, and create the output folder."""
    options = found.parse_args()
    if options.output is None:
        found.error("--output or ROSLENS_NATIVE_DIR is needed")
    if options.rate <= 0 or options.seconds <= 0:
        found.error("--rate and --seconds are above 0")
    options.output = options.output.resolve()
    options.output.mkdir(parents=True, exist_ok=True)
    return options


class Stop:
    """A note of a signal requesting the end, so that logs can still be written; it calls `then`."""

    def __init__(self) -> None:
        self.signal = 0
        self.then: Callable[[], None] = lambda: None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: object) -> None:
        self.signal = number
        self.then()

    @property
    def status(self) -> int:
        """Return the exit status: 0, or 128 plus the signal number."""
        return 128 + self.signal if self.signal else 0


def start_rclpy() -> None:
    """Initialise rclpy without its own signal handlers."""
    import rclpy  # noqa: PLC0415 (only in ROS)

    rclpy.init(signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)


@contextmanager
def nodes(*names: str, **options: Any) -> Iterator[tuple[Stop, list[Any]]]:
    """Yield a `Stop` and nodes of this process, for as long as the context lasts.

    Exits with a line if the nodes of both sides do not find each other (`wait_until`).
    """
    import rclpy  # noqa: PLC0415 (only in ROS)

    stop = Stop()
    start_rclpy()
    nodes = [rclpy.create_node(name, **options) for name in names]
    try:
        yield stop, nodes
    except TimeoutError as error:
        sys.exit(f"{names[0]}: {error}")
    finally:
        for node in nodes:
            node.destroy_node()
        rclpy.shutdown()


def make_executor(name: str) -> Any:
    """Return one of `EXECUTORS`; exit with a message if this rclpy does not have it."""
    from rclpy import executors  # noqa: PLC0415

    if name == "Events":
        try:
            from rclpy.experimental import EventsExecutor  # noqa: PLC0415 (from Kilted on)
        except ImportError:
            sys.exit("the rclpy of this ROS has no EventsExecutor (Kilted is the first)")
        return EventsExecutor()
    if name == "MultiThreaded":
        return executors.MultiThreadedExecutor(num_threads=2)
    return executors.SingleThreadedExecutor()


def spin(executor: Any, kind: str, until: Any) -> None:
    """Execute callbacks until the future is done.

    If ROS is built for old C libraries (as the wheels are), the events executor's wait without a
    timeout overflows and never returns; with a very long timeout it works.
    """
    limit = {"timeout_sec": _FOREVER_SECONDS} if kind == "Events" else {}
    executor.spin_until_future_complete(until, **limit)


def wait_until(stop: Stop, *conditions: Callable[[], bool]) -> bool:
    """Wait until all conditions hold (discovery); return False if a signal came first.

    Raises
    ------
    TimeoutError
        The conditions do not hold within `DISCOVERY_SECONDS`.
    """
    give_up = time.monotonic() + DISCOVERY_SECONDS
    while not all(condition() for condition in conditions):
        if stop.signal:
            return False
        if time.monotonic() > give_up:
            raise TimeoutError("the nodes did not find each other")
        time.sleep(0.002)
    return True


def say_ready() -> None:
    """Create the file that signals that the nodes have found each other."""
    if os.environ.get("ROSLENS_READY_FILE"):
        Path(os.environ["ROSLENS_READY_FILE"]).touch()


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a log; a time (``..._ns``) of 0 means never, and is left empty."""
    times = [name.endswith("_ns") for name in header]
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        for row in rows:
            cells = zip(row, times)  # noqa: B905 (Python 3.10 as well)
            writer.writerow(["" if time and not value else value for value, time in cells])
