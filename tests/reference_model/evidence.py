"""Decide what became of a message at a subscription, by the first applicable rule of docs/model.md.

The messages of a connection are those of one publisher at one subscription, between processes and
not replayed, in the order in which they were published. They are handed over in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from reference_model.gaps import FOREVER
from reference_model.objects import Row
from reference_model.ring_buffers import CLEARED, OVERWRITTEN, PENDING, REPLAYED, UNTOLD

if TYPE_CHECKING:
    from reference_model.messages import Messages

USUAL_WAIT_NS = 10**9
MOST = 10_000
"""The largest depth of a history that is considered, in messages."""
NO_SUBSCRIBER, NOBODY_KNOWN = "no_subscriber", "nobody_known"
FATES = {
    UNTOLD: ("unknown", "publication_not_recorded"),
    PENDING: ("unknown", "still_in_buffer"),
    OVERWRITTEN: ("overwritten", "place_overwritten"),
    CLEARED: ("overwritten", "buffer_cleared"),
    NO_SUBSCRIBER: ("no_subscriber", "no_subscription"),
    NOBODY_KNOWN: ("unknown", "subscription_unknown"),
}
"""Outcome and reason of messages that are decided before the rules."""


def decide(row: Row, connection: Sequence[Row], known: Messages) -> tuple[str, str]:
    """Return outcome and reason of a message; `known` has the facts of the whole recording."""
    if row["_fate"] == REPLAYED:
        inside = row["intra_process"]
        return "replayed", "late_joiner" if inside else "published_before_subscription"
    if row["_fate"] in FATES:
        return FATES[row["_fate"]]
    if taken(row) is not None:
        return "taken" if row["callback_start_ns"] is None else "delivered", row["_how"]
    applies = (rule for rule in _rules(row, connection, known) if rule[0])
    _, outcome, reason = next(applies)
    return outcome, reason


def _rules(
    row: Row, connection: Sequence[Row], messages: Messages
) -> tuple[tuple[Any, str, str], ...]:
    """Return whether each rule applies to a message between processes that was not taken."""
    stamp, subscription, publisher = (
        row["_call"]["_key"],
        id(row["_subscription"]),
        row["_publisher"],
    )
    published, proc = row["publish_ns"], row["_sub_proc"]
    place = next((n for n, message in enumerate(connection) if message is row), 0)
    before, after = _times(connection[:place]), _times(connection[place + 1 :])
    until, longest = [*after, FOREVER][0], messages.longest.get(subscription, USUAL_WAIT_NS)
    strayed = any(published <= time <= until for time in messages.strays.get(subscription, ()))
    ended = row["_subscription"]["ended_ns"]
    end = min(messages.ends.get(proc, FOREVER), FOREVER if ended is None else ended)
    unseen = published + longest > end
    sent = row["rmw_publish_ns"] is not None
    depth = row["_subscription"]["queue_depth"]
    same_host = row["publisher_host"] == proc[0]
    later = connection[place + min(depth or MOST, MOST) :]
    return (
        # 1
        ("rmw_take" not in messages.happened or subscription in messages.untaken,
         "unknown", "takes_not_recorded"),
        (publisher is None, "unknown", "publisher_unknown"),
        ((row["topic"], stamp) in messages.shared, "unknown", "shared_timestamp"),
        # 2
        (stamp is None and not (sent and before and after and not strayed),
         "unknown", "no_timestamp"),
        # 3
        (messages.gaps.dropped(proc, published, until), "unknown", "gap"),
        (messages.gaps.disordered(proc, published, until), "unknown", "order_broken"),
        # 4
        (not after and unseen, "unknown", "recording_ended"),
        # 5
        (not before and after, "not_matched", "before_first_take"),
        (not before, "not_matched", "never_taken"),
        # 6
        (same_host and depth and after and later
         and _pushed_out(row, later[0], before, until, longest),
         "replaced", "pushed_out"),
        # 7
        (same_host and not depth and after, "unknown", "depth_unknown"),
        # 8
        (after, "lost", "overtaken"),
        (True, "lost", "receiver_seen"),
    )  # fmt: skip


def _pushed_out(row: Row, successor: Row, before: Sequence[int], until: int, longest: int) -> bool:
    """Whether a later message took its place before the next one was taken."""
    soon = _pushed(successor) - max([_pushed(row), *before]) <= longest
    return _pushed(successor) < until and (row["_subscription"]["queue_depth"] > 1 or soon)


def taken(row: Row) -> int | None:
    """Return when a message was taken or, without a take, when its callback began."""
    return row["callback_start_ns"] if row["take_ns"] is None else row["take_ns"]


def _times(rows: Sequence[Row]) -> list[int]:
    return [time for time in map(taken, rows) if time is not None]


def _pushed(row: Row) -> int:
    times = (row["rmw_publish_ns"], row["rcl_publish_ns"], row["publish_ns"])
    return next(time for time in times if time is not None)
