"""Two rclpy processes, a publisher and a subscriber, with a service, an action and timers beside.

``python3 run.py --payload 100 --executor SingleThreaded --rate 500 --seconds 5 --output FOLDER``

Written into FOLDER (times in ns since the epoch; empty = it did not happen):

* ``messages.csv``: topic, sequence, publish_realtime_ns (just before ``publish()``),
  callback_realtime_ns (first line of the callback);
* ``calls.csv``: service, sequence, request_realtime_ns, callback_realtime_ns,
  response_realtime_ns (the client's callback);
* ``goals.csv``: action, goal_id, sequence, send_realtime_ns, accepted_realtime_ns,
  execute_realtime_ns, result_realtime_ns;
* ``graph.json``: each publisher and subscription with its QoS.

Exit status: 0 done; 1 a process died or did not answer; 128 + N ended by signal N. The file
named by ``ROSLENS_READY_FILE`` is created when both processes have found each other.

The launcher and a process exchange lines over the process's standard input and output. A process
ends when its input does, so nothing remains if the launcher is killed.
"""

from __future__ import annotations

import argparse
import json
import math
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import rclpy_side as side  # type: ignore[import-not-found]  # in the folder above
from rclpy_traffic import Calls, Goals, Messages  # type: ignore[import-not-found]

ROLES = ("subscriber", "publisher")
CALL_SECONDS, GOAL_SECONDS, HEARTBEAT_SECONDS = 1 / 15, 0.5, 0.1
FIBONACCI_ORDER = 5
DRAIN_SECONDS, SETTLE_SECONDS, END_SECONDS = 1.0, 5.0, 5.0
# Seconds that the launcher waits for both to be ready, and in addition to the time of the work.
READY_SECONDS, SPARE_SECONDS = 30.0, 10.0
LOOK_SECONDS = 0.02


def traffic(sender: Any, receiver: Any, payload: int = 0) -> tuple[Messages, Calls, Goals]:
    """Create all communication between the two nodes."""
    return (
        Messages("/samples", sender, receiver, payload),
        Calls("/status", sender, receiver),
        Goals("/fibonacci", sender, receiver, order=FIBONACCI_ORDER),
    )


class Process:
    """A process of the demo, with its node."""

    def __init__(self, options: argparse.Namespace) -> None:
        # Before any thread starts, because threads inherit the name.
        Path("/proc/self/comm").write_text(f"demo_{options.role}", encoding="ascii")
        self.stop = side.Stop()
        side.start_rclpy()
        import rclpy  # noqa: PLC0415 (only in ROS)
        from rclpy.task import Future  # noqa: PLC0415

        self.options, self.finished = options, Future()
        self.node = rclpy.create_node(options.role)
        self.executor = side.make_executor(options.executor)
        self.executor.add_node(self.node)
        self.told: queue.Queue[str] = queue.Queue()

    def listen(self) -> None:
        """Receive lines from the launcher; end the process when the launcher is gone."""
        for line in sys.stdin:
            self.told.put(line.strip())
        self.finish()

    def wait(self, seconds: float, done: Callable[[], bool]) -> None:
        """Wait until `done` holds, or the time is over."""
        end = time.monotonic() + seconds
        while not done() and time.monotonic() < end:
            time.sleep(LOOK_SECONDS / 2)

    def finish(self) -> None:
        """Make the executor end."""
        if not self.finished.done():
            self.finished.set_result(None)
            self.executor.wake()

    def run(self, found: Sequence[Callable[[], bool]], work: Callable[[], None]) -> None:
        """Execute callbacks once everything is found, while a thread does `work`."""
        if not side.wait_until(self.stop, *found):
            return
        print("ready", flush=True)

        def work_and_finish() -> None:
            work()
            self.finish()

        for target in (self.listen, work_and_finish):
            threading.Thread(target=target, daemon=True).start()
        self.stop.then = self.finish
        if not self.stop.signal:
            side.spin(self.executor, self.options.executor, self.finished)

    def end(self, content: dict[str, Any]) -> int:
        """Leave `content` and the endpoints for the launcher; return the exit status."""
        import rclpy  # noqa: PLC0415 (only in ROS)

        content["graph"] = _endpoints(self.node)
        path = self.options.output / f".{self.options.role}.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        self.executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown()
        return int(self.stop.status)


def publish(process: Process) -> int:
    """Publish at a fixed rate, call the service and send goals; return the exit status."""
    options, node = process.options, process.node
    messages, calls, goals = all_traffic = traffic(node, None, options.payload)
    over = threading.Event()
    deadline = math.inf

    def tick(each: Any) -> None:
        if time.monotonic() >= deadline or len(messages.sent) == (options.messages or math.inf):
            over.set()
        if not over.is_set():
            each.send()

    periods = (1 / options.rate, CALL_SECONDS, GOAL_SECONDS)
    timers = [
        node.create_timer(period, partial(tick, each))
        for period, each in zip(periods, all_traffic)  # noqa: B905 (Python 3.10 as well)
    ]
    for timer in timers:
        timer.cancel()

    def work() -> None:
        nonlocal deadline
        process.told.get()
        deadline = math.inf if options.messages else time.monotonic() + options.seconds
        for timer in timers:
            timer.reset()
        over.wait()
        for timer in timers:
            timer.cancel()
        # Calls and goals that are not answered by then never will be.
        process.wait(SETTLE_SECONDS, lambda: calls.settled and goals.settled)
        print(len(messages.sent), flush=True)
        process.told.get()

    process.run([each.matched for each in all_traffic], work)
    return process.end({"sent": messages.sent, "calls": calls.calls, "goals": goals.goals})


