"""Runs the demo: starts its two processes, watches them, and writes what they logged.

``python3 run.py --payload 100 --executor SingleThreaded --rate 500 --seconds 5 --output FOLDER``

Written into FOLDER (times in ns since the epoch; empty = it did not happen):

* ``messages.csv``: topic, sequence, publish_realtime_ns (just before ``publish()``),
  callback_realtime_ns (first line of the callback);
* ``calls.csv``: service, sequence, request_realtime_ns, callback_realtime_ns,
  response_realtime_ns (the client's callback);
* ``goals.csv``: action, goal_id, sequence, send_realtime_ns, accepted_realtime_ns,
  execute_realtime_ns, result_realtime_ns;
* ``graph.json``: each publisher and subscription with its QoS.

Exit status: 0 done; 1 a process died or did not answer; 128 + N ended by signal N. The file that
``ROSLENS_READY_FILE`` names is made when both processes have found each other.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TOPIC, SERVICE, ACTION = "/samples", "/status", "/fibonacci"
ROLES = ("publisher", "subscriber")
READY_SECONDS = 30.0
DRAIN_SECONDS = 1.0
SETTLE_SECONDS = 5.0
END_SECONDS = 5.0


class Failed(Exception):  # noqa: N818 (its text is the whole message)
    """A process died or did not do its part."""


class Interrupted(Exception):  # noqa: N818
    """A signal asks to end."""


class Nodes:
    """The two processes."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.processes = {
            role: subprocess.Popen(
                [
                    *(sys.executable, str(HERE), role),
                    *("--payload", str(options.payload), "--executor", options.executor),
                    *("--rate", str(options.rate), "--seconds", str(options.seconds)),
                    *("--messages", str(options.messages), "--output", str(options.output)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            for role in ROLES
        }
        self.unread = dict.fromkeys(ROLES, b"")
        self.said: dict[str, list[str]] = {role: [] for role in ROLES}
        self.selector = selectors.DefaultSelector()
        for role, process in self.processes.items():
            assert process.stdout is not None
            self.selector.register(process.stdout, selectors.EVENT_READ, role)

    def tell(self, role: str, line: str) -> None:
        """Send a line to a process; one that is gone is noticed when it is listened to."""
        pipe = self.processes[role].stdin
        assert pipe is not None
        try:
            pipe.write(line.encode() + b"\n")
            pipe.flush()
        except BrokenPipeError:
            pass

    def expect(self, role: str, word: str, seconds: float) -> str | None:
        """Wait until a process says `word`; what follows it, or None when the time is over.

        Raises
        ------
        Failed
            A process has ended.
        """
        deadline = time.monotonic() + seconds
        while True:
            for line in self.said[role]:
                if line.split(" ")[0] == word:
                    return line.partition(" ")[2]
            left = deadline - time.monotonic()
            if left <= 0:
                return None
            for key, _ in self.selector.select(left):
                self._read(key.data)

    def _read(self, role: str) -> None:
        process = self.processes[role]
        assert process.stdout is not None
        data = os.read(process.stdout.fileno(), 65536)
        if not data:
            status = process.wait()
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            raise Failed(f"the {role} process {how}")
        *lines, self.unread[role] = (self.unread[role] + data).split(b"\n")
        self.said[role] += [line.decode() for line in lines]

    def end(self) -> list[str]:
        """Wait for both to end, ending them where they do not; the roles that failed."""
        deadline = time.monotonic() + END_SECONDS
        failed = []
        for role, process in self.processes.items():
            try:
                status = process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
            if status:
                failed.append(role)
        return failed

    def terminate(self) -> None:
        """Ask both to end."""
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()


def run(nodes: Nodes, options: argparse.Namespace) -> None:
    """Let the nodes find each other, work, drain and stop.

    Raises
    ------
    Failed
        One of them did not do its part.
    """
    for role in ROLES:
        if nodes.expect(role, "ready", READY_SECONDS) is None:
            raise Failed(f"the {role} process was not ready within {READY_SECONDS:.0f} s")
    if os.environ.get("ROSLENS_READY_FILE"):
        Path(os.environ["ROSLENS_READY_FILE"]).touch()
    nodes.tell("publisher", "start")
    seconds = max(options.seconds, 2 * options.messages / options.rate)
    sent = nodes.expect("publisher", "sent", seconds + READY_SECONDS)
    if sent is None:
        raise Failed("the publisher process did not end its work in time")
    # What has not arrived by then is lost, or was never answered.
    deadline = time.monotonic() + SETTLE_SECONDS
    nodes.tell("publisher", "settle")
    nodes.tell("subscriber", f"drain {sent}")
    nodes.expect("subscriber", "drained", DRAIN_SECONDS)
    nodes.expect("publisher", "settled", max(0.0, deadline - time.monotonic()))
    for role in ROLES:
        nodes.tell(role, "stop")
    failed = nodes.end()
    if failed:
        raise Failed(f"the {' and the '.join(failed)} process ended with an error")


def write_logs(folder: Path) -> None:
    """Merge what the two processes logged."""
    parts: list[dict[str, Any]] = []
    for role in ROLES:
        path = folder / f".{role}.json"
        parts.append(json.loads(path.read_text(encoding="utf-8")))
        path.unlink()
    sender, receiver = parts
    _write(
        folder / "messages.csv",
        ("topic", "sequence", "publish_realtime_ns", "callback_realtime_ns"),
        [
            (TOPIC, number, sent, receiver["received"][number])
            for number, sent in enumerate(sender["sent"])
        ],
    )
    _write(
        folder / "calls.csv",
        ("service", "sequence", *(f"{x}_realtime_ns" for x in ("request", "callback", "response"))),
        [(SERVICE, *call) for call in sender["calls"]],
    )
    times = ("send", "accepted", "execute", "result")
    _write(
        folder / "goals.csv",
        ("action", "goal_id", "sequence", *(f"{x}_realtime_ns" for x in times)),
        [
            (ACTION, goal, number, sent, accepted, receiver["goals"].get(goal, 0), result)
            for number, (goal, sent, accepted, result) in enumerate(sender["goals"])
        ],
    )
    graph = sender["graph"] + receiver["graph"]
    (folder / "graph.json").write_text(json.dumps(graph, indent=1) + "\n", encoding="utf-8")


def _write(path: Path, header: tuple[str, ...], rows: list[tuple[Any, ...]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(header)
        for row in rows:
            # A sequence number may be 0; a time is 0 only if it never was.
            writer.writerow(
                "" if name.endswith("_ns") and not value else value
                for name, value in zip(header, row)  # noqa: B905 (Python 3.10 as well)
            )


def main() -> int:
    """Run the demo; its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--payload", type=int, default=100, help="bytes of a message (>= 16)")
    parser.add_argument(
        "--executor",
        default="SingleThreaded",
        choices=("SingleThreaded", "MultiThreaded", "Events"),
    )
    parser.add_argument("--rate", type=float, default=500.0, help="messages per second")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long is published")
    parser.add_argument(
        "--messages", type=int, default=0, help="so many are published, however long it takes"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=os.environ.get("ROSLENS_NATIVE_DIR"),
        help="where the logs go (default: $ROSLENS_NATIVE_DIR)",
    )
    options = parser.parse_args()
    if options.output is None:
        parser.error("--output or ROSLENS_NATIVE_DIR is needed")
    if options.payload < 16 or options.rate <= 0 or options.seconds <= 0:
        parser.error("--payload is at least 16, --rate and --seconds are above 0")
    if options.messages < 0:
        parser.error("--messages is at least 0")
    options.output = options.output.resolve()
    options.output.mkdir(parents=True, exist_ok=True)
    received: list[int] = []

    def on_signal(number: int, _frame: object) -> None:
        received.append(number)
        raise Interrupted

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    nodes = Nodes(options)
    try:
        run(nodes, options)
        write_logs(options.output)
    except Failed as error:
        print(f"demo: {error}", file=sys.stderr)
        status = 1
    except Interrupted:
        status = 128 + received[0]
    else:
        return 0
    # A second signal must not leave processes behind.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    nodes.terminate()
    nodes.end()
    return status


if __name__ == "__main__":
    sys.exit(main())
