"""Publishes at a fixed rate, calls a service and sends goals, and logs what it did."""

from __future__ import annotations

import math
import struct
import time
from array import array
from typing import Any

from rclpy.action import ActionClient

from . import process
from .interfaces import Fibonacci, Trigger, UInt8MultiArray

HEADER = struct.Struct("<qq")  # sequence, publish time in ns since the epoch
CALL_SECONDS = 1 / 15
GOAL_SECONDS = 0.5
FIBONACCI_ORDER = 5


class Publisher:
    """The sending side of the demo.

    Times are ns since the epoch; 0 in a log means that it did not happen.
    """

    def __init__(self, base: process.Process) -> None:
        self.base, options = base, base.options
        room = options.messages or int(options.rate * options.seconds * 1.1) + 16
        self.sent = array("q", bytes(8 * room))
        self.count = 0
        # sequence, request, callback, response; the callback's time is the response's text
        self.calls: list[list[int]] = []
        # goal id, sent, accepted, result
        self.goals: list[list[Any]] = []
        self.deadline = 0.0
        self.ended = False
        # Calls and goals without an answer yet; a set, for threads may end them at once.
        self.waiting: set[int] = set()
        self.settling = False
        self.message = UInt8MultiArray(data=array("B", bytes(max(options.payload, HEADER.size))))
        node = base.node
        self.publisher = node.create_publisher(UInt8MultiArray, process.TOPIC, process.QOS)
        self.client = node.create_client(Trigger, process.SERVICE)
        self.action = ActionClient(node, Fibonacci, process.ACTION)
        self.timers = [
            node.create_timer(1 / options.rate, self.publish),
            node.create_timer(CALL_SECONDS, self.call),
            node.create_timer(GOAL_SECONDS, self.send_goal),
        ]
        for timer in self.timers:
            timer.cancel()
        base.on("start", self.start)
        base.on("settle", self.settle)
        base.on("stop", lambda _: base.finish())

    def start(self, _: str) -> None:
        """Begin; all sides are known to each other."""
        options = self.base.options
        seconds = math.inf if options.messages else options.seconds
        self.deadline = time.monotonic() + seconds
        for timer in self.timers:
            timer.reset()

    def settle(self, _: str = "") -> None:
        """Say when every call and goal has been answered."""
        self.settling = True
        if not self.waiting:
            self.base.say("settled")

    def is_answered(self, entry: list[Any]) -> None:
        """Note that a call or a goal waits no longer."""
        self.waiting.discard(id(entry))
        if self.settling:
            self.settle()

    def publish(self) -> None:
        """Publish the next message, or end when it is time."""
        if time.monotonic() >= self.deadline or self.count == len(self.sent):
            for timer in self.timers:
                timer.cancel()
            self.ended = True
            self.base.say(f"sent {self.count}")
            return
        number = self.count
        now = time.time_ns()
        HEADER.pack_into(self.message.data, 0, number, now)
        self.sent[number] = now
        self.publisher.publish(self.message)
        self.count = number + 1

    def call(self) -> None:
        """Call the service once."""
        if self.ended:  # found ready before it was cancelled
            return
        entry = [len(self.calls), time.time_ns(), 0, 0]
        self.calls.append(entry)
        self.waiting.add(id(entry))

        def answered(future: Any) -> None:
            entry[3] = time.time_ns()
            entry[2] = int(future.result().message)
            self.is_answered(entry)

        self.client.call_async(Trigger.Request()).add_done_callback(answered)

    def send_goal(self) -> None:
        """Send one goal."""
        if self.ended:
            return
        entry: list[Any] = ["", time.time_ns(), 0, 0]
        self.goals.append(entry)
        self.waiting.add(id(entry))

        def accepted(future: Any) -> None:
            handle = future.result()
            if handle.accepted:
                entry[2] = time.time_ns()
                entry[0] = bytes(handle.goal_id.uuid).hex()
                handle.get_result_async().add_done_callback(ended)
            else:
                self.is_answered(entry)

        def ended(_future: Any) -> None:
            entry[3] = time.time_ns()
            self.is_answered(entry)

        goal = Fibonacci.Goal(order=FIBONACCI_ORDER)
        self.action.send_goal_async(goal).add_done_callback(accepted)


def role(base: process.Process) -> dict[str, Any]:
    """Send until the launcher says that all has arrived."""
    side = Publisher(base)
    base.wait_until(
        lambda: side.publisher.get_subscription_count() > 0,
        side.client.service_is_ready,
        side.action.server_is_ready,
    )
    base.run()
    return {
        "sent": side.sent[: side.count].tolist(),
        "calls": side.calls,
        "goals": side.goals,
    }


def main(arguments: list[str]) -> int:
    """Run the process."""
    return process.main(role, "publisher", arguments)
