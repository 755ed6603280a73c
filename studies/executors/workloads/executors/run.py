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
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[4] / "tracing" / "workloads"))
import rclpy_side as side  # type: ignore[import-not-found]
from rclpy_traffic import Calls, Goals, Messages  # type: ignore[import-not-found]

DRAIN_SECONDS = 2.0
CLOCK_SECONDS = 0.002
KINDS = {
    "pubsub": (Messages, "/data"),
    "service": (Calls, "/ask"),
    "action": (Goals, "/work"),
}


class Clock:
    """Publisher of /clock in a thread of its own, to keep the executor under test free of it."""

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

    def __init__(self, options: argparse.Namespace, stop: Any, nodes: list[Any]) -> None:
        from rclpy.task import Future  # noqa: PLC0415 (only in ROS)

        self.options, self.stop = options, stop
        kind, name = KINDS[options.workload]
        names = [f"{name}_{i}" if i else name for i in range(options.clients)]
        self.senders = [kind(each, *nodes, options.payload) for each in names]
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
        """Wait until all have found each other, then work, and wait for messages on their way."""
        if side.wait_until(self.stop, *(sender.matched for sender in self.senders)):
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
        """End the executor from another thread, to keep it free of all but the work."""
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
    """Run the process; return its exit status."""
    parser = side.parser(__doc__.splitlines()[0], rate=200.0, seconds=5.0)
    parser.add_argument("--workload", choices=KINDS, default="pubsub")
    parser.add_argument("--executor", choices=side.EXECUTORS, default="SingleThreaded")
    parser.add_argument("--payload", type=int, default=1000, help="bytes of a message (>= 8)")
    parser.add_argument("--clients", type=int, default=1, help="senders, each at --rate")
    parser.add_argument("--sim_time", choices=("true", "false"), default="false", type=str.lower)
    options = side.parse(parser)
    if options.clients < 1:
        parser.error("--clients is at least 1")
    from rclpy.parameter import Parameter  # noqa: PLC0415 (only in ROS)

    simulated = options.sim_time == "true"
    overrides = [Parameter("use_sim_time", value=simulated)]
    with side.nodes("sender", "receiver", parameter_overrides=overrides) as (stop, nodes):
        clock = Clock() if simulated else None
        try:
            work = Work(options, stop, nodes)
            work.run()
        finally:
            if clock is not None:
                clock.close()
    rows = [row for sender in work.senders for row in sender.rows()]
    kind, _ = KINDS[options.workload]
    side.write_csv(options.output / kind.file, kind.header, rows)
    return int(stop.status)


if __name__ == "__main__":
    sys.exit(main())
