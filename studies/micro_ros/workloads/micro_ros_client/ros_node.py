"""Run the ROS node at the other end: answer, count, and keep account of every message."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EXCHANGES = (
    *("sequence", "client_sent_ns", "agent_received_ns", "agent_sent_ns"),
    *("client_received_ns", "rtt_ns", "rtt_uncertainty_ns"),
)
TAKES = ("sequence", "source_timestamp_ns")
THROUGHPUT = ("payload_bytes", "sent", "received", "received_bytes", "first_ns", "last_ns")
_DEPTH = 1000


@dataclass
class Flood:
    """Messages of one size; times in ns of the monotonic clock, None where there is none."""

    numbers: set[int] = field(default_factory=set)
    received: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    sent: int | None = None
    refused: int | None = None


def to_device(size: int) -> str:
    """Return the name for messages of one size to the device."""
    return f"{size} B to the device"


@dataclass
class Accounts:
    """Counts and times of messages from and to the device."""

    pings: set[int] = field(default_factory=set)
    pings_received: int = 0
    answers_sent: int = 0
    floods: dict[int, Flood] = field(default_factory=dict)
    sent: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Number of messages to the device, and of those the publisher refused, by size."""
    received: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """The device's counts of them: distinct and repeated ones, first and last time on its clock."""
    exchanges: list[tuple[int, ...]] = field(default_factory=list)
    takes: list[tuple[int, int]] = field(default_factory=list)
    told: tuple[int, int, int] | None = None
    """Counts by the device: pings sent, answers received, pings that its publisher refused."""

    def rows(self) -> list[dict[str, object]]:
        """Return one row per kind of message: sent, received, lost, twice, refused."""
        assert self.told is not None
        pings, answers, refused = self.told
        rows = [
            _row("ping", pings, len(self.pings), self.pings_received, refused),
            _row("answer", self.answers_sent, answers, answers, 0),
        ]
        for size, flood in sorted(self.floods.items()):
            assert flood.sent is not None
            assert flood.refused is not None
            got = len({number for number in flood.numbers if number < flood.sent})
            rows.append(_row(f"{size} B", flood.sent, got, flood.received, flood.refused))
        for size, (sent, refused) in sorted(self.sent.items()):
            got, twice, *_ = self.received[size]
            rows.append(_row(to_device(size), sent, got, got + twice, refused))
        return rows


def _row(message: str, sent: int, different: int, received: int, refused: int) -> dict[str, object]:
    return {
        "message": message,
        "sent": sent,
        "received": different,
        "lost": sent - different,
        "twice": received - different,
        "refused": refused,
    }


class RosSide:
    """The ROS node; `done` is completed when the device has reported its counts."""

    def __init__(self, node: Any, *, reliable: bool, done: Any) -> None:
        from rclpy.qos import QoSProfile, ReliabilityPolicy  # noqa: PLC0415 (only in ROS)
        from std_msgs.msg import String  # noqa: PLC0415 (only in ROS)

        policy = ReliabilityPolicy.RELIABLE if reliable else ReliabilityPolicy.BEST_EFFORT
        qos = QoSProfile(depth=_DEPTH, reliability=policy)
        self.accounts, self._done, self._message = Accounts(), done, String
        self._pending: dict[int, tuple[int, int, int]] = {}
        self._answers = node.create_publisher(String, "ros/exchange", qos)
        self._floods = node.create_publisher(String, "ros/flood", qos)
        self._subscriptions = (
            node.create_subscription(String, "device/exchange", self._exchange, qos),
            node.create_subscription(String, "device/flood", self._flood, qos),
        )

    def _answer(self, kind: str, sequence: int) -> int | None:
        """Return the time of the answer; None where the publisher refused it."""
        message = self._message(data=f"{kind} {sequence}")
        now = time.monotonic_ns()
        return now if _published(self._answers, message) else None

    def _exchange(self, message: Any, about: Any) -> None:
        now = time.monotonic_ns()
        kind, *words = message.data.split()
        sequence, *numbers = map(int, words)
        if kind == "P":
            self._ping(now, sequence, numbers, about["source_timestamp"])
            return
        if kind == "E":
            size, sent, refused = numbers
            flood = self.accounts.floods.setdefault(size, Flood())
            flood.sent, flood.refused = sent, refused
        elif kind == "R":
            size, *counts = numbers
            self.accounts.received[size] = tuple(counts)
        elif kind == "B":
            self.accounts.told = (numbers[0], numbers[1], numbers[2])
        self._answer("K", sequence)
        if kind == "D" and numbers[0] not in self.accounts.sent:
            self.accounts.sent[numbers[0]] = self._send_many(*numbers)
        if kind == "B" and not self._done.done():
            self._done.set_result(None)

    def _send_many(self, size: int, ns: int) -> tuple[int, int]:
        """Send messages of one size for some ns; return how many were sent and how many refused."""
        end, sent, refused = time.monotonic_ns() + ns, 0, 0
        while time.monotonic_ns() < end:
            if _published(self._floods, self._message(data=f"{sent:010}".ljust(size, "x"))):
                sent += 1
            else:
                refused += 1
        return sent, refused

    def _ping(self, now: int, sequence: int, numbers: Sequence[int], source_ns: int) -> None:
        sent, known, *of_last = numbers
        accounts = self.accounts
        accounts.pings_received += 1
        if sequence in accounts.pings:
            return
        accounts.pings.add(sequence)
        accounts.takes.append((sequence, source_ns))
        before = self._pending.pop(sequence - 1, None)
        if known and before is not None:
            accounts.exchanges.append((sequence - 1, *before, *of_last))
        answered = self._answer("A", sequence)
        if answered is not None:
            self._pending[sequence] = (sent, now, answered)
            accounts.answers_sent += 1

    def _flood(self, message: Any) -> None:
        now = time.monotonic_ns()
        flood = self.accounts.floods.setdefault(len(message.data), Flood())
        flood.received += 1
        flood.numbers.add(int(message.data[:10]))
        flood.first_ns = now if flood.first_ns is None else flood.first_ns
        flood.last_ns = now

    def write(self, folder: Path) -> None:
        """Write ``exchanges.csv``, ``takes.csv`` and, where messages were counted, the counts."""
        _write(folder / "exchanges.csv", EXCHANGES, self.accounts.exchanges)
        _write(folder / "takes.csv", TAKES, self.accounts.takes)
        rows = [
            (
                *(size, flood.sent, len(flood.numbers), len(flood.numbers) * size),
                *(flood.first_ns, flood.last_ns),
            )
            for size, flood in sorted(self.accounts.floods.items())
            if flood.received
        ]
        if rows:
            _write(folder / "throughput.csv", THROUGHPUT, rows)
        rows = [
            (size, sent, got, got * size, first, last)
            for size, (sent, _) in sorted(self.accounts.sent.items())
            for got, _, first, last in [self.accounts.received[size]]
            if got
        ]
        if rows:
            _write(folder / "downlink.csv", THROUGHPUT, rows)


def _published(publisher: Any, message: Any) -> bool:
    """Return whether the middleware took a message in time; on a busy computer it may not."""
    try:
        publisher.publish(message)
    except RuntimeError:  # rclpy's RCLError
        return False
    return True


def _write(path: Path, header: Sequence[str], rows: Sequence[Sequence[int | None]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
