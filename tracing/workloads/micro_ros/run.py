"""One run of the suite micro-ros: ``run.py --part PART --seconds S --output FOLDER``.

A part is an entity (publisher, subscriber, service, client, history), whose memory is measured on
an emulated board, or a transport (udp, tcp, uart), over which messages are exchanged. What it
writes is described in docs/micro_ros.md. It is a model of transports and memory on a real
toolchain; micro-ROS itself takes its place with ``--board COMMAND``, or by a suite whose command
leaves the same files.

Exit status: 0 done; 1 something failed; 2 a tool is missing.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from roslens.tracing.workloads.micro_ros import memory, toolchain, transport
from roslens.tracing.workloads.micro_ros.memory import ENTITIES, MemorySettings
from roslens.tracing.workloads.micro_ros.toolchain import ToolError
from roslens.tracing.workloads.micro_ros.transport import TRANSPORTS, TransportSettings


def main() -> int:
    """Run one part; the exit status."""
    options = _options()
    emulated = options.part == "uart" or (options.part in ENTITIES and options.board == "qemu")
    try:
        if emulated:
            toolchain.require()
    except ToolError as error:
        print(f"micro-ros: {error}", file=sys.stderr)
        return 2
    try:
        if options.part in TRANSPORTS:
            transport.measure(
                options.part,
                TransportSettings(
                    options.seconds, options.payloads, options.offset_ns, options.drift_ppb
                ),
                options.output / "transport" / options.part,
            )
        else:
            _measure_memory(options)
    except ToolError as error:
        print(f"micro-ros: {error}", file=sys.stderr)
        return 1
    about = {"schema_version": 1, "part": options.part}
    if emulated:
        about["compiler"] = toolchain.version(toolchain.COMPILER)
        about["emulator"] = toolchain.version(toolchain.EMULATOR)
    path = options.output / "micro_ros.json"
    path.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return 0


def _measure_memory(options: argparse.Namespace) -> None:
    settings = MemorySettings(
        options.counts,
        options.mtu,
        options.depth,
        options.stack_first,
        options.stack_each,
        options.keep,
        options.board,
    )
    # The device's own trace belongs to the run's traces, beside the one of this host.
    traces = options.output.parent / "trace" / "device"
    found = [(options.part, settings)]
    if options.part == "history":
        others = [d for d in options.further_depths if d != options.depth]
        found += [(f"history_{options.mtu}x{d}", replace(settings, depth=d)) for d in others]
    for name, chosen in found:
        memory.measure(options.part, chosen, options.output / "memory" / name, traces / name)


def _numbers(text: str) -> tuple[int, ...]:
    numbers = tuple(int(part) for part in text.split(","))
    if not numbers or min(numbers) < 1:
        raise ValueError(text)
    return numbers


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=(*ENTITIES, *TRANSPORTS), required=True)
    parser.add_argument("--seconds", type=float, default=4.0, help="of a transport")
    parser.add_argument(
        "--output",
        type=Path,
        default=os.environ.get("ROSLENS_NATIVE_DIR"),
        help="where the files go (default: $ROSLENS_NATIVE_DIR)",
    )
    parser.add_argument("--counts", type=_numbers, default=tuple(range(1, 11)))
    parser.add_argument("--mtu", type=int, default=512)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument(
        "--further-depths", type=_numbers, default=(1, 2), help="of the history, beside --depth"
    )
    parser.add_argument("--stack-first", type=int, default=1024)
    parser.add_argument("--stack-each", type=int, default=16)
    parser.add_argument("--keep", type=int, default=0)
    parser.add_argument("--board", default="qemu")
    parser.add_argument("--payloads", type=_numbers, default=(10, 100, 200, 400))
    parser.add_argument("--offset-ns", type=int, default=250_000_000)
    parser.add_argument("--drift-ppb", type=int, default=200_000)
    options = parser.parse_args()
    if options.output is None:
        parser.error("--output or ROSLENS_NATIVE_DIR is needed")
    if options.seconds <= 0 or options.mtu < 1 or options.depth < 1:
        parser.error("--seconds, --mtu and --depth are above 0")
    options.output = Path(options.output).resolve()
    options.output.mkdir(parents=True, exist_ok=True)
    return options


if __name__ == "__main__":
    sys.exit(main())
