"""Define the frames into which all sources of micro-ROS figures are converted.

`source` names the origin of a row: a run, or a publication. Sizes are in bytes, rates per second,
times in ns.
"""

from __future__ import annotations

import polars as pl

MEMORY = pl.Schema(
    {
        "source": pl.String,
        "entity": pl.String,  # publisher, subscriber, service, client, history, ...
        "count": pl.Int64,  # number of entities (slots, for history)
        "memory": pl.String,  # static, stack, dynamic, total
        "bytes": pl.Float64,
    }
)
"""Memory in use against the number of entities."""

THROUGHPUT = pl.Schema(
    {
        "source": pl.String,
        "transport": pl.String,
        "payload_bytes": pl.Int64,
        "bytes_per_s": pl.Float64,  # payload only
        "truncation_bytes_per_s": pl.Float64,  # greatest loss by rounding down
    }
)
"""Payload throughput against payload size."""

LATENCY = pl.Schema(
    {
        "source": pl.String,
        "transport": pl.String,
        "client_ns": pl.Float64,  # board to agent
        "agent_ns": pl.Float64,  # agent to board
        "rtt_ns": pl.Float64,
        "resolution_ns": pl.Float64,  # of the printed figures
    }
)
"""Latency by direction, as a bench printed it: one exchange per row."""
