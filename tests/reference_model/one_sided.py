"""Find messages of which only the take was recorded.

Decided at the end: a source timestamp is of the sender's system clock. How far that is from the
events' clock is taken from the timestamp of the receiving host's own that is nearest in time to the
take (the later of two equally near ones; 0 if there is none). A message that was sent before the
subscription existed is replayed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable

from reference_model.objects import Objects, Row


def one_sided(
    takes: Iterable[Row], publications: Iterable[Row], objects: Objects, synchronisation: str | None
) -> list[Row]:
    """Make a row per take whose publication was not recorded."""
    topics = {p["topic"] for p in objects.rows["publishers"]} - {None}
    stamped = defaultdict(list)
    for call in publications:
        if None not in {call["rmw_publish_ns"], call["source_timestamp_ns"]}:
            published = call["rmw_publish_ns"]
            stamped[call["host"]].append((published, call["source_timestamp_ns"] - published))
    for offsets in stamped.values():
        offsets.sort(key=lambda pair: pair[0])
    rows = []
    for take in takes:
        subscription, stamp = take["_subscription"], take["source_timestamp_ns"]
        offset = _nearest(stamped[take["host"]], take["take_ns"])
        sent = None if stamp is None else stamp - (offset or 0)
        replayed = (
            subscription is not None and sent is not None and sent < subscription["created_ns"]
        )
        start = take["callback_start_ns"]
        rows.append(
            take
            | {
                "_take": take,
                "subscription_node": take["node"],
                "publisher_recorded": None if take["topic"] is None else take["topic"] in topics,
                "clock_offset_ns": offset,
                "latency_ns": None if replayed or None in {start, sent} else start - sent,
                "synchronisation": synchronisation,
                "outcome": "replayed" if replayed else "taken" if start is None else "delivered",
            }
        )
    return rows


def _nearest(offsets: list[tuple[int, int]], time_ns: int) -> int | None:
    place = bisect_left(offsets, time_ns, key=lambda pair: pair[0])
    around = offsets[max(place - 1, 0) : place + 1]
    return min(reversed(around), key=lambda pair: abs(pair[0] - time_ns), default=(0, None))[1]
