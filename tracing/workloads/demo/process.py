"""What both processes of the demo do: options, executor, the talk with the launcher, logs.

The launcher and a process talk in lines over the process's standard input and output. The
process ends when its input does, so nothing is left if the launcher is killed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable  # noqa: UP035 (one spelling for all versions of Python)

import rclpy
import rclpy.executors
from rclpy.node import Node
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.task import Future

TOPIC = "/samples"
SERVICE = "/status"
ACTION = "/fibonacci"
QOS = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
DISCOVERY_SECONDS = 15.0
FOREVER_SECONDS = 1e6


class Options(argparse.Namespace):
    """What the launcher asks for."""

    payload: int
    executor: str
    rate: float
    seconds: float
    messages: int
    output: Path


def parse(arguments: list[str]) -> Options:
    """The options of a process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--payload", type=int, required=True)
    parser.add_argument("--executor", required=True)
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--messages", type=int, required=True, help="0: as many as fit")
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args(arguments, namespace=Options())


class Stopped(Exception):  # noqa: N818 (it is no error)
    """The process is asked to end before its work is done."""


class Process:
    """A process of the demo with its node.

    Parameters
    ----------
    name
        Of the node; ``demo_<name>`` is the process's, as the trace shows it.
    options
        What the launcher asks for.
    """

    def __init__(self, name: str, options: Options) -> None:
        # Before any thread starts, for threads inherit it.
        Path("/proc/self/comm").write_text(f"demo_{name}", encoding="ascii")
        self.name, self.options = name, options
        self.signal = 0
        # Before a signal can come, for it is what a signal ends.
        self.finished: Future[None] = Future()
        self.executor: Any = None
        # Ours stop the executor without ending the context, so that logs can still be written.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        rclpy.init(signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
        self.node = Node(name)
        self.executor = _make_executor(options.executor)
        self.executor.add_node(self.node)
        self._commands: dict[str, Callable[[str], None]] = {}

    def on(self, command: str, action: Callable[[str], None]) -> None:
        """Do `action` in the executor when the launcher says `command`."""
        self._commands[command] = action

    def say(self, line: str) -> None:
        """Tell the launcher something."""
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def wait_until(self, *conditions: Callable[[], bool]) -> None:
        """Wait until all conditions hold (discovery; needs no executor).

        Raises
        ------
        TimeoutError
            They do not within `DISCOVERY_SECONDS`.
        Stopped
            A signal came.
        """
        give_up = time.monotonic() + DISCOVERY_SECONDS
        while not all(condition() for condition in conditions):
            if self.signal:
                raise Stopped
            if time.monotonic() > give_up:
                raise TimeoutError(f"{self.name}: the other process was not discovered")
            time.sleep(0.002)

    def finish(self) -> None:
        """Let `run` return."""
        if not self.finished.done():
            self.finished.set_result(None)
            if self.executor is not None:
                self.executor.wake()

    def run(self) -> None:
        """Tell the launcher that all is ready, then execute callbacks until `finish`."""
        threading.Thread(target=self._listen, daemon=True).start()
        self.say("ready")
        # Where ROS is built for old C libraries (the wheels are), the events executor's wait
        # without an end overflows and never returns; with an end that never comes it does. The
        # others make a timer for every wait that has an end.
        limit = {"timeout_sec": FOREVER_SECONDS} if self.options.executor == "Events" else {}
        self.executor.spin_until_future_complete(self.finished, **limit)
        if self.signal:
            raise Stopped

    def close(self) -> None:
        """End the node and ROS."""
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown()

    def write(self, content: dict[str, Any]) -> None:
        """Leave `content` for the launcher, with the node's endpoints."""
        content["graph"] = _endpoints(self.node)
        path = self.options.output / f".{self.name}.json"
        path.write_text(json.dumps(content), encoding="utf-8")

    def _listen(self) -> None:
        for line in sys.stdin:
            command, _, argument = line.strip().partition(" ")
            action = self._commands.get(command)
            if action is not None:
                self.executor.create_task(action, argument)
                self.executor.wake()
        self.finish()  # the launcher is gone

    def _on_signal(self, number: int, _frame: object) -> None:
        self.signal = number
        self.finish()


def main(role: Callable[[Process], dict[str, Any]], name: str, arguments: list[str]) -> int:
    """Run a role: it returns what it logged; its exit status is returned."""
    process = Process(name, parse(arguments))
    status = 0
    try:
        process.write(role(process))
    except Stopped:
        status = 128 + process.signal
    except TimeoutError as error:
        print(error, file=sys.stderr)
        status = 1
    process.close()
    return status


def _make_executor(name: str) -> Any:
    if name == "Events":
        try:
            from rclpy.experimental import EventsExecutor  # noqa: PLC0415 (from Kilted on)
        except ImportError:
            sys.exit("demo: the rclpy of this ROS has no EventsExecutor (Kilted is the first)")
        return EventsExecutor()
    if name == "MultiThreaded":
        return rclpy.executors.MultiThreadedExecutor()
    return rclpy.executors.SingleThreadedExecutor()


def _endpoints(node: Node) -> list[dict[str, Any]]:
    found = []
    for kind, endpoints in (("publisher", node.publishers), ("subscription", node.subscriptions)):
        for endpoint in endpoints:
            qos = endpoint.qos_profile
            package = endpoint.msg_type.__module__.split(".")[0]
            found.append(
                {
                    "topic": endpoint.topic_name,
                    "node": node.get_fully_qualified_name(),
                    "kind": kind,
                    "type": f"{package}/msg/{endpoint.msg_type.__name__}",
                    "reliability": qos.reliability.name.lower(),
                    "durability": qos.durability.name.lower(),
                    "history": qos.history.name.lower(),
                    "depth": qos.depth,
                }
            )
    return found
