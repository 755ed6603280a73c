"""Read the published figures of micro-ROS (``studies/micro_ros/data``) as frames."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from roslens.recording.foreign import read_here
from roslens.studies.micro_ros.results.frames import MEMORY, THROUGHPUT

PUBLISHED = "published"
"""The source of every published row."""

_PRINTED_NS = 0.01e6
"""Latencies were printed with two decimals of a ms."""


@dataclass(frozen=True)
class PublishedFigures:
    """The published figures as frames.

    Attributes
    ----------
    memory, throughput, latency
        As in `roslens.studies.micro_ros.results.frames`.
    claims
        Slopes stated in words: ``entity``, ``memory``, ``claimed_bytes``, ``said``.
    lines
        Physical lines: ``transport``, ``bit_per_s``, ``bits_per_byte``, ``origin``.
    """

    memory: pl.DataFrame
    throughput: pl.DataFrame
    latency: pl.DataFrame
    claims: pl.DataFrame
    lines: pl.DataFrame


def read_published(folder: Path) -> PublishedFigures:
    """Read the published figures.

    Raises
    ------
    UsageError
        A file is missing, or differs from its published form.
    """
    source = pl.lit(PUBLISHED).alias("source")
    with read_here(folder, "the published figures", "restore them"):
        memory, throughput, latency, claims, lines = (
            pl.read_csv((folder / f"{name}.csv").read_bytes())
            for name in ("memory", "throughput", "latency", "claims", "lines")
        )
        return PublishedFigures(
            memory.select(source, *MEMORY.names()[1:]).cast(MEMORY),
            # The rate was cut to a whole number of Hz, then multiplied by the size.
            throughput.with_columns(source, truncation_bytes_per_s=pl.col("payload_bytes"))
            .select(THROUGHPUT.names())
            .cast(THROUGHPUT),
            latency.select(
                source,
                "transport",
                client_ns=pl.col("client_publish_ms") * 1e6,
                agent_ns=pl.col("agent_publish_ms") * 1e6,
                rtt_ns=pl.col("rtt_ms") * 1e6,
                resolution_ns=_PRINTED_NS,
            ),
            claims,
            lines,
        )
