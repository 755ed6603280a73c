"""The frames that every source of micro-ROS figures is brought into.

`source` names where a row is from: a run, or a publication. Bytes are bytes, rates are per
second, times are ns.
"""

from __future__ import annotations

import polars as pl

MEMORY = pl.Schema(
    {
        "source": pl.String,
        "entity": pl.String,  # publisher, subscriber, service, client, history, ...
        "count": pl.Int64,  # how many of them (slots, for history)
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
        "truncation_bytes_per_s": pl.Float64,  # how much was cut off at most by rounding down
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
"""Latency by direction, as a bench printed it: one exchange a row."""
