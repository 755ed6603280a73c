"""One run of the suite micro-ros: ``run.py --part PART --seconds S --output FOLDER``.

A part is an entity (publisher, subscriber, service, client, history), of which micro-ROS is
compiled for a Cortex-M3 with each number and run on an emulated board, without an RTOS or in a task
of one (publisher_freertos, publisher_threadx); or a transport (udp, tcp, tcp_no_delay, serial: a
client on this host; uart, udp_board: one on the emulated board), over which a client and a ROS node
exchange messages through micro-ROS' agent. docs/micro_ros.md describes its files.

Exit status: 0 done; 1 something failed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[3] / "tracing" / "workloads")]
import building  # type: ignore[import-not-found]  # noqa: E402
import memory  # type: ignore[import-not-found]  # noqa: E402
import rclpy_side as side  # type: ignore[import-not-found]  # noqa: E402
from connected import (  # type: ignore[import-not-found]  # noqa: E402
    DeviceError,
    agent,
    board,
    ended_well,
    say,
)
from ros_node import RosSide, to_device  # type: ignore[import-not-found]  # noqa: E402

LINKS = {
    **dict.fromkeys(("udp", "tcp", "tcp_no_delay"), "loopback"),
    "serial": "pty",
    "uart": "emulated UART",
    "udp_board": "emulated Ethernet",
}
TRANSPORTS = tuple(LINKS)
# Source files of the line for transports that a client on the board uses.
_LINES = {"uart": ("board_line", "rtos_none"), "udp_board": ("network_lwip",)}
_TICK_NS = 40
# qemu's own network, in which this computer is 10.0.2.2.
_NIC = "user,model=lan9118"
_START_SECONDS = 90.0
_CHECK_SECONDS = 0.05
# Parts that measure an entity with one unusual property.
VARIANTS: dict[str, dict[str, Any]] = {
    "publisher_best_effort": {"reliability": "best_effort"},
    "publisher_400_bytes": {"payload": 400},
    "publisher_one_topic": {"topics": "one"},
    **{
        f"{entity}_{rtos}": {"rtos": rtos}
        for entity in memory.ENTITIES[:4]
        for rtos in ("freertos", "threadx")
    },
}


def main() -> None:
    """Run one part."""
    options = _options()
    try:
        if options.part in TRANSPORTS:
            about = _exchange_all(options)
        else:
            about = memory.measure(options, options.output / "memory" / options.part)
    except (building.BuildError, DeviceError) as error:
        sys.exit(f"micro-ros: {options.part}: {error}")
    (options.output / "micro_ros.json").write_text(json.dumps(about, indent=1) + "\n")


def _exchange_all(options: argparse.Namespace) -> dict[str, Any]:
    """Exchange reliable messages, and then best-effort ones; write a folder for each."""
    import rclpy  # noqa: PLC0415 (only in ROS)

    line = _LINES.get(options.part)
    program = options.output / "device.elf"
    say(f"{options.part}: compiling a program")
    device = building.Program(
        "cortex-m3" if line else "host",
        ["exchange", *((*line, "board_main") if line else ("host", "text"))],
        program,
        memory.pools(options, publisher=2, subscriber=2),
    )
    building.build([device])
    program.with_suffix(".map").unlink()
    side.start_rclpy()
    try:
        for reliability in ("reliable", "best_effort"):
            folder = options.output / "transport" / f"{options.part} {reliability}"
            folder.mkdir(parents=True, exist_ok=True)
            say(f"{options.part}, {reliability}")
            shutil.copy(program, folder / program.name)
            _exchange(options, folder, reliable=reliability == "reliable")
            (folder / program.name).unlink()
    finally:
        rclpy.try_shutdown()
    program.unlink()
    return {"schema_version": 2, "part": options.part, "system": "micro-ROS"}


def _exchange(options: argparse.Namespace, folder: Path, *, reliable: bool) -> None:
    """Let a client and a node exchange messages; write the folder of the transport."""
    import rclpy  # noqa: PLC0415 (only in ROS)

    # Exchanges and the sizes of either direction take a sixth of the time each, in two rounds.
    milliseconds = round(1000 * options.seconds / 6)
    # An emulated line has no throughput, so a few messages of each size suffice.
    flood = milliseconds // len(options.payloads) // (10 if options.part in _LINES else 1)
    numbers = [int(reliable), milliseconds, flood]
    words = [*map(str, [*numbers, options.offset_ns, options.drift_ppb, *options.payloads])]
    executor = side.make_executor("SingleThreaded")
    node = rclpy.create_node("ros_side")
    done = rclpy.task.Future(executor=executor)
    try:
        ros = RosSide(node, reliable=reliable, done=done)
        executor.add_node(node)
        with ExitStack() as stack:
            process = _start(options.part, folder / "device.elf", words, stack)
            limit = options.seconds + _START_SECONDS
            end = time.monotonic() + limit
            # The node spins on after the device's report: a lost acknowledgement may be requested
            # again.
            while process.poll() is None and time.monotonic() < end:
                executor.spin_once(timeout_sec=_CHECK_SECONDS)
            if process.poll() is None:
                raise DeviceError(f"the device still ran after {limit:g} s")
            ended_well(process, 0.0, "the device")
    finally:
        executor.shutdown()
        node.destroy_node()
    if not done.done():
        raise DeviceError("the device ended without reporting what it sent")
    ros.write(folder)
    accounts = ros.accounts.rows()
    about = {
        "system": "micro-ROS",
        "transport": options.part,
        "reliability": "reliable" if reliable else "best_effort",
        "link": LINKS[options.part],
        # Loopback and emulated lines are limited by the processor only.
        "line_bit_per_s": None,
        # The last ping only reports on the one before.
        "pings": len(ros.accounts.pings) - 1,
        "client_resolution_ns": _TICK_NS if options.part in _LINES else 1,
        "injected": {"offset_ns": options.offset_ns, "drift_ppb": options.drift_ppb},
        "accounts": accounts,
        "device": _device_counts(folder / "device.txt"),
    }
    (folder / "about.json").write_text(json.dumps(about, indent=1) + "\n")
    for left in ("device.txt", "agent.log"):
        (folder / left).unlink()


def _start(part: str, program: Path, words: list[str], stack: ExitStack) -> subprocess.Popen[Any]:
    """Start the agent and the device; return the device's process."""
    log = program.with_name("agent.log")
    emulated: tuple[subprocess.Popen[Any], str]
    if part == "uart":
        emulated = stack.enter_context(board(program, ["uart", "-", *words]))
        stack.enter_context(agent("serial", "-D", emulated[1], "-b", "115200", log=log))
        return emulated[0]
    if part == "udp_board":
        where = str(_free_port(part))
        stack.enter_context(agent("udp4", "-p", where, log=log))
        emulated = stack.enter_context(board(program, [part, where, *words], _NIC))
        return emulated[0]
    inherited: list[int] = []
    if part == "serial":
        # The device holds one end of a pseudo-terminal, the agent the other.
        near, far = os.openpty()
        stack.callback(os.close, near)
        stack.callback(os.close, far)
        stack.enter_context(agent("serial", "-D", os.ttyname(far), "-b", "115200", log=log))
        where, inherited = str(near), [near]
    else:
        where = str(_free_port(part))
        stack.enter_context(agent(f"{part[:3]}4", "-p", where, log=log))
    environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    process = subprocess.Popen(
        [str(program), part, where, *words],
        cwd=program.parent,
        env=environment,
        pass_fds=inherited,
    )
    stack.callback(process.kill)
    return process