def subscribe(process: Process) -> int:
    """Receive, serve and execute goals, with an idle timer; return the exit status."""
    node = process.node
    messages, _, goals = traffic(None, node)
    node.create_timer(HEARTBEAT_SECONDS, lambda: None)

    def work() -> None:
        expected = int(process.told.get())
        process.wait(DRAIN_SECONDS, lambda: len(messages.received) >= expected)

    process.run([lambda: node.count_publishers(messages.topic) > 0], work)
    return process.end({"received": messages.received, "executed": goals.executed})


def _endpoints(node: Any) -> list[dict[str, Any]]:
    descriptions = []
    for kind, endpoints in (("publisher", node.publishers), ("subscription", node.subscriptions)):
        for endpoint in endpoints:
            qos = endpoint.qos_profile
            package = endpoint.msg_type.__module__.split(".")[0]
            descriptions.append(
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
    return descriptions


class Nodes:
    """The two processes, as seen by the launcher."""

    def __init__(self, stop: Any) -> None:
        self.stop = stop
        self.processes = {
            role: subprocess.Popen(
                [sys.executable, *sys.argv, "--role", role],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for role in ROLES
        }
        self.said: dict[str, list[str]] = {role: [] for role in ROLES}
        for role in ROLES:
            threading.Thread(target=self._read, args=(role,), daemon=True).start()

    def _read(self, role: str) -> None:
        for line in self.processes[role].stdout or ():
            self.said[role].append(line.strip())

    def tell(self, role: str, line: str) -> None:
        """Send a line to a process; its death is noticed in later waits."""
        pipe = self.processes[role].stdin
        assert pipe is not None
        with suppress(BrokenPipeError):
            pipe.write(f"{line}\n")
            pipe.flush()

    def check(self) -> None:
        """Check both processes; exit if a signal came or a process died."""
        if self.stop.signal:
            sys.exit(self.stop.status)
        for role, process in self.processes.items():
            if status := process.poll():
                how = "was killed by signal" if status < 0 else "ended with status"
                sys.exit(f"demo: the {role} process {how} {abs(status)}")

    def wait(self, seconds: float, wanted: str, done: Callable[[], bool]) -> None:
        """Wait until `done` holds; exit if it does not within `seconds`.

        Parameters
        ----------
        wanted
            A description of the goal for messages.
        """
        give_up = time.monotonic() + seconds
        while not done():
            self.check()
            if time.monotonic() > give_up:
                sys.exit(f"demo: {wanted} took more than {seconds:g} s")
            time.sleep(LOOK_SECONDS)

    def work(self, seconds: float) -> None:
        """Let both processes find each other, work for this many seconds, and end."""
        lines, processes = self.said, self.processes
        self.wait(READY_SECONDS, "finding each other", lambda: all(lines.values()))
        side.say_ready()
        self.tell("publisher", "start")
        most = seconds + SETTLE_SECONDS + SPARE_SECONDS
        self.wait(most, "publishing", lambda: len(lines["publisher"]) > 1)
        self.tell("subscriber", lines["publisher"][1])
        most = DRAIN_SECONDS + END_SECONDS
        self.wait(most, "ending the subscriber", lambda: processes["subscriber"].poll() is not None)
        self.tell("publisher", "stop")
        most = END_SECONDS
        self.wait(most, "ending the publisher", lambda: processes["publisher"].poll() is not None)
        self.check()

    def end(self) -> None:
        """End both processes if they still run."""
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def write_logs(folder: Path) -> None:
    """Merge the logs of the two processes."""
    logs: dict[str, Any] = {"graph": []}
    for role in ROLES:
        path = folder / f".{role}.json"
        part = json.loads(path.read_text(encoding="utf-8"))
        logs = {**logs, **part, "graph": part["graph"] + logs["graph"]}
        path.unlink()
    messages, calls, goals = all_traffic = traffic(None, None)
    messages.sent = logs["sent"]
    messages.received = {int(number): at for number, at in logs["received"].items()}
    calls.calls, goals.goals, goals.executed = logs["calls"], logs["goals"], logs["executed"]
    for each in all_traffic:
        side.write_csv(folder / each.file, each.header, each.rows())
    text = json.dumps(logs["graph"], indent=1)
    (folder / "graph.json").write_text(text + "\n", encoding="utf-8")


def launch(options: argparse.Namespace) -> None:
    """Run the two processes."""
    nodes = Nodes(side.Stop())
    try:
        # For a number of messages, there is no time limit.
        nodes.work(math.inf if options.messages else options.seconds)
        write_logs(options.output)
    finally:
        nodes.end()


def main() -> int:
    """Run the demo or one of its processes; return the exit status."""
    parser = side.parser(__doc__.splitlines()[0], rate=500.0, seconds=5.0)
    parser.add_argument("--payload", type=int, default=100, help="bytes of a message (>= 8)")
    parser.add_argument("--executor", default="SingleThreaded", choices=side.EXECUTORS)
    parser.add_argument(
        "--messages", type=int, default=0, help="so many are published, however long it takes"
    )
    parser.add_argument("--role", choices=ROLES, help=argparse.SUPPRESS)
    options = side.parse(parser)
    if options.payload < 8:
        parser.error("--payload is at least 8")
    if options.messages < 0:
        parser.error("--messages is at least 0")
    if options.role is None:
        launch(options)
        return 0
    try:
        return (publish if options.role == "publisher" else subscribe)(Process(options))
    except TimeoutError as error:
        sys.exit(f"demo: {options.role}: {error}")


if __name__ == "__main__":
    sys.exit(main())
