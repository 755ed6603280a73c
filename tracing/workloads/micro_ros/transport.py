"""Exchanges over a transport, with a publisher whose clock is wrong in a known way."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from roslens.tracing.workloads.micro_ros import toolchain
from roslens.tracing.workloads.micro_ros.agent import Agent, SilentError
from roslens.tracing.workloads.micro_ros.channels import Datagrams, Stream
from roslens.tracing.workloads.micro_ros.toolchain import ToolError

TRANSPORTS = ("udp", "tcp", "uart")
_HERE = Path(__file__).resolve().parent
_ACCEPT_SECONDS = 10.0


@dataclass(frozen=True)
class TransportSettings:
    """How it is exchanged.

    Attributes
    ----------
    seconds
        Of the whole: half of it exchanges, half of it as many messages as go.
    payloads
        Bytes of the messages that are counted.
    offset_ns, drift_ppb
        By which the publisher's clock is made wrong; known to the tests, not to the analysis.
    """

    seconds: float
    payloads: Sequence[int]
    offset_ns: int
    drift_ppb: int


def measure(transport: str, settings: TransportSettings, output: Path) -> None:
    """Exchange and write ``exchanges.csv``, ``throughput.csv`` and ``about.json``.

    Raises
    ------
    ToolError
        An end failed.
    """
    output.mkdir(parents=True, exist_ok=True)
    reference_ns = time.monotonic_ns()
    try:
        if transport == "uart":
            agent = _over_uart(settings, output)
        else:
            agent = _over_sockets(transport, settings, output, reference_ns)
    except SilentError as error:
        raise ToolError(f"{transport}: {error}") from error
    agent.write(output)
    about = {
        "transport": transport,
        "link": "emulated UART" if transport == "uart" else "loopback",
        # Loopback and emulated lines carry what the processor can.
        "line_bit_per_s": None,
        "pings": agent.pings,
        "agent_clock": "CLOCK_MONOTONIC",
        "client_clock": "25 MHz counter" if transport == "uart" else "CLOCK_MONOTONIC",
        "client_resolution_ns": 40 if transport == "uart" else 1,
        "injected": {
            "reference_ns": None if transport == "uart" else reference_ns,
            "offset_ns": None if transport == "uart" else settings.offset_ns,
            "drift_ppb": settings.drift_ppb,
        },
    }
    (output / "about.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")


def _over_sockets(
    transport: str, settings: TransportSettings, output: Path, reference_ns: int
) -> Agent:
    kind = socket.SOCK_DGRAM if transport == "udp" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as own:
        own.bind(("127.0.0.1", 0))
        if transport == "tcp":
            own.listen(1)
            own.settimeout(_ACCEPT_SECONDS)
        each = settings.seconds / 2 / len(settings.payloads)
        command = [
            *(sys.executable, str(_HERE / "publisher.py"), transport, str(own.getsockname()[1])),
            *("--seconds", str(settings.seconds / 2), "--flood-seconds", str(each)),
            *("--payloads", ",".join(map(str, settings.payloads))),
            *("--reference-ns", str(reference_ns), "--offset-ns", str(settings.offset_ns)),
            *("--drift-ppb", str(settings.drift_ppb), "--truth", str(output / "truth.csv")),
        ]
        publisher = subprocess.Popen(command)
        try:
            if transport == "udp":
                agent = Agent(Datagrams(own, answers=True))
                agent.serve()
            else:
                try:
                    connection, _ = own.accept()
                except TimeoutError as error:
                    raise SilentError("the publisher did not connect") from error
                with connection:
                    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    agent = Agent(Stream(connection.fileno(), connection.fileno()))
                    agent.serve()
            status = publisher.wait(_ACCEPT_SECONDS)
        finally:
            publisher.kill()
            publisher.wait()
    if status:
        raise ToolError(f"{transport}: the publisher ended with status {status}")
    return agent


def _over_uart(settings: TransportSettings, output: Path) -> Agent:
    elf = output / "firmware.elf"
    toolchain.build(
        "transport",
        elf,
        {
            "MILLISECONDS": round(settings.seconds * 1000 / 2),
            "OFFSET_NS": settings.offset_ns,
            "DRIFT_PPB": settings.drift_ppb,
        },
    )
    own, far = socket.socketpair()
    with own:
        with far:
            board = subprocess.Popen(
                toolchain.emulator(elf.resolve(), serial_fd=far.fileno()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=output,
                pass_fds=[far.fileno()],
            )
        try:
            agent = Agent(Stream(own.fileno(), own.fileno()))
            agent.serve()
            status = board.wait(_ACCEPT_SECONDS)
        except (ValueError, ConnectionError) as error:
            raise SilentError(str(error)) from error
        finally:
            board.kill()
            board.wait()
    if status:
        raise ToolError(f"uart: the board ended with status {status}")
    return agent
