"""One process whose executor is loaded with messages, service calls or action goals.

``python3 run.py --workload pubsub --executor Events --payload 1000 --rate 200 --output FOLDER``

Two nodes in one executor: one sends (a timer), the other receives. ``--clients`` senders work at
``--rate`` each. With ``--sim_time true`` both nodes take their time from ``/clock``, which a third
node in an executor of its own publishes 500 times per second.

Written into FOLDER (times in ns since the epoch; empty = it did not happen), by workload:

* pubsub: ``messages.csv``: topic, sequence, publish_realtime_ns (just before ``publish()``),
  callback_realtime_ns (first line of the callback);
* service: ``calls.csv``: service, sequence, request_realtime_ns, callback_realtime_ns (first line
  of the service's callback), response_realtime_ns (the client's callback);
* action: ``goals.csv``: action, goal_id, sequence, send_realtime_ns, accepted_realtime_ns,
  execute_realtime_ns, result_realtime_ns.

Exit status: 0 done; 1 the nodes did not find each other; 128 + N ended by signal N. The file that
``ROSLENS_READY_FILE`` names is made when all have found each other.
"""

from __future__ import annotations

import argparse
import struct
import sys
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import rclpy_side as side  # type: ignore[import-not-found]  # in the folder above

HEADER = struct.Struct("<q")
DRAIN_SECONDS = 2.0
CLOCK_SECONDS = 0.002
FIBONACCI_ORDER = 3
WORKLOADS = ("pubsub", "service", "action")


class Messages:
    """Messages from one node to the other."""

    header = side.MESSAGES
    file = "messages.csv"

    def __init__(self, nodes: tuple[Any, Any], index: int, payload: int) -> None:
        from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: PLC0415 (only in ROS)
        from std_msgs.msg import UInt8MultiArray  # noqa: PLC0415

        self.topic = f"/data_{index}" if index else "/data"
        qos = QoSProfile(depth=10, reliability=ReliabilityPolicy.RELIABLE)
        self.message = UInt8MultiArray(data=array("B", bytes(max(payload, HEADER.size))))
        self.publisher = nodes[0].create_publisher(UInt8MultiArray, self.topic, qos)
        self.subscription = nodes[1].create_subscription(
            UInt8MultiArray, self.topic, self.receive, qos
        )
        self.sent: list[int] = []
        self.received: dict[int, int] = {}

    @property
    def found(self) -> bool:
        """Whether both ends know each other."""
        return bool(self.publisher.get_subscription_count())

    @property
    def settled(self) -> bool:
        """Whether nothing is on its way."""
        return len(self.received) == len(self.sent)

    def send(self) -> None:
        """Publish the next message."""
        HEADER.pack_into(self.message.data, 0, len(self.sent))
        self.sent.append(time.time_ns())
        self.publisher.publish(self.message)

    def receive(self, message: Any) -> None:
        """Log one message."""
        now = time.time_ns()
        self.received[HEADER.unpack_from(message.data)[0]] = now

    def rows(self) -> Iterator[Sequence[Any]]:
        """What was logged."""
        for number, sent in enumerate(self.sent):
            yield self.topic, number, sent, self.received.get(number, 0)


class Calls:
    """Calls from a client to a service."""

    header = side.CALLS
    file = "calls.csv"

    def __init__(self, nodes: tuple[Any, Any], index: int, _payload: int) -> None:
        from std_srvs.srv import Trigger  # noqa: PLC0415 (only in ROS)

        self.name = f"/ask_{index}" if index else "/ask"
        self.request = Trigger.Request
        self.client = nodes[0].create_client(Trigger, self.name)
        self.service = nodes[1].create_service(Trigger, self.name, self.answer)
        # request, callback, response; the callback's time is the response's text
        self.calls: list[list[int]] = []
        self.open = 0

    @property
    def found(self) -> bool:
        """Whether the client sees the service."""
        return bool(self.client.service_is_ready())

    @property
    def settled(self) -> bool:
        """Whether every call has been answered."""
        return not self.open

    def send(self) -> None:
        """Call once."""
        request = self.request()
        entry = [0, 0, 0]
        self.calls.append(entry)
        self.open += 1

        def answered(future: Any) -> None:
            entry[2] = time.time_ns()
            entry[1] = int(future.result().message)
            self.open -= 1

        # As in C++, making the request is no part of the call.
        entry[0] = time.time_ns()
        self.client.call_async(request).add_done_callback(answered)

    def answer(self, _request: Any, response: Any) -> Any:
        """Answer with the time at which the callback began."""
        response.message = str(time.time_ns())
        response.success = True
        return response

    def rows(self) -> Iterator[Sequence[Any]]:
        """What was logged."""
        for number, entry in enumerate(self.calls):
            yield self.name, number, *entry


