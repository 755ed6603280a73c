"""Receives, serves and executes goals, and logs when its callbacks ran."""

from __future__ import annotations

import time
from array import array
from typing import Any

from rclpy.action import ActionServer

from . import process
from .interfaces import Fibonacci, Trigger, UInt8MultiArray
from .publisher import HEADER

HEARTBEAT_SECONDS = 0.1


class Subscriber:
    """The receiving side of the demo. Times are ns since the epoch; 0 is never."""

    def __init__(self, base: process.Process) -> None:
        self.base, options = base, base.options
        room = options.messages or int(options.rate * options.seconds * 1.1) + 16
        self.received = array("q", bytes(8 * room))
        self.count = 0
        self.expected = -1
        self.goals: dict[str, int] = {}
        self.beats = 0
        node = base.node
        self.subscription = node.create_subscription(
            UInt8MultiArray, process.TOPIC, self.receive, process.QOS
        )
        self.service = node.create_service(Trigger, process.SERVICE, self.answer)
        self.action = ActionServer(node, Fibonacci, process.ACTION, self.execute)
        self.timer = node.create_timer(HEARTBEAT_SECONDS, self.beat)
        base.on("drain", self.drain)
        base.on("stop", lambda _: base.finish())

    def receive(self, message: UInt8MultiArray) -> None:
        """Log one message."""
        now = time.time_ns()
        number = HEADER.unpack_from(message.data)[0]
        self.received[number] = now
        self.count += 1
        if self.count == self.expected:
            self.base.say("drained")

    def answer(self, _request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        """Answer with the time at which the callback began."""
        now = time.time_ns()
        response.success = True
        response.message = str(now)
        return response

    def execute(self, goal: Any) -> Any:
        """Give the Fibonacci sequence, one feedback for each number."""
        self.goals[bytes(goal.goal_id.uuid).hex()] = time.time_ns()
        sequence = [0, 1]
        for _ in range(goal.request.order):
            sequence.append(sequence[-1] + sequence[-2])
            goal.publish_feedback(Fibonacci.Feedback(sequence=sequence))
        goal.succeed()
        return Fibonacci.Result(sequence=sequence)

    def beat(self) -> None:
        """Count; a timer that has little to do."""
        self.beats += 1

    def drain(self, expected: str) -> None:
        """Say when all messages have arrived; the launcher knows how many were sent."""
        self.expected = int(expected)
        if self.count >= self.expected:
            self.base.say("drained")


def role(base: process.Process) -> dict[str, Any]:
    """Receive until the launcher says stop."""
    side = Subscriber(base)
    base.wait_until(lambda: base.node.count_publishers(process.TOPIC) > 0)
    base.run()
    return {"received": side.received.tolist(), "goals": side.goals}


def main(arguments: list[str]) -> int:
    """Run the process."""
    return process.main(role, "subscriber", arguments)
