"""Run one of the rclcpp workloads: the built-in ``rclcpp_workloads`` of suites.

``python3 run.py --workload messages --executor Events --payload 100 --seconds 5 --output FOLDER``

``--workload`` is one of messages, services, actions, timers, chain, lifecycle, causes; the other
options are the program's own (README.md). ``--processes 2`` (messages only) runs publishers and
subscriptions in separate processes, ``--outside 1`` as many subscriptions again in a separate
process; the logs of both processes are merged into one ``messages.csv``.

The programs are searched in ``$RCLCPP_WORKLOADS`` (a folder), then where colcon installed the
package (``AMENT_PREFIX_PATH``). Exit status: 0 done; 1 a program failed; 2 wrong use or not built.
"""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from pathlib import Path

PROGRAMS = ("messages", "services", "actions", "timers", "chain", "lifecycle", "causes")
PACKAGE = "rclcpp_workloads"
WITH_ROLES = ("messages", "causes")
OF_MESSAGES = (
    *("publishers", "subscriptions", "topics", "payload", "messages", "pointer", "leak", "role"),
    *("intra_process", "depth", "reliability"),
)
"""Options that only ``messages`` has: factors of suites that also contain other workloads."""
OF_SERVICES = ("clients",)
"""Options that only the workload ``services`` has."""
HEADER = (
    *("topic", "sequence", "publish_realtime_ns", "callback_realtime_ns"),
    *("publisher", "subscription"),
)


def find_program(name: str) -> Path | None:
    """Return the path of a workload's program, or None if it is not built."""
    configured = os.environ.get("RCLCPP_WORKLOADS")
    prefixes = filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep))
    folders = [Path(configured)] if configured else []
    folders += [Path(prefix) / "lib" / PACKAGE for prefix in prefixes]
    return next((folder / name for folder in folders if os.access(folder / name, os.X_OK)), None)


def merge(folder: Path) -> None:
    """Merge the logs of the two sides into ``messages.csv``.

    Subscriptions in a separate process are numbered after those in the publishers' process.
    """
    sent: dict[tuple[str, str, str], str] = {}
    seen: set[tuple[tuple[str, str, str], str]] = set()
    subscriptions: dict[str, set[str]] = {}
    offset = 0
    with (folder / "messages.csv").open("w", newline="") as output:
        writer = csv.DictWriter(output, HEADER, lineterminator="\n")
        writer.writeheader()
        of_both = folder / "messages_both.csv"
        sender = of_both if of_both.exists() else folder / "messages_publisher.csv"
        with sender.open(newline="") as stream:
            for row in csv.DictReader(stream):
                sent[row["topic"], row["publisher"], row["sequence"]] = row["publish_realtime_ns"]
                if row["subscription"]:
                    offset = max(offset, int(row["subscription"]) + 1)
                    writer.writerow(row)
        with (folder / "messages_subscriber.csv").open(newline="") as stream:
            for row in csv.DictReader(stream):
                key = row["topic"], row["publisher"], row["sequence"]
                row["subscription"] = str(int(row["subscription"]) + offset)
                seen.add((key, row["subscription"]))
                subscriptions.setdefault(row["topic"], set()).add(row["subscription"])
                writer.writerow({**row, "publish_realtime_ns": sent.get(key, "")})
        # Add what subscriptions did not receive; only those that received anything are known.
        for key, time in sent.items():
            topic, publisher, sequence = key
            for subscription in sorted(subscriptions.get(topic, {""})):
                if (key, subscription) not in seen:
                    values = (topic, sequence, time, "", publisher, subscription)
                    writer.writerow(dict(zip(HEADER, values, strict=True)))


def split(arguments: list[str]) -> dict[str, str]:
    """Return options by name.

    Raises
    ------
    ValueError
        The arguments are not pairs of ``--name value``.
    """
    if len(arguments) % 2 or not all(name.startswith("--") for name in arguments[::2]):
        raise ValueError("options are pairs of --name value")
    return {name[2:]: value for name, value in zip(arguments[::2], arguments[1::2], strict=True)}


def main() -> int:
    """Run a workload; return the exit status."""
    try:
        options = split(sys.argv[1:])
    except ValueError as error:
        return _fail(str(error))
    workload = options.pop("workload", "messages")
    processes, outside = options.pop("processes", "1"), options.pop("outside", "0")
    processes = "2" if workload == "causes" else processes
    if workload not in PROGRAMS:
        return _fail(f"--workload {workload}: there is {', '.join(PROGRAMS)}")
    if processes not in {"1", "2"} or (processes == "2" and workload not in WITH_ROLES):
        return _fail("--processes is 1, or 2 for messages")
    if outside != "0" and (outside != "1" or processes == "2" or workload != "messages"):
        return _fail("--outside is 0, or 1 for messages of one process")
    not_its: tuple[str, ...] = () if workload == "messages" else OF_MESSAGES
    not_its += () if workload == "services" else OF_SERVICES
    options = {name: value for name, value in options.items() if name not in not_its}
    program = find_program(workload)
    if program is None:
        return _fail(
            f"{workload} is not built: 'colcon build --packages-select {PACKAGE}' with ROS 2 "
            "sourced, then source install/setup.sh"
        )
    output = Path(options.setdefault("output", os.environ.get("ROSLENS_NATIVE_DIR", "."))).resolve()
    output.mkdir(parents=True, exist_ok=True)
    roles = ["both"] if processes == "1" else ["subscriber", "publisher"]
    if outside == "1":
        roles.insert(0, "subscriber")
        options["others"] = options.get("subscriptions", "1")
    given = [text for name, value in options.items() for text in (f"--{name}", value)]
    commands = [[str(program), *given]]
    if workload in WITH_ROLES:
        commands = [[*commands[0], "--role", role] for role in roles]
    relayed = options.get("cause") == "relay"
    status = _relayed(commands, options, output) if relayed else _run(commands)
    if status == 0 and len(roles) == 2:
        merge(output)
    return status


def _relayed(commands: list[list[str]], options: dict[str, str], output: Path) -> int:
    """Run a subscriber and a publisher in separate networks."""
    from relay import relay  # type: ignore[import-not-found]  # noqa: PLC0415  (of Linux)

    step_ns = round(1e9 / float(options.get("rate", "50"))) * int(options.get("every", "10"))
    hold_ns = round(1000 * float(options.get("hold_us", "15000")))
    # Shared memory would bypass the relay.
    os.environ["FASTDDS_BUILTIN_TRANSPORTS"] = "UDPv4"
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "SUBNET"
    try:
        with relay(step_ns, hold_ns) as between:
            publisher, subscriber = (["ip", "netns", "exec", name] for name in between.networks)
            status = _run([[*subscriber, *commands[0]], [*publisher, *commands[1]]])
            between.write(output)
    except OSError as error:
        return _fail(f"relay: {error} (needs root)")
    return status


def _run(commands: list[list[str]]) -> int:
    running = [subprocess.Popen(command) for command in commands]

    def pass_on(number: int, _frame: object) -> None:
        for process in running:
            process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    statuses = []
    # The publisher ends first; the subscriber ends when the publisher is gone.
    for process in reversed(running):
        statuses.append(process.wait())
        if statuses[-1]:
            for remaining in running:
                if remaining.poll() is None:
                    remaining.terminate()
    worst = next((status for status in statuses if status), 0)
    return 128 - worst if worst < 0 else worst


def _fail(text: str) -> int:
    print(f"{PACKAGE}: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
