"""Bound the error of latencies between hosts, and drop latencies that are no longer than it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from reference_model.objects import Row

BoundsOf = Callable[[Sequence[tuple[str, str, int, int]]], Mapping[tuple[str, str], int]]
"""Returns how far clocks of two hosts may be apart, from (host, host, sent, taken) of messages."""


def bound_clocks(rows: Sequence[Row], bounds_of: BoundsOf) -> None:
    """Set ``clock_bound_ns`` of each message, and drop a latency that the bound could explain."""
    between_hosts = [
        (row["publisher_host"], row["subscription_host"], row["rmw_publish_ns"], row["take_ns"])
        for row in rows
        if row["match"] == "exact" and row["publisher_host"] != row["subscription_host"]
    ]
    bounds = bounds_of([message for message in between_hosts if None not in message])
    for row in rows:
        row["clock_bound_ns"] = None
        if row["latency_ns"] is None:
            continue
        publisher_host, callback_host = row["publisher_host"], row["_callback_instance"]["host"]
        if publisher_host != callback_host:
            bound = row["clock_bound_ns"] = bounds.get((publisher_host, callback_host))
            if bound is None or row["latency_ns"] <= bound:
                row["latency_ns"] = None
