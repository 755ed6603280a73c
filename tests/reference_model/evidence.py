"""What the order of a way's messages proves of those that were never taken.

A way is a publisher and a subscription; its messages are handed over in their order. Decided at
the end, of messages between processes that were published when the subscription existed:

* A publication without timestamp is ``lost`` where an earlier and a later one of its way were
  taken, and no timestamp that is nobody's was taken on its topic within 10 ms after it.
* A lost message is ``unknown`` where its take may be missing: something is, at the receiver,
  between it and the later one's take, and no closer to that, or to the one before it, than any two
  takes of the subscription ever were, if it has enough of them.
* A lost message is ``replaced`` where the subscription's history holds n, the n-th later message
  of the way was published before the next one of the way was taken, and both are of one host; and
  either n is more than 1 and an earlier one of the way was taken, or that n-th one came no longer
  after it (or after the last take of an earlier one) than the longest that a message of the
  subscription waited. If that may be so but for something that is missing before it would have
  been taken, it is ``unknown``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from reference_model.objects import Row

BoundsOf = Callable[[Sequence[tuple[str, str, int, int]]], Mapping[tuple[str, str], int]]
"""Of two hosts, from host, host, sent, taken of messages: how far their clocks may be apart."""

TOLERANCE_NS = 10**7
MOST = 10_000
ENOUGH = 100
"""So many takes tell how close two can be."""


def weigh(
    rows: Sequence[Row],
    takes_alone: Sequence[Row],
    losses: Sequence[Mapping[str, Any]],
    longest: Mapping[int, int],
    hints: Sequence[tuple[Any, int]],
    *,
    spacing: Mapping[int, int],
    broken: bool,
) -> None:
    """Change the outcomes of rows, which are in the order of publication.

    `hints` tell, by subscription or process, when something was taken that no take tells of;
    `spacing` is the shortest time between two takes of each; `broken` whether any order was.
    """
    ways = defaultdict(list)
    for row in rows:
        if None in (row["_publisher"], row["_subscription"], row["publish_ns"]):
            continue
        if not row["intra_process"] and row["outcome"] != "replayed":
            ways[id(row["_publisher"]), id(row["_subscription"])].append(row)
    for way in ways.values():
        for place, row in enumerate(way):
            stampless = row["_call"]["_key"] is None and row["rmw_publish_ns"] is not None
            if row["outcome"] == "unknown" and stampless:
                before, after = _taken(way, place)
                if before and after and not _claimed(row, takes_alone):
                    row["outcome"] = "lost"
            doubtful = _hidden(way, place, losses, spacing) or _hinted(way, place, hints)
            if row["outcome"] == "lost":
                strays = takes_alone if broken else ()
                fate = _fate(way, place, losses, longest, strays)
                row["outcome"] = "unknown" if doubtful else fate


def _fate(
    way: Sequence[Row],
    place: int,
    losses: Sequence[Mapping[str, Any]],
    longest: Mapping[int, int],
    strays: Sequence[Row],
) -> str:
    """What became of a message that was surely not taken."""
    row = way[place]
    if not _replaceable(row):
        return "lost"
    if _replaced(way, place, longest):
        return "replaced"
    unseen = _unseen_later(way, place, strays)
    hidden = missing(row, losses, row["publish_ns"], row["_until_ns"])
    return "unknown" if hidden or unseen else "lost"


def _unseen_later(way: Sequence[Row], place: int, strays: Sequence[Row]) -> bool:
    """Whether something that was not recorded was published after it, before a later one's take."""
    row, (_, after) = way[place], _taken(way, place)
    stamp = row["_call"]["_key"]
    return (
        stamp is not None
        and bool(after)
        and any(
            take["topic"] == row["_call"]["topic"]
            and take["topic"] is not None
            and take["source_timestamp_ns"] is not None
            and 0 <= take["source_timestamp_ns"] - stamp <= after[0] - _pushed(row)
            for take in strays
        )
    )


def _hinted(way: Sequence[Row], place: int, hints: Sequence[tuple[Any, int]]) -> bool:
    row, (_, after) = way[place], _taken(way, place)
    who = {id(row["_subscription"]), row["_subscription"]["_proc"]}
    until = after[0] if after else float("inf")
    return any(of in who and row["publish_ns"] <= time <= until for of, time in hints)


def out_of_buffers(rows: Sequence[Row]) -> None:
    """A message of nobody that leaves a buffer after others were taken is no late joiner's."""
    first: dict[int, int] = {}
    for row in rows:
        if row["intra_process"] and row["_subscription"] and None not in (
            row["publish_ns"], row["take_ns"],
        ):  # fmt: skip
            key = id(row["_subscription"])
            first[key] = min(row["take_ns"], first.get(key, row["take_ns"]))
    for row in rows:
        began = first.get(id(row["_subscription"]))
        seems = row["outcome"] == "replayed" and row["intra_process"] and row["publish_ns"] is None
        if seems and None not in (began, row["take_ns"]) and row["take_ns"] > began:
            row["outcome"] = "unknown"


