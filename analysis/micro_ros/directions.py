"""Whether latencies by direction add up to the round trip, as printed by a bench."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl


@dataclass(frozen=True)
class PrintedSum:
    """One printed exchange.

    Attributes
    ----------
    difference_ns
        client + agent - RTT.
    allowed_ns
        What rounding of the three figures can make of an exact sum.
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
    """The sum of each printed exchange.

    Parameters
    ----------
    latency
        As `roslens.collectors.results.micro_ros_frames.LATENCY`.
    """
    return [
        PrintedSum(
            row["transport"],
            row["client_ns"],
            row["agent_ns"],
            row["rtt_ns"],
            row["client_ns"] + row["agent_ns"] - row["rtt_ns"],
            # Half a digit of each of three figures, and what floats add to it.
            1.5 * row["resolution_ns"] + 1e-3,
        )
        for row in latency.iter_rows(named=True)
        if None not in (row["client_ns"], row["agent_ns"], row["rtt_ns"])
    ]
