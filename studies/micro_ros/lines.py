"""Compute what a physical line can carry, and judge whether a throughput is possible on it.

Also check whether printed latencies by direction add up to the printed round trip.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from roslens.analysis.verdicts.statement import Verdict


@dataclass(frozen=True)
class PhysicalLine:
    """A physical line with its rate.

    Attributes
    ----------
    bit_per_s
        Symbols per second; for a UART its baud rate.
    bits_per_byte
        Bits on the line per byte, such as 10 for a UART with one start and one stop bit.
    """

    bit_per_s: float
    bits_per_byte: float = 8.0

    @property
    def bytes_per_s(self) -> float:
        """The greatest number of bytes per second, with nothing but payload on the line."""
        return self.bit_per_s / self.bits_per_byte


def judge_throughput(bytes_per_s: float, line: PhysicalLine) -> tuple[Verdict, str]:
    """Return whether a line carries a throughput, and a text with its share of the line.

    ``impossible_as_bytes``: the throughput exceeds the line, but would fit if the figure were bits.
    """
    most = line.bytes_per_s
    part = bytes_per_s / most
    if not math.isfinite(bytes_per_s) or bytes_per_s < 0:
        return "impossible", f"{bytes_per_s} is no throughput"
    share = f"{100 * part:.3g} % of the {most:,.0f} B/s that the line carries"
    if part <= 1:
        return "holds", share
    if part <= 8:
        as_bits = f"{100 * part / 8:.3g} % if the figure is in bits"
        return "impossible_as_bytes", f"impossible: {share}; {as_bits}"
    return "impossible", f"impossible: {share}, even if it were in bits"


@dataclass(frozen=True)
class PrintedSum:
    """One printed exchange.

    Attributes
    ----------
    difference_ns
        client + agent - RTT.
    allowed_ns
        Greatest difference that rounding of the three figures can explain.
    """

    transport: str
    client_ns: float
    agent_ns: float
    rtt_ns: float
    difference_ns: float
    allowed_ns: float

    @property
    def adds_up(self) -> bool:
        """Whether the sum holds within rounding."""
        return abs(self.difference_ns) <= self.allowed_ns


def printed_sums(latency: pl.DataFrame) -> list[PrintedSum]:
    """Return the sum of each printed exchange.

    Parameters
    ----------
    latency
        Frame with the columns of `results.frames.LATENCY`.
    """
    return [
        PrintedSum(
            row["transport"],
            row["client_ns"],
            row["agent_ns"],
            row["rtt_ns"],
            row["client_ns"] + row["agent_ns"] - row["rtt_ns"],
            # Half a digit of each of three figures, plus the error of floats.
            1.5 * row["resolution_ns"] + 1e-3,
        )
        for row in latency.iter_rows(named=True)
        if None not in (row["client_ns"], row["agent_ns"], row["rtt_ns"])
    ]
