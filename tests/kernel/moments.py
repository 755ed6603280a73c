"""Check what must hold for the moments of any message."""

from __future__ import annotations

import polars as pl

NAMES = (
    *("publish_ns", "rmw_publish_ns", "arrived_ns", "woken_ns", "on_cpu_ns", "take_ns"),
    "callback_start_ns",
)


def in_order(moments: pl.DataFrame) -> bool:
    """Return whether the known moments are in order, and span exactly the latency."""
    rows = [
        [moment for moment in row if moment is not None]
        for row in moments.select(NAMES).iter_rows()
    ]
    took = [row[-1] - row[0] for row in rows]
    return took == moments["latency_ns"].to_list() and all(row == sorted(row) for row in rows)
