"""The publisher's end on a host: ``publisher.py udp|tcp PORT OPTIONS``.

Its clock is the host's monotonic clock, told to be wrong by an offset and a drift; what the right
clock said goes into ``truth.csv``, for tests alone.
"""

from __future__ import annotations

import argparse
import csv
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from roslens.tracing.workloads.micro_ros.channels import Channel, Datagrams, Stream
from roslens.tracing.workloads.micro_ros.frames import BYE, DATA, END, NOTHING, PING, PONG, Frame

_ANSWER_SECONDS = 1.0
_LEAST_EXCHANGES = 50
_LONGEST_SECONDS = 20.0
"""For how long more a busy machine may take for the least number of exchanges."""


@dataclass(frozen=True)
class WrongClock:
    """The monotonic clock, with an offset at `reference_ns` and a drift."""

    reference_ns: int
    offset_ns: int
    drift_ppb: int

    def at(self, true_ns: int) -> int:
        """What it says at `true_ns` of the monotonic clock."""
        drifted = (true_ns - self.reference_ns) * self.drift_ppb // 1_000_000_000
        return true_ns + self.offset_ns + drifted


def exchange(
    channel: Channel, clock: WrongClock, seconds: float, payload: int, truth: Path
) -> None:
    """Ping for some seconds, each time with what the exchange before was like."""
    padding = bytes(payload)
    before, round_trip, uncertainty, sequence = NOTHING, 0, 0, 0
    rows: list[tuple[int, int, int]] = []
    end = time.monotonic() + seconds
    while (now := time.monotonic()) < end or (
        len(rows) < _LEAST_EXCHANGES and now < end + _LONGEST_SECONDS
    ):
        first = time.perf_counter_ns()
        sent = time.monotonic_ns()
        second = time.perf_counter_ns()
        ping = Frame(PING, sequence, clock.at(sent), before, round_trip, uncertainty, payload)
        channel.send(ping.pack() + padding)
        answered = _await_answer(channel, sequence)
        third = time.perf_counter_ns()
        arrived = time.monotonic_ns()
        fourth = time.perf_counter_ns()
        before = NOTHING
        if answered:
            before = clock.at(arrived)
            shortest, longest = third - second, fourth - first
            round_trip = (shortest + longest) // 2
            uncertainty = (longest - shortest) // 2 + 2
            rows.append((sequence, sent, arrived))
        sequence += 1
        time.sleep(0.001)
    channel.send(
        Frame(BYE, sequence, clock.at(time.monotonic_ns()), before, round_trip, uncertainty).pack()
    )
    with truth.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["sequence", "sent_true_ns", "arrived_true_ns"])
        writer.writerows(rows)


def _await_answer(channel: Channel, sequence: int) -> bool:
    """Whether the answer to a ping came in time; late answers to earlier ones are passed over."""
    end = time.monotonic() + _ANSWER_SECONDS
    while (left := end - time.monotonic()) > 0:
        answer = channel.receive(left)
        if answer is None:
            return False
        if answer.kind == PONG and answer.sequence == sequence:
            return True
    return False


def flood(channel: Channel, payload: int, seconds: float) -> None:
    """Send as many messages as go, for some seconds; nobody answers."""
    padding = bytes(payload)
    count = 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        # The clock is not asked before every message.
        for _ in range(16):
            channel.send(Frame(DATA, count, length=payload).pack() + padding)
            count += 1
    # A datagram may be lost: the agent counts the first that arrives.
    for _ in range(3):
        time.sleep(0.02)
        channel.send(Frame(END, count, length=payload).pack())


def main() -> int:
    """Send, and end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("transport", choices=("udp", "tcp"))
    parser.add_argument("port", type=int)
    parser.add_argument("--seconds", type=float, required=True, help="of exchanges")
    parser.add_argument("--flood-seconds", type=float, required=True, help="per payload")
    parser.add_argument("--payloads", required=True, help="bytes, separated by commas")
    parser.add_argument("--reference-ns", type=int, required=True)
    parser.add_argument("--offset-ns", type=int, required=True)
    parser.add_argument("--drift-ppb", type=int, required=True)
    parser.add_argument("--truth", type=Path, required=True)
    options = parser.parse_args()
    clock = WrongClock(options.reference_ns, options.offset_ns, options.drift_ppb)
    kind = socket.SOCK_DGRAM if options.transport == "udp" else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as connection:
        connection.connect(("127.0.0.1", options.port))
        channel: Channel = Datagrams(connection)
        if options.transport == "tcp":
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel = Stream(connection.fileno(), connection.fileno())
        for payload in map(int, options.payloads.split(",")):
            flood(channel, payload, options.flood_seconds)
        exchange(channel, clock, options.seconds, 16, options.truth)
    return 0


if __name__ == "__main__":
    sys.exit(main())
