"""Test declared links between subscriptions and publishers; expected rows by hand."""

import polars as pl
from ros2_trace import Trace, findings, rows

COLUMNS = (
    "link_id", "kind", "node", "subscription_topic", "publisher_topic", "subscription_id",
    "publisher_id", "declared_ns",
)  # fmt: skip


def fusion() -> Trace:
    trace = Trace()
    trace.node(1, 0x10, "fusion")
    for k, topic in enumerate(("/left", "/right")):
        trace.subscription(
            10 + 10 * k, 0x100 * (k + 1), topic, node=0x10, callback=0x1000 + k
        )  # fmt: skip
    trace.publisher(40, 0x300, "/both", node=0x10)
    return trace


def test_each_pair_is_a_row() -> None:
    trace = fusion()
    trace.emit(50, "message_link_partial_sync", subs=[0x100, 0x200], pubs=[0x300])
    trace.emit(51, "message_link_periodic_async", subs=[0x200], pubs=[0x300])
    tables = trace.tables()
    assert rows(tables["message_links"], *COLUMNS) == [
        (0, "partial_sync", "/fusion", "/left", "/both", 0, 0, 50),
        (0, "partial_sync", "/fusion", "/right", "/both", 1, 0, 50),
        (1, "periodic_async", "/fusion", "/right", "/both", 1, 0, 51),
    ]
    assert findings(tables) == {}


def test_a_snapshot_that_repeats_a_link_and_one_of_an_unknown_subscription() -> None:
    trace = fusion()
    for _ in range(2):
        trace.emit(50, "message_link_partial_sync", subs=[0x100, 0x999], pubs=[0x300])
    tables = trace.tables()
    assert rows(tables["message_links"], *COLUMNS) == [
        (0, "partial_sync", "/fusion", "/left", "/both", 0, 0, 50),
        (0, "partial_sync", "/fusion", None, "/both", None, 0, 50),
    ]
    assert findings(tables) == {"repeated_init_events": 1, "events_before_init": 1}


def test_without_links_the_table_is_empty_and_nothing_is_missing() -> None:
    """Links are the user's choice, so their absence is not a finding."""
    tables = fusion().tables()
    assert tables["message_links"].is_empty()
    assert tables["health"].filter(pl.col("where") == "message_links").is_empty()
