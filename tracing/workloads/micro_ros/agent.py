"""The agent's end: answers pings, counts messages, and writes both down."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from roslens.tracing.workloads.micro_ros.channels import Channel
from roslens.tracing.workloads.micro_ros.frames import BYE, DATA, END, NOTHING, PING, PONG, Frame

SILENCE_SECONDS = 15.0

EXCHANGES = (
    "sequence",
    "client_sent_ns",
    "agent_received_ns",
    "agent_sent_ns",
    "client_received_ns",
    "rtt_ns",
    "rtt_uncertainty_ns",
)
THROUGHPUT = ("payload_bytes", "sent", "received", "received_bytes", "first_ns", "last_ns")


class SilentError(Exception):
    """The publisher said nothing for too long."""


@dataclass
class _Counted:
    """Messages of one size."""

    received: int = 0
    first_ns: int = 0
    last_ns: int = 0
    sent: int | None = None


@dataclass
class Agent:
    """What the agent has seen; times of its own monotonic clock, in ns."""

    channel: Channel
    pending: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    exchanges: list[tuple[int, ...]] = field(default_factory=list)
    counted: dict[int, _Counted] = field(default_factory=dict)
    pings: int = 0

    def serve(self) -> None:
        """Answer until the publisher says goodbye.

        Raises
        ------
        SilentError
            It does not.
        """
        while True:
            frame = self.channel.receive(SILENCE_SECONDS)
            now = time.monotonic_ns()
            if frame is None:
                raise SilentError(
                    f"the publisher was silent for {SILENCE_SECONDS:g} s or ended early"
                )
            if frame.kind == PING:
                self._answer(frame, now)
            elif frame.kind == DATA:
                self._count(frame, now)
            elif frame.kind == END:
                size = self.counted.setdefault(frame.length, _Counted())
                size.sent = frame.sequence
            elif frame.kind == BYE:
                self._complete(frame)
                return

    def _answer(self, ping: Frame, now: int) -> None:
        sent = time.monotonic_ns()
        self.channel.send(Frame(PONG, ping.sequence, now, sent).pack())
        self._complete(ping)
        self.pending[ping.sequence] = (ping.stamp, now, sent)
        self.pings += 1

    def _complete(self, later: Frame) -> None:
        known = self.pending.pop(later.sequence - 1, None)
        if known is not None and later.previous != NOTHING:
            self.exchanges.append(
                (
                    later.sequence - 1,
                    *known,
                    later.previous,
                    later.round_trip_ns,
                    later.round_trip_uncertainty_ns,
                )
            )

    def _count(self, frame: Frame, now: int) -> None:
        size = self.counted.setdefault(frame.length, _Counted())
        if not size.received:
            size.first_ns = now
        size.received += 1
        size.last_ns = now

    def write(self, folder: Path) -> None:
        """Write ``exchanges.csv`` and, where messages were counted, ``throughput.csv``."""
        _write(folder / "exchanges.csv", EXCHANGES, self.exchanges)
        if self.counted:
            rows = [
                (
                    payload,
                    "" if size.sent is None else size.sent,
                    size.received,
                    size.received * payload,
                    size.first_ns,
                    size.last_ns,
                )
                for payload, size in sorted(self.counted.items())
            ]
            _write(folder / "throughput.csv", THROUGHPUT, rows)


def _write(path: Path, header: Sequence[str], rows: Sequence[Sequence[int | str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