class Goals:
    """Goals from an action client to a server."""

    header = side.GOALS
    file = "goals.csv"

    def __init__(self, nodes: tuple[Any, Any], index: int, _payload: int) -> None:
        from rclpy.action import ActionClient, ActionServer  # noqa: PLC0415 (only in ROS)

        try:
            from test_msgs.action import Fibonacci  # noqa: PLC0415
        except ImportError:  # a ROS install without the test packages
            from example_interfaces.action import Fibonacci  # noqa: PLC0415
        self.name = f"/work_{index}" if index else "/work"
        self.kind = Fibonacci
        self.client = ActionClient(nodes[0], Fibonacci, self.name)
        self.server = ActionServer(nodes[1], Fibonacci, self.name, self.execute)
        # id, sent, accepted, result
        self.goals: list[list[Any]] = []
        self.executed: dict[str, int] = {}
        self.open = 0

    @property
    def found(self) -> bool:
        """Whether the client sees the server."""
        return bool(self.client.server_is_ready())

    @property
    def settled(self) -> bool:
        """Whether every goal has ended."""
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

        goal = self.kind.Goal(order=FIBONACCI_ORDER)
        self.client.send_goal_async(goal).add_done_callback(accepted)

    def execute(self, goal: Any) -> Any:
        """Give the Fibonacci sequence, one feedback for each number."""
        self.executed[bytes(goal.goal_id.uuid).hex()] = time.time_ns()
        sequence = [0, 1]
        for _ in range(goal.request.order):
            sequence.append(sequence[-1] + sequence[-2])
            goal.publish_feedback(self.kind.Feedback(sequence=sequence))
        goal.succeed()
        return self.kind.Result(sequence=sequence)

    def rows(self) -> Iterator[Sequence[Any]]:
        """What was logged."""
        for number, (goal, sent, accepted, result) in enumerate(self.goals):
            yield self.name, goal, number, sent, accepted, self.executed.get(goal, 0), result


SENDERS: dict[str, Any] = dict(
    zip(WORKLOADS, (Messages, Calls, Goals))  # noqa: B905 (Python 3.10 as well)
)


class Clock:
    """Publishes /clock from a thread of its own, so that the executor under test has no part."""

    def __init__(self) -> None:
        import rclpy  # noqa: PLC0415 (only in ROS)
        from rosgraph_msgs.msg import Clock as Message  # noqa: PLC0415

        self.node = rclpy.create_node("clock")
        self.publisher = self.node.create_publisher(Message, "/clock", 10)
        self.message = Message()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._tick, daemon=True)
        self.thread.start()

    def _tick(self) -> None:
        while not self.ended.wait(CLOCK_SECONDS):
            seconds, nanoseconds = divmod(time.time_ns(), 1_000_000_000)
            self.message.clock.sec, self.message.clock.nanosec = seconds, nanoseconds
            self.publisher.publish(self.message)

    def close(self) -> None:
        """End the thread and the node."""
        self.ended.set()
        self.thread.join()
        self.node.destroy_node()


class Work:
    """The senders, and the executor that runs all their callbacks."""

    def __init__(self, options: argparse.Namespace, stop: Any, nodes: tuple[Any, Any]) -> None:
        from rclpy.task import Future  # noqa: PLC0415 (only in ROS)

        self.options, self.stop = options, stop
        self.senders = [
            SENDERS[options.workload](nodes, i, options.payload) for i in range(options.clients)
        ]
        self.executor = side.make_executor(options.executor)
        for node in nodes:
            self.executor.add_node(node)
        self.done: Any = Future()
        self.deadline = 0.0
        self.timers = [self._timer(nodes[0], sender) for sender in self.senders]

    def _timer(self, node: Any, sender: Any) -> Any:
        def tick() -> None:
            if time.monotonic() >= self.deadline:
                timer.cancel()
            else:
                sender.send()

        timer = node.create_timer(1 / self.options.rate, tick)
        timer.cancel()
        return timer

    def run(self) -> None:
        """Wait until all have found each other, then work, and wait for what is on its way."""
        if side.wait_until(self.stop, *(lambda s=s: s.found for s in self.senders)):
            side.say_ready()
            self.deadline = time.monotonic() + self.options.seconds
            for timer in self.timers:
                timer.reset()
            watcher = threading.Thread(target=self._watch, daemon=True)
            watcher.start()
            side.spin(self.executor, self.options.executor, self.done)
            watcher.join()
        self.executor.shutdown()

    def _watch(self) -> None:
        """Ends the executor from outside: it shall have nothing to do but the work."""
        while not self.stop.signal and time.monotonic() < self.deadline:
            time.sleep(0.01)
        give_up = time.monotonic() + DRAIN_SECONDS
        while not self.stop.signal and time.monotonic() < give_up:
            if all(sender.settled for sender in self.senders):
                break
            time.sleep(0.01)
        if not self.done.done():
            self.done.set_result(None)
            self.executor.wake()


def main() -> int:
    """Run the process; its exit status."""
    parser = side.parser(__doc__.splitlines()[0], rate=200.0, seconds=5.0)
    parser.add_argument("--workload", choices=WORKLOADS, default="pubsub")
    parser.add_argument("--executor", choices=side.EXECUTORS, default="SingleThreaded")
    parser.add_argument("--payload", type=int, default=1000, help="bytes of a message (>= 8)")
    parser.add_argument("--clients", type=int, default=1, help="senders, each at --rate")
    parser.add_argument("--sim_time", choices=("true", "false"), default="false", type=str.lower)
    options = side.parse(parser)
    if options.clients < 1:
        parser.error("--clients is at least 1")
    import rclpy  # noqa: PLC0415 (only in ROS)
    from rclpy.parameter import Parameter  # noqa: PLC0415

    stop = side.Stop()
    side.start_rclpy()
    simulated = options.sim_time == "true"
    overrides = [Parameter("use_sim_time", value=simulated)]
    nodes = tuple(
        rclpy.create_node(name, parameter_overrides=overrides) for name in ("sender", "receiver")
    )
    clock = Clock() if simulated else None
    try:
        work = Work(options, stop, nodes)
        work.run()
    except TimeoutError as error:
        print(f"executors: {error}", file=sys.stderr)
        return 1
    rows = [row for sender in work.senders for row in sender.rows()]
    kind = SENDERS[options.workload]
    side.write_csv(options.output / kind.file, kind.header, rows)
    if clock is not None:
        clock.close()
    for node in nodes:
        node.destroy_node()
    rclpy.shutdown()
    return int(stop.status)


if __name__ == "__main__":
    sys.exit(main())
