"""What the order of a way's messages proves of those that were never taken.

A way is a publisher and a subscription; its messages are handed over in their order. Decided at
the end, of messages between processes that were published when the subscription existed:

* A publication without timestamp is ``lost`` where an earlier and a later one of its way were
  taken, the tracer dropped nothing at the receiver between it and the later one's take, and no
  timestamp that is nobody's was taken on its topic within 10 ms after it.
* A lost message is ``replaced`` where the subscription's history holds n, the n-th later message
  of the way was published before the next one of the way was taken, and both are of one host; and
  either n is more than 1 and an earlier one of the way was taken, or that n-th one came no longer
  after it (or after the last take of an earlier one) than the longest that a message of the
  subscription waited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from reference_model.objects import Row

TOLERANCE_NS = 10**7
MOST = 10_000


def weigh(
    rows: Sequence[Row],
    takes_alone: Sequence[Row],
    losses: Sequence[Mapping[str, Any]],
    longest: Mapping[int, int],
    hints: Sequence[tuple[Any, int]],
) -> None:
    """Change the outcomes of rows, which are in the order of publication.

    `hints` tell, by subscription or process, when something was taken that no take tells of.
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
                if before and after and not _doubtful(row, after[0], takes_alone, losses):
                    row["outcome"] = "lost"
            if row["outcome"] == "lost" and _hinted(way, place, hints):
                row["outcome"] = "unknown"
            if row["outcome"] == "lost" and _replaced(way, place, longest):
                row["outcome"] = "replaced"


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


def _replaced(way: Sequence[Row], place: int, longest: Mapping[int, int]) -> bool:
    row = way[place]
    depth = min(row["_subscription"]["queue_depth"] or MOST, MOST)
    before, after = _taken(way, place)
    if not (after and row["_subscription"]["queue_depth"] and place + depth < len(way)):
        return False
    full = _pushed(way[place + depth])
    waited = full - max([_pushed(row), *before])
    soon = waited <= longest.get(id(row["_subscription"]), -1)
    here = row["publisher_host"] == row["subscription_host"]
    return here and full < after[0] and (soon or (depth > 1 and bool(before)))


def bound_clocks(rows: Sequence[Row]) -> None:
    """How far latencies between hosts may be wrong: by the quickest messages either way.

    What was published at s and taken at t by another clock says that this is at most t - s ahead.
    Null where nothing came back, and where the two bounds contradict each other.
    """
    quickest: dict[tuple[str, str], int] = {}
    for row in rows:
        way = row["publisher_host"], row["subscription_host"]
        if row["match"] == "exact" and None not in {*way, row["rmw_publish_ns"], row["take_ns"]}:
            took = row["take_ns"] - row["rmw_publish_ns"]
            quickest[way] = min(took, quickest.get(way, took))
    for row in rows:
        one, other = row["publisher_host"], row["subscription_host"]
        there, back = quickest.get((one, other)), quickest.get((other, one))
        known = one != other and None not in {there, back, row["latency_ns"]}
        row["clock_bound_ns"] = max(abs(there), abs(back)) if known and there >= -back else None


def _doubtful(
    row: Row, after: int, takes_alone: Sequence[Row], losses: Sequence[Mapping[str, Any]]
) -> bool:
    """Whether it may have been taken after all."""
    return any(
        take["topic"] == row["topic"]
        and take["source_timestamp_ns"] is not None
        and 0 <= take["source_timestamp_ns"] - _pushed(row) <= TOLERANCE_NS
        for take in takes_alone
    ) or any(
        loss["host"] == row["subscription_host"]
        and (loss["end_ns"] is None or loss["end_ns"] >= row["publish_ns"])
        and (loss["begin_ns"] is None or loss["begin_ns"] <= after)
        for loss in losses
    )


def _pushed(row: Row) -> int:
    times = (row["rmw_publish_ns"], row["rcl_publish_ns"], row["publish_ns"])
    return next(time for time in times if time is not None)
