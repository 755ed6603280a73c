"""Select the events of service calls, their keys, and the begin of a call."""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.events import Events

KEY = ["gid_low", "gid_high", "sequence_number"]
_EVENTS = ("rmw_send_request", "rmw_take_request", "rmw_send_response", "rmw_take_response")


def service_events_recorded(events: Events) -> bool:
    """Return whether the four service events of Kilted and later were recorded."""
    return all(events.declared(name) for name in _EVENTS)


def halves(gid: str) -> list[pl.Expr]:
    """Return the first 16 bytes of a gid as two numbers; later bytes are not part of the gid."""

    def number(start: int) -> pl.Expr:
        byte = [
            pl.col(gid).list.get(start + i, null_on_oob=True).cast(pl.UInt64) * 2 ** (8 * i)
            for i in range(8)
        ]
        return pl.sum_horizontal(byte, ignore_nulls=False)

    return [number(0).alias("gid_low"), number(8).alias("gid_high")]


def begin_of(called: str, sent: str, taken: str) -> pl.Expr:
    """Return when sending a request or response began; if unknown, the latest possible time.

    The event of sending follows the write, when the other side may have taken the message already:
    if the call itself was not seen, it began no later than the earlier of the two.
    """
    latest = pl.when(pl.col(sent).is_not_null()).then(pl.min_horizontal(sent, taken))
    return pl.coalesce(called, latest)
