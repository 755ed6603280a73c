"""Exchange messages, service calls and action goals between rclpy nodes, and log them.

Each class has a sending and a receiving end, in one process or in two: ends of the other process
are not created. Times are ns since the epoch; 0 means never.
"""

from __future__ import annotations

import struct
import time
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

_HEADER = struct.Struct("<q")


def reliable() -> Any:
    """Return the quality of service of all messages: reliable, with a history of ten."""
    from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: PLC0415 (only in ROS)

    return QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)


class Messages:
    """Messages from one node to another.

    Parameters
    ----------
    topic
        The topic's name.
    sender, receiver
        The nodes; None if the node is in another process.
    payload
        Bytes per message, at least 8.
    """

    header = ("topic", "sequence", "publish_realtime_ns", "callback_realtime_ns")
    file = "messages.csv"

    def __init__(self, topic: str, sender: Any, receiver: Any, payload: int) -> None:
        from std_msgs.msg import UInt8MultiArray  # noqa: PLC0415 (only in ROS)

        self.topic = topic
        self.sent: list[int] = []
        self.received: dict[int, int] = {}
        if sender is not None:
            self.message = UInt8MultiArray(data=array("B", bytes(max(payload, _HEADER.size))))
            self.publisher = sender.create_publisher(UInt8MultiArray, topic, reliable())
        if receiver is not None:
            self.subscription = receiver.create_subscription(
                UInt8MultiArray, topic, self.receive, reliable()
            )

    def matched(self) -> bool:
        """Return whether the publisher has discovered a subscription."""
        return bool(self.publisher.get_subscription_count())

    @property
    def settled(self) -> bool:
        """Return whether all sent messages have arrived."""
        return len(self.received) == len(self.sent)

    def send(self) -> None:
        """Publish the next message."""
        _HEADER.pack_into(self.message.data, 0, len(self.sent))
        self.sent.append(time.time_ns())
        self.publisher.publish(self.message)

    def receive(self, message: Any) -> None:
        """Log a received message."""
        now = time.time_ns()
        self.received[_HEADER.unpack_from(message.data)[0]] = now

    def rows(self) -> Iterator[Sequence[Any]]:
        """Yield the logged rows."""
        for number, sent in enumerate(self.sent):
            yield self.topic, number, sent, self.received.get(number, 0)


class Calls:
    """Calls from a client to a service; see `Messages` for the parameters."""

    header = (
        *("service", "sequence", "request_realtime_ns", "callback_realtime_ns"),
        "response_realtime_ns",
    )
    file = "calls.csv"

    def __init__(self, name: str, sender: Any, receiver: Any, _payload: int = 0) -> None:
        from std_srvs.srv import Trigger  # noqa: PLC0415 (only in ROS)

        self.name = name
        self.request = Trigger.Request
        # request, callback, response; the time of the callback is the response's text
        self.calls: list[list[int]] = []
        self.open = 0
        if sender is not None:
            self.client = sender.create_client(Trigger, name)
        if receiver is not None:
            self.service = receiver.create_service(Trigger, name, self.answer)

    def matched(self) -> bool:
        """Return whether the client sees the service."""
        return bool(self.client.service_is_ready())

    @property
    def settled(self) -> bool:
        """Return whether every call has been answered."""
        return not self.open

    def send(self) -> None:
        """Make one call."""
        request = self.request()
        entry = [0, 0, 0]
        self.calls.append(entry)
        self.open += 1

        def answered(future: Any) -> None:
            entry[2] = time.time_ns()
            entry[1] = int(future.result().message)
            self.open -= 1

        # As in C++, creating the request is not part of the call.
        entry[0] = time.time_ns()
        self.client.call_async(request).add_done_callback(answered)

    def answer(self, _request: Any, response: Any) -> Any:
        """Answer with the time at which the callback began."""
        response.message = str(time.time_ns())
        response.success = True
        return response

    def rows(self) -> Iterator[Sequence[Any]]:
        """Yield the logged rows."""
        for number, entry in enumerate(self.calls):
            yield self.name, number, *entry


class Goals:
    """Goals from an action client to a server; see `Messages` for the parameters."""

    header = (
        *("action", "goal_id", "sequence", "send_realtime_ns", "accepted_realtime_ns"),
        *("execute_realtime_ns", "result_realtime_ns"),
    )
    file = "goals.csv"

    def __init__(
        self, name: str, sender: Any, receiver: Any, _payload: int = 0, *, order: int = 3
    ) -> None:
        from rclpy.action import ActionClient, ActionServer  # noqa: PLC0415 (only in ROS)

        try:
            from test_msgs.action import Fibonacci  # noqa: PLC0415
        except ImportError:  # a ROS install without the test packages
            from example_interfaces.action import Fibonacci  # noqa: PLC0415
        self.name, self.kind, self.order = name, Fibonacci, order
        # id, sent, accepted, result
        self.goals: list[list[Any]] = []
        self.executed: dict[str, int] = {}
        self.open = 0
        if sender is not None:
            self.client = ActionClient(sender, Fibonacci, name)
        if receiver is not None:
            self.server = ActionServer(receiver, Fibonacci, name, self.execute)

    def matched(self) -> bool:
        """Return whether the client sees the server."""
        return bool(self.client.server_is_ready())

    @property
    def settled(self) -> bool:
        """Return whether every goal has ended."""
        return not self.open

    def send(self) -> None:
        """Send a goal."""
        entry: list[Any] = ["", time.time_ns(), 0, 0]
        self.goals.append(entry)
        self.open += 1

        def accepted(future: Any) -> None:
            handle = future.result()
            if not handle.accepted:
                self.open -= 1
                return
            entry[2] = time.time_ns()
            entry[0] = bytes(handle.goal_id.uuid).hex()
            handle.get_result_async().add_done_callback(ended)

        def ended(_future: Any) -> None:
            entry[3] = time.time_ns()
            self.open -= 1

        goal = self.kind.Goal(order=self.order)
        self.client.send_goal_async(goal).add_done_callback(accepted)

    def execute(self, goal: Any) -> Any:
        """Return the Fibonacci sequence, with one feedback for each number."""
        self.executed[bytes(goal.goal_id.uuid).hex()] = time.time_ns()
        sequence = [0, 1]
        for _ in range(goal.request.order):
            sequence.append(sequence[-1] + sequence[-2])
            goal.publish_feedback(self.kind.Feedback(sequence=sequence))
        goal.succeed()
        return self.kind.Result(sequence=sequence)

    def rows(self) -> Iterator[Sequence[Any]]:
        """Yield the logged rows."""
        for number, (goal, sent, accepted, result) in enumerate(self.goals):
            yield self.name, goal, number, sent, accepted, self.executed.get(goal, 0), result
