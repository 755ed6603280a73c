"""Decide what became of a message at a subscription, by the first applicable rule of docs/model.md.

The messages of a connection are those of one publisher at one subscription, between processes and
not replayed, in the order in which they were published.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from reference_model.events import FOREVER, Event, Row, column, first, place
from reference_model.gaps import Gaps
from reference_model.objects import Objects

USUAL_WAIT_NS = 10**9
MOST = 10_000
"""The largest depth of a history that is considered, in messages."""
BEFORE, LATE_JOINER = "published_before_subscription", "late_joiner"
UNTOLD, PENDING = "publication_not_recorded", "still_in_buffer"
OVERWRITTEN, CLEARED = "place_overwritten", "buffer_cleared"
NO_SUBSCRIBER, NOBODY_KNOWN = "no_subscription", "subscription_unknown"
OUTCOMES = {
    BEFORE: "replayed", LATE_JOINER: "replayed", OVERWRITTEN: "overwritten",
    CLEARED: "overwritten", NO_SUBSCRIBER: "no_subscriber", "before_first_take": "not_matched",
    "never_taken": "not_matched", "pushed_out": "replaced", "overtaken": "lost",
    "receiver_seen": "lost",
}  # fmt: skip
"""The outcome of messages of which no take is known, by reason; of all others it is unknown."""


def enqueued(events: Iterable[Event], objects: Objects, gaps: Gaps) -> list[Row]:
    """Return what became of each message that was put into a ring buffer of a subscription."""
    rows = []
    places: dict[Any, dict[int, Row]] = defaultdict(dict)
    newest: dict[Any, int] = {}
    """When the newest message that was taken from each buffer was put into it."""
    for e in events:
        at, name = (e["proc"], e.get("buffer")), e["event"].removeprefix("rclcpp_ring_buffer_")
        held = places[at]
        if name == "enqueue":
            occupant = held.get(e["index"])
            if occupant and e["overwritten"] and not _missing(gaps, occupant["_event"], e):
                occupant["_fate"] = OVERWRITTEN
            row = {**place(e), "_event": e, "_fate": PENDING, "_take": None, "_call": e["call"]}
            held[e["index"]] = row
            rows.append(row)
        elif name == "dequeue" and e["index"] in held:
            row = held.pop(e["index"])
            put = row["_event"]["time_ns"]
            if not _missing(gaps, row["_event"], e) and put >= newest.get(at, put):
                newest[at] = put
                row |= {"_fate": None, "_take": e["take"]}
        elif name == "clear":
            for row in held.values():
                row["_fate"] = CLEARED
        if name in {"clear", "rclcpp_construct_ring_buffer"}:
            held.clear()
    rows = [row for row in rows if not column(row["_event"]["of"], "_publisher")]
    _find_publications(rows, objects, gaps)
    return rows


def _missing(gaps: Gaps, put: Event, e: Event) -> bool:
    proc, since, now = e["proc"], put["time_ns"] + 1, e["time_ns"]
    return gaps.dropped(proc, since, now - 1) or gaps.disordered(proc, since, now, seen=e)


def _find_publications(rows: Sequence[Row], objects: Objects, gaps: Gaps) -> None:
    """Decide which message has no publication, and whether it is replayed."""
    histories = {b["_proc"] for b in objects.rows["ring_buffers"] if b["_publisher"]}
    got, first_takes = set(), {}
    for row in rows:
        buffer, call = row["_event"]["of"], row["_call"]
        twice = (id(call), row["_proc"], row["_event"]["buffer"])
        if twice in got or (call and buffer and buffer["created_ns"] > call["intra_publish_ns"]):
            row["_call"] = None
        got.add(twice)
        if None not in (row["_call"], row["_take"], buffer):
            taken_ns, subscription = row["_take"]["take_ns"], id(buffer["_subscription"])
            first_takes[subscription] = min(taken_ns, first_takes.get(subscription, taken_ns))
    for row in rows:
        proc, buffer, take = row["_proc"], row["_event"]["of"], row["_take"]
        if row["_call"] is None:
            taken_ns = take["take_ns"] if take else FOREVER
            earliest = first_takes.get(id(buffer["_subscription"]), FOREVER) if buffer else FOREVER
            replayed = (
                row["_event"]["sure"] and proc in histories
                and "rclcpp_intra_publish" in objects.declared
                and not gaps.dropped(proc, -FOREVER, taken_ns - 1)
                and not gaps.disordered(proc, -FOREVER, taken_ns - 1)
                and (take is None or taken_ns <= earliest)
            )  # fmt: skip
            row["_fate"] = LATE_JOINER if replayed else UNTOLD


def decide(
    rows: Sequence[Row], calls: Iterable[Row], takes_alone: Iterable[Row], objects: Objects,
    gaps: Gaps, *, takes_recorded: bool,
) -> None:  # fmt: skip
    """Add outcome and reason to all rows of messages."""
    for subscription in objects.rows["subscriptions"]:
        subscription |= {"_waits": [], "_strays": [], "_queue": []}
    for take in takes_alone:
        if take["_subscription"]:
            take["_subscription"]["_strays"].append(take["take_ns"])
    times = Counter((call["topic"], call["_key"]) for call in calls)
    connections = defaultdict(list)
    for row in (row for row in rows if row["_fate"] not in {BEFORE, LATE_JOINER}):
        key, subscription = (row["topic"], row["source_timestamp_ns"]), row["_subscription"]
        row["_shared"] = None not in key and times[key] > 1
        if subscription and None not in {row["_taken"], row["publish_ns"]}:
            subscription["_waits"].append(row["_taken"] - row["publish_ns"])
        if not row["intra_process"]:
            connection = row["_connection"] = connections[id(row["_publisher"]), id(subscription)]
            row["_place"] = len(connection)
            connection.append(row)
            if subscription and row["publisher_host"] == row["_sub_proc"][0]:
                queue = row["_queue"] = subscription["_queue"]
                row["_queued"] = len(queue)
                queue.append(row)
    for row in rows:
        if row["_fate"] is None and row["_taken"] is not None:
            ran = row["callback_start_ns"] is not None
            row |= {"outcome": "delivered" if ran else "taken", "reason": row["_how"]}
        else:
            rules = (
                () if row["_fate"] else _rules(row, objects, gaps, takes_recorded=takes_recorded)
            )
            reason = row["_fate"] or next(reason for reason, applies in rules if applies)
            row |= {"outcome": OUTCOMES.get(reason, "unknown"), "reason": reason}


def _rules(
    row: Row, objects: Objects, gaps: Gaps, *, takes_recorded: bool
) -> Iterable[tuple[str, Any]]:
    """Return the rules for messages between processes that were not taken, and which apply."""
    published, subscription, proc = row["publish_ns"], row["_subscription"], row["_sub_proc"]
    connection, at = row["_connection"], row["_place"]
    times = [message["_taken"] for message in connection]
    before, after = ([t for t in part if t is not None] for part in (times[:at], times[at + 1 :]))
    until, longest = [*after, FOREVER][0], max(subscription["_waits"], default=USUAL_WAIT_NS)
    strayed = any(published <= time <= until for time in subscription["_strays"])
    free = objects.processes.get(proc, {"free_ns": FOREVER})["free_ns"]
    end = min(free, first(subscription["ended_ns"], FOREVER))
    stamped, sent = row["source_timestamp_ns"] is not None, row["rmw_publish_ns"] is not None
    same_host, depth = row["publisher_host"] == proc[0], subscription["queue_depth"]
    pushed = same_host and depth and _pushed_out(row, min(depth, MOST), max([0, *before]), longest)
    others = row["_queue"][row["_queued"] + 1 :] if same_host else ()
    taken_on = any(message["_taken"] is not None for message in others)
    return (
        # 1
        ("takes_not_recorded", not takes_recorded or subscription["_untaken"]),
        ("publisher_unknown", row["_publisher"] is None),
        ("shared_timestamp", row["_shared"]),
        # 2
        ("no_timestamp", not stamped and not (sent and before and after and not strayed)),
        # 3
        ("gap", gaps.dropped(proc, published - row["_apart"], until)),
        ("order_broken", gaps.disordered(proc, published, until)),
        # 4
        ("recording_ended", not after and published + longest > end),
        # 5
        ("before_first_take", not before and after),
        ("never_taken", not before),
        # 6
        ("pushed_out", pushed),
        # 7
        ("depth_unknown", same_host and not depth and taken_on),
        # 8
        ("overtaken", after),
        ("receiver_seen", True),
    )  # fmt: skip


def _pushed_out(row: Row, depth: int, last_take: int, longest: int) -> bool:
    """Whether later messages of any publisher of the host filled the subscription's history."""
    later = row["_queue"][row["_queued"] + 1 :]
    taken = [message["_taken"] for message in later if message["_taken"] is not None]
    full = [message["_pushed"] for message in later[depth - 1 :][:1]]
    soon = bool(full) and full[0] - max(row["_pushed"], last_take) <= longest
    return bool(full and taken) and full[0] < taken[0] and (depth > 1 or soon)
