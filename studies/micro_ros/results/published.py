"""Read the published figures of micro-ROS (``studies/micro_ros/data``) as frames."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from roslens.recording import UsageError
from roslens.recording.foreign import read_here
from roslens.studies.micro_ros.results.frames import LATENCY, MEMORY, THROUGHPUT

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
    with read_here(folder, "the published figures", "restore them"):
        return _figures(folder)


def _figures(folder: Path) -> PublishedFigures:
    source = pl.lit(PUBLISHED).alias("source")
    memory = _read(folder / "memory.csv", ("entity", "count", "memory", "bytes"))
    throughput = _read(folder / "throughput.csv", ("transport", "payload_bytes", "bytes_per_s"))
    latency = _read(
        folder / "latency.csv", ("transport", "client_publish_ms", "agent_publish_ms", "rtt_ms")
    )
    return PublishedFigures(
        memory.select(source, "entity", "count", "memory", "bytes").cast(dict(MEMORY)),  # type: ignore[arg-type]
        throughput.select(
            source,
            "transport",
            "payload_bytes",
            "bytes_per_s",
            # The rate was cut to a whole number of Hz, then multiplied by the size.
            pl.col("payload_bytes").alias("truncation_bytes_per_s"),
        ).cast(dict(THROUGHPUT)),  # type: ignore[arg-type]
        latency.select(
            source,
            "transport",
            (pl.col("client_publish_ms") * 1e6).alias("client_ns"),
            (pl.col("agent_publish_ms") * 1e6).alias("agent_ns"),
            (pl.col("rtt_ms") * 1e6).alias("rtt_ns"),
            pl.lit(_PRINTED_NS).alias("resolution_ns"),
        ).cast(dict(LATENCY)),  # type: ignore[arg-type]
        _read(folder / "claims.csv", ("entity", "memory", "claimed_bytes", "said")),
        _read(folder / "lines.csv", ("transport", "bit_per_s", "bits_per_byte", "origin")),
    )


def _read(path: Path, columns: tuple[str, ...]) -> pl.DataFrame:
    with read_here(path, "published figures", "restore them"):
        frame = pl.read_csv(path.read_bytes())
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise UsageError(f"{path}: no column {', '.join(missing)}")
    return frame.select(columns)
