"""Test discovery of pairs; expected times are counted by hand."""

from synthetic import Tables

from roslens.analysis.overview.discovery import discovery_overview

MS = 1_000_000


def test_from_the_later_one_to_the_first_message_that_is_taken() -> None:
    """Subscription 7 is made at 20 ms, publisher 1 at 10; when 2 was made is unknown."""
    rows = [
        # Published (ms), taken, publisher, outcome, by pointer.
        (15, None, 1, "not_matched", False),
        (25, None, 1, "not_matched", False),
        (35, None, 1, "not_matched", False),
        (45, 47, 1, "delivered", False),
        (55, 56, 1, "delivered", False),
        (60, None, 1, "lost", False),
        (30, 31, 2, "taken", False),
        (30, None, 3, "not_matched", False),
        (30, 31, 4, "delivered", True),
    ]
    tables = Tables(
        messages=[
            {"topic": "/a", "publisher_node": "/n", "subscription_node": "/m", "subscription_id": 7,
             "publish_ns": sent * MS, "take_ns": taken and taken * MS, "publisher_id": publisher,
             "outcome": outcome, "intra_process": by_pointer}
            for sent, taken, publisher, outcome, by_pointer in rows
        ],
        publishers=[
            {"publisher_id": number, "created_ns": created and created * MS}
            for number, created in {1: 10, 2: None, 3: 5, 4: 1}.items()
        ],
        subscriptions=[{"subscription_id": 7, "created_ns": 20 * MS}],
        losses=[{"trace": "ust", "kind": "discarded_events", "begin_ns": 30 * MS}],
    )  # fmt: skip
    names = ("messages", "publishers", "subscriptions", "losses")
    messages, publishers, subscriptions, losses = map(tables.table, names)
    overview = discovery_overview(messages, publishers, subscriptions, losses.clear())
    columns = ("publisher_id", "since_ns", "published_ms", "at_least_ms", "delivered_ms", "missed")
    assert overview.select(columns).rows() == [
        # Messages published before there was anybody to find do not count.
        (1, 20 * MS, 5, 15, 27, 2),
        (2, None, None, None, None, 0),
        (3, 20 * MS, 10, 10, None, 1),
    ]
    assert overview.select("topic", "from", "to").unique().rows() == [("/a", "/n", "/m")]
    # Earlier takes may be among the events lost before the first take that is known.
    bounded = discovery_overview(messages, publishers, subscriptions, losses).select(columns)
    assert bounded.filter(publisher_id=1).rows() == [(1, 20 * MS, None, 15, None, None)]