def _free_port(part: str) -> int:
    kind = socket.SOCK_DGRAM if part.startswith("udp") else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _device_counts(path: Path) -> list[dict[str, object]]:
    """Return the device's own counts of its messages."""
    rows: list[dict[str, object]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        kind, *words = line.split()
        numbers = list(map(int, words))
        if kind == "F":
            rows.append({"message": f"{numbers[0]} B", "sent": numbers[1], "refused": numbers[2]})
        elif kind == "D":
            message = to_device(numbers[0])
            rows.append({"message": message, "received": numbers[1], "twice": numbers[2]})
        else:
            rows.append({"message": "ping", "sent": numbers[0], "refused": numbers[2]})
            rows.append({"message": "answer", "received": numbers[1]})
    return rows


def _numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(","))
    if not numbers or min(numbers) < 1:
        raise ValueError(text)
    return numbers


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=(*memory.ENTITIES, *VARIANTS, *TRANSPORTS))
    parser.add_argument("--seconds", type=float, default=4.0, help="of a transport")
    parser.add_argument(
        "--output",
        type=Path,
        default=os.environ.get("ROSLENS_NATIVE_DIR"),
        help="where the files go (default: $ROSLENS_NATIVE_DIR)",
    )
    parser.add_argument("--counts", type=_numbers, default=(1, 2, 4, 7, 10))
    parser.add_argument("--mtu", type=int, default=512, help="bytes of a packet")
    parser.add_argument("--depth", type=int, default=4, help="packets of a stream's history")
    parser.add_argument("--slots", type=int, default=4, help="of the RMW's history")
    parser.add_argument("--payloads", type=_numbers, default=(10, 100, 200, 400))
    parser.add_argument("--keep", type=int, default=0, help="entities that are not ended")
    parser.add_argument("--touch", type=int, default=0, help="bytes of the stack surely touched")
    parser.add_argument("--offset-ns", type=int, default=0)
    parser.add_argument("--drift-ppb", type=int, default=0)
    options = parser.parse_args()
    if options.output is None:
        parser.error("--output or ROSLENS_NATIVE_DIR is needed")
    if options.seconds <= 0 or options.mtu < 64 or options.depth < 1 or options.slots < 1:
        parser.error("--seconds, --depth and --slots are above 0, --mtu is 64 or more")
    if min(options.payloads) < 10:
        parser.error("--payloads: a message has 10 B or more, its number")
    usual = {"reliability": "reliable", "payload": 0, "topics": "each", "rtos": "none"}
    vars(options).update(usual | VARIANTS.get(options.part, {}))
    options.entity = options.part.partition("_")[0]
    options.output = Path(options.output).resolve()
    options.output.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    main()
