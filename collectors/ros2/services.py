"""The events of service calls, and their keys."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.events import Events

KEY = ["gid_low", "gid_high", "sequence_number"]
_EVENTS = ("rmw_send_request", "rmw_take_request", "rmw_send_response", "rmw_take_response")


def service_events_recorded(events: Events) -> bool:
    """Whether the four events of Kilted and later are there."""
    return all(events.declared(name) for name in _EVENTS)


def halves(gid: str) -> list[pl.Expr]:
    """The first 16 bytes as two numbers; what follows them is not part of the gid."""

    def number(start: int) -> pl.Expr:
        byte = [
            pl.col(gid).list.get(start + i, null_on_oob=True).cast(pl.UInt64) * 2 ** (8 * i)
            for i in range(8)
        ]
        return pl.sum_horizontal(byte, ignore_nulls=False)

    return [number(0).alias("gid_low"), number(8).alias("gid_high")]