def partial(rows: Sequence[Row]) -> None:
    """Publications that lack the first event that others of their publisher have."""

    def above(row: Row) -> int | None:
        times = (row["rcl_publish_ns"], row["rmw_publish_ns"])
        return next((time for time in times if time is not None), None)

    known = {
        id(row["_publisher"])
        for row in rows
        if None not in (row["publish_ns"], above(row)) and row["publish_ns"] < above(row)
    }
    for row in rows:
        sure = row["match"] == "exact" and not row["intra_process"]
        of_rclcpp = row["_publisher"] is not None and id(row["_publisher"]) in known
        if sure and of_rclcpp and row["publish_ns"] == above(row):
            row["match"] = "approximate"


def _taken(way: Sequence[Row], place: int) -> tuple[list[int], list[int]]:
    """When those before and after a place of a way were taken."""
    times = [row["take_ns"] for row in way]
    before, after = times[:place], times[place:]
    return [t for t in before if t is not None], [t for t in after if t is not None]


def _replaceable(row: Row) -> bool:
    here = row["publisher_host"] == row["subscription_host"]
    return bool(here and row["_subscription"]["queue_depth"])


def _replaced(way: Sequence[Row], place: int, longest: Mapping[int, int]) -> bool:
    row = way[place]
    depth = min(row["_subscription"]["queue_depth"] or MOST, MOST)
    before, after = _taken(way, place)
    if not (after and place + depth < len(way)):
        return False
    full = _pushed(way[place + depth])
    waited = full - max([_pushed(row), *before])
    soon = waited <= longest.get(id(row["_subscription"]), -1)
    return full < after[0] and (soon or (depth > 1 and bool(before)))


def bound_clocks(rows: Sequence[Row], bounds_of: BoundsOf) -> None:
    """How far latencies between hosts may be wrong; those no longer than that are not told."""
    between = [
        (row["publisher_host"], row["subscription_host"], row["rmw_publish_ns"], row["take_ns"])
        for row in rows
        if row["match"] == "exact" and row["publisher_host"] != row["subscription_host"]
    ]
    bounds = bounds_of([row for row in between if None not in row])
    for row in rows:
        row["clock_bound_ns"] = None
        if row["latency_ns"] is None:
            continue
        one, other = row["publisher_host"], row["_callback_instance"]["host"]
        if one != other:
            bound = row["clock_bound_ns"] = bounds.get((one, other))
            if bound is None or row["latency_ns"] <= bound:
                row["latency_ns"] = None


def apart(takes: Sequence[Row]) -> dict[int, int]:
    """Half the shortest time between two takes of each subscription that has enough of them."""
    times = defaultdict(list)
    for take in takes:
        times[id(take["_subscription"])].append(take["take_ns"])
    return {
        of: min(b - a for a, b in pairwise(all_of)) // 2
        for of, all_of in times.items()
        if len(all_of) >= ENOUGH
    }


def missing(row: Row, losses: Sequence[Mapping[str, Any]], begin: int, end: int) -> bool:
    """Whether something may be missing at the receiver from one time to another."""
    return begin <= end and any(
        loss["host"] == row["subscription_host"]
        and (loss["end_ns"] is None or loss["end_ns"] >= begin)
        and (loss["begin_ns"] is None or loss["begin_ns"] <= end)
        for loss in losses
    )


def _hidden(
    way: Sequence[Row],
    place: int,
    losses: Sequence[Mapping[str, Any]],
    spacing: Mapping[int, int],
) -> bool:
    row, (before, after) = way[place], _taken(way, place)
    least = spacing.get(id(row["_subscription"]), 0)
    begin = max([row["publish_ns"], *(time + least for time in before)])
    end = row["_until_ns"] - (least if after and after[0] == row["_until_ns"] else 0)
    return missing(row, losses, begin, end)


def _claimed(row: Row, takes_alone: Sequence[Row]) -> bool:
    """Whether it may have been taken with a timestamp that nobody's publication has."""
    return any(
        take["topic"] == row["topic"]
        and take["source_timestamp_ns"] is not None
        and 0 <= take["source_timestamp_ns"] - _pushed(row) <= TOLERANCE_NS
        for take in takes_alone
    )


def _pushed(row: Row) -> int:
    times = (row["rmw_publish_ns"], row["rcl_publish_ns"], row["publish_ns"])
    return next(time for time in times if time is not None)
