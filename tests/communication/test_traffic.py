"""Test periods, backlog, hops, copies and the comparison with the log, by hand."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roslens.analysis.estimate import Metric
from roslens.analysis.runs import Run
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.studies.communication.backlog import (
    Backlog,
    backlogs,
    with_publications_behind,
)
from roslens.studies.communication.cells import COLUMNS
from roslens.studies.communication.copies import Copies, copies_of, signature
from roslens.studies.communication.estimates import heap_per_publication
from roslens.studies.communication.figures import entity_plot
from roslens.studies.communication.logged import agreement, compare_with_log, link_log
from roslens.studies.communication.periods import (
    pairs,
    publisher_periods,
    subscription_periods,
)
from roslens.studies.communication.traffic import HOPS, merged_hops, with_hops

TIMES = ("publish_ns", "rmw_publish_ns", "take_ns", "rclcpp_take_ns", "callback_start_ns")


def rows(*given_rows: dict[str, object]) -> pl.DataFrame:
    """Make message rows with defaults for irrelevant columns."""
    whole = [
        {
            "run": "r",
            "topic": "/t",
            "message_id": number,
            "publisher_id": 0,
            "subscription_id": 0,
            "intra_process": False,
            "outcome": "delivered",
            **dict.fromkeys(TIMES),
            **row,
        }
        for number, row in enumerate(given_rows)
    ]
    integer = [*TIMES, "message_id", "publisher_id", "subscription_id"]
    frame = pl.DataFrame(whole, schema_overrides=dict.fromkeys(integer, pl.Int64))
    if "latency_ns" not in frame.columns:
        latency = pl.col("callback_start_ns") - pl.col("publish_ns")
        frame = frame.with_columns(latency.alias("latency_ns"))
    return frame


def test_periods_count_each_publication_once_and_every_callback() -> None:
    # Two subscriptions of one topic: 3 publications at 0, 10, 30 -> period 15.
    messages = rows(
        *(
            {"message_id": i, "publish_ns": t, "subscription_id": s}
            for i, t in enumerate((0, 10, 30))
            for s in (0, 1)
        ),
        {"message_id": 9, "publish_ns": 5, "publisher_id": 1},
    )
    assert publisher_periods(messages).rows() == [("r", "/t", 0, 3, 15.0), ("r", "/t", 1, 1, None)]
    callbacks = pl.DataFrame(
        {"run": "r", "topic": "/t", "subscription_id": [0, 0, 1], "start_ns": [2, 10, 7]}
    )
    assert subscription_periods(callbacks).rows() == [
        ("r", "/t", 0, 2, 8.0),
        ("r", "/t", 1, 1, None),
    ]


def test_pairs_count_what_is_known() -> None:
    messages = rows(
        {"publish_ns": 0, "callback_start_ns": 4},
        {"publish_ns": 1, "callback_start_ns": 3},
        {"outcome": "lost"},
        {"outcome": "overwritten"},
        {"outcome": "taken"},
        {"outcome": "unknown"},
        {"outcome": "no_subscriber"},
    )
    (row,) = pairs(messages).iter_rows(named=True)
    assert (row["sent"], row["received"], row["lost"], row["unknown"]) == (5, 2, 2, 1)
    assert row["loss"] == 0.4
    assert row["latency_ns"] == 3.0


def test_the_interval_is_open_at_the_publication_and_closed_at_the_take() -> None:
    messages = rows(
        {"publish_ns": 0, "take_ns": 20},
        {"publish_ns": 10, "take_ns": 19},
        {"publish_ns": 20, "take_ns": None, "outcome": "lost"},
        {"publish_ns": 15, "take_ns": 40, "publisher_id": 1},
    )
    assert with_publications_behind(messages, messages)["behind"].to_list() == [2, 0, None, 0]
    # For a lost message, the wait lasts until the subscription took that publisher's next one.
    later = pl.concat([messages, rows({"message_id": 9, "publish_ns": 30, "take_ns": 41})])
    assert with_publications_behind(later, later)["behind"].to_list() == [2, 0, 1, 0, 0]


def test_a_publication_for_many_subscriptions_is_one() -> None:
    messages = rows(
        {"message_id": 0, "publish_ns": 0, "take_ns": 25},
        *({"message_id": 1, "publish_ns": 10, "subscription_id": s} for s in range(3)),
        *({"message_id": 2, "publish_ns": 20, "subscription_id": s} for s in range(3)),
    )
    assert with_publications_behind(messages, messages)["behind"][0] == 2


@given(
    st.lists(st.integers(0, 200), min_size=1, max_size=30, unique=True),
    st.lists(st.integers(0, 80), min_size=30, max_size=30),
)
def test_depth_is_what_counting_gives(published: list[int], waits: list[int]) -> None:
    frame = rows(
        *({"publish_ns": t, "take_ns": t + w} for t, w in zip(published, waits, strict=False))
    )
    expected = [
        sum(t < moment <= t + w for moment in published)
        for t, w in zip(published, waits, strict=False)
    ]
    assert with_publications_behind(frame, frame)["behind"].to_list() == expected


@pytest.mark.parametrize(
    ("seen", "depth", "full"),
    # The oldest of ten has nine behind it. In a queue of one nobody waits behind another.
    [(9.0, 10, True), (8.5, 10, False), (10.0, 10, True), (0.0, 0, False), (5.0, None, False),
     (0.0, 1, False)],
)  # fmt: skip
def test_messages_wait_in_a_queue_that_is_full_behind_them(
    seen: float, depth: int | None, full: bool
) -> None:
    assert Backlog(seen, depth).waited is full
    assert Backlog(seen, depth).full is full
    assert Backlog(seen, depth, pushed_out=1).full


def test_the_backlog_of_a_run_is_the_median_and_the_smallest_queue() -> None:
    messages = rows(
        *({"publish_ns": 10 * i, "take_ns": 10 * i + 10 * wait} for i, wait in
          enumerate([1, 2, 3, 0, 0, 0])),
    )  # fmt: skip
    # Nothing was sent after three of them; the others have 1, 2 and 3 publications behind them.
    by_run = backlogs(with_publications_behind(messages, messages), queues(10, 5))
    assert by_run == {"r": Backlog(0.5, 5, largest_seen=3)}


def queues(*depths: int) -> pl.DataFrame:
    ids = pl.Series("subscription_id", range(len(depths)), dtype=pl.Int64)
    return pl.DataFrame([ids]).with_columns(
        run=pl.lit("r"), queue_depth=pl.Series(depths, dtype=pl.Int64)
    )


def test_what_a_full_queue_pushed_out_was_lost_to_it() -> None:
    # Nothing is taken while 15 are published, then the queue of 10 is taken: 5 were pushed out, the
    # first of them with 14 later ones before the next take, the last with 10. A message is not
    # pushed out if it is lost though the next one was taken before the queue could be full.
    burst = [{"publish_ns": i, "outcome": "lost"} for i in range(5)]
    burst += [{"publish_ns": i, "take_ns": 20 + i} for i in range(5, 15)]
    pair = [{"publish_ns": 50, "outcome": "lost"}, {"publish_ns": 51, "take_ns": 52}]
    messages = rows(*burst, *pair)
    behind = with_publications_behind(messages, messages)
    assert behind["behind"].to_list()[:5] == [14, 13, 12, 11, 10]
    assert backlogs(behind, queues(10))["r"].pushed_out == 5
    # The first that was taken had 9 behind it: a queue of 11 was not full.
    assert backlogs(behind, queues(11))["r"].pushed_out == 0
    # An idle subscription takes each that arrives at once; the transport lost 12 of 20, or every
    # second. Only what is known to be replaced was pushed out of a queue of one.
    outage = [{"publish_ns": 10 * i, "take_ns": 10 * i + 1} for i in range(20)]
    for i in range(4, 16):
        outage[i] = {"publish_ns": 10 * i, "outcome": "lost"}  # type: ignore[dict-item]
    lost = rows(*outage)
    for depth in (1, 2, 10):
        found = backlogs(with_publications_behind(lost, lost), queues(depth))["r"]
        assert (found.pushed_out, found.full, found.largest_seen) == (0, False, 0)
    replaced = rows({"publish_ns": 0, "outcome": "replaced"}, {"publish_ns": 1, "take_ns": 2})
    assert backlogs(with_publications_behind(replaced, replaced), queues(1))["r"].pushed_out == 1
    # An overwritten message is certain; one whose queue is not known is not.
    overwritten = rows({"publish_ns": 0, "outcome": "overwritten"}, {"publish_ns": 1})
    assert backlogs(with_publications_behind(overwritten, overwritten), queues(10))["r"].full
    assert not backlogs(behind, queues(10).clear())["r"].full


moments = st.one_of(st.none(), st.integers(0, 10**12))


instant = st.integers(0, 10**12)
times_of = st.tuples(instant, moments, moments, moments, instant)


@given(st.lists(times_of, min_size=1))
def test_hops_add_up_whatever_was_recorded(times: list[tuple[int | None, ...]]) -> None:
    frame = rows(*(dict(zip(TIMES, row, strict=True)) for row in times))
    total = pl.sum_horizontal(*(f"hop_{hop}_ns" for hop in HOPS))
    sums = with_hops(frame).select(total.alias("sum"), "latency_ns")
    assert sums["sum"].to_list() == sums["latency_ns"].to_list()


def test_hops_of_both_ways() -> None:
    hops = with_hops(
        rows(
            dict(zip(TIMES, (0, 5, 100, 103, 110), strict=True)),
            {"publish_ns": 0, "take_ns": 40, "callback_start_ns": 45, "intra_process": True},
            dict(zip(TIMES, (0, None, 100, None, 110), strict=True)),
        )
    )
    assert hops.select(f"hop_{hop}_ns" for hop in HOPS).rows() == [
        (5, 95, 3, 7),
        (None, 40, None, 5),
        (None, 100, None, 10),
    ]
    assert merged_hops(hops) == {"publish_call": 1, "take": 1}


STRING = "std_msgs::msg::String_<std::allocator<void> >"


@pytest.mark.parametrize(
    ("symbol", "expected"),
    [
        (f"main::{{lambda(std::unique_ptr<{STRING} >)#2}}", "unique_ptr"),
        (f"main::{{lambda(std::shared_ptr<{STRING} const>)#1}}", "const"),
        (f"N::N(Options const&)::{{lambda({STRING} const&)#1}}", "const"),
        (f"N::N(Options const&)::{{lambda(std::shared_ptr<{STRING} >)#1}}", "shared_ptr"),
        ("on_message", "unknown"),
        (None, "unknown"),
    ],
)
def test_how_a_callback_takes_its_message(symbol: str | None, expected: str) -> None:
    assert signature(symbol) == expected


@pytest.mark.parametrize(
    ("owners", "sharers", "intra", "expected"),
    [
        # The cases follow IntraProcessManager::do_intra_process_publish.
        (0, 50, True, Copies(0, 0)),
        (1, 0, True, Copies(0, 0)),
        (3, 0, True, Copies(2, 0)),
        (1, 1, True, Copies(1, 0)),
        (2, 3, True, Copies(2, 0)),
        # Serialised once, deserialised for each; an owner gets a copy of the message that was
        # taken.
        (0, 1, False, Copies(0, 2)),
        (1, 0, False, Copies(1, 2)),
        (0, 50, False, Copies(0, 51)),
    ],
)
def test_copies_by_the_rules(
    owners: int, sharers: int, intra: bool, expected: Copies
) -> None:  # fmt: skip
    assert copies_of(owners, sharers, 0, intra_process=intra) == expected


def test_copies_are_not_guessed() -> None:
    assert copies_of(0, 0, 1, intra_process=True).by_rclcpp is None


def test_the_log_is_linked_message_by_message() -> None:
    messages = rows(
        {"publish_ns": 105, "callback_start_ns": 120},
        {"publish_ns": 205, "outcome": "lost"},
        {"publish_ns": 305, "callback_start_ns": 320},
        {"message_id": 2, "publish_ns": 305, "callback_start_ns": 330, "subscription_id": 1},
    )
    logged = pl.DataFrame(
        {
            "run": "r",
            "topic": "/t",
            "sequence": [0, 1, 2, 2],
            "publish_realtime_ns": [100, 200, 300, 300],
            "callback_realtime_ns": [127, None, 341, 326],
        }
    )
    linked = link_log(messages, logged)
    assert linked["logged_publish_ns"].to_list() == [100, 200, 300, 300]
    assert linked["logged_callback_ns"].to_list() == [127, None, 326, 341]
    (row,) = compare_with_log(linked, logged).iter_rows(named=True)
    assert (row["publications"], row["logged_publications"]) == (3, 3)
    assert (row["receptions"], row["logged_receptions"]) == (3, 3)
    # The logged latencies are 27, 26, 41 against 15, 15, 25.
    assert row["longer_p50_ns"] == 12.0
    assert row["logged_latency_p50_ns"] == 27.0


def test_a_log_of_another_length_is_not_linked() -> None:
    messages = rows({"publish_ns": 105, "callback_start_ns": 120})
    logged = pl.DataFrame(
        {
            "run": "r",
            "topic": "/t",
            "sequence": [0, 1],
            "publish_realtime_ns": [100, 200],
            "callback_realtime_ns": [127, 220],
        }
    )
    assert link_log(messages, logged)["logged_callback_ns"].to_list() == [None]
    (row,) = compare_with_log(link_log(messages, logged), logged).iter_rows(named=True)
    assert (row["publications"], row["logged_publications"]) == (1, 2)


def test_trace_and_log_agree_but_for_the_copies_that_no_event_shows() -> None:
    def means(run: str, before: int, latency: int, after: int, copy: int | None = None) -> dict:  # type: ignore[type-arg]
        """Make means [us]: log's line -> first event -> callback_start -> callback's line."""
        times = {"publish_ns": before, "logged_publish_ns": 0, "latency_ns": latency}
        end = before + latency + after
        row = times | {"logged_callback_ns": end, "copy_ns": copy}
        return {"run": run} | {k: None if v is None else 1000 * v for k, v in row.items()}

    copied = pl.DataFrame(
        [
            # The limit is 15 us, or 5 % of the trace's latency.
            means("a short", 10, 100, 5),
            means("b short", 10, 100, 6),
            means("c long", 40, 1000, 10),
            means("d long", 40, 1000, 11),
            # The mean is 14 of 100.
            means("e", 3, 50, 1),
            means("e", 20, 150, 4),
            # Nothing is known about a message without a line in the log.
            means("e", 0, 900, 0) | {"logged_publish_ns": None},
            means("f by reference", 200, 100, 15),
            means("g by reference", 200, 100, 16),
            means("h unique", 15, 100, 200, copy=200),
            means("i unique", 16, 100, 200, copy=200),
        ],
        schema_overrides={"copy_ns": pl.Int64},
    )
    table = agreement(copied, ["f by reference", "g by reference"])
    assert table.select("run", "messages", "before_ns", "after_ns", "rest_ns", "agrees").rows() == [
        ("a short", 1, 0, 0, 15_000, True),
        ("b short", 1, 0, 0, 16_000, False),
        ("c long", 1, 0, 0, 50_000, True),
        ("d long", 1, 0, 0, 51_000, False),
        ("e", 2, 0, 0, 14_000, True),
        ("f by reference", 1, 200_000, 0, 15_000, True),
        ("g by reference", 1, 200_000, 0, 16_000, False),
        ("h unique", 1, 0, 200_000, 15_000, True),
        ("i unique", 1, 0, 200_000, 16_000, False),
    ]
    assert table["logged_latency_ns"].to_list()[4:6] == [114_000, 315_000]


def test_heap_per_publication_is_counted_from_the_first_one_on() -> None:
    # Two processes: one allocated 1,000 bytes before, both allocate after the publication at 50.
    heap = pl.LazyFrame(
        {
            "run": "r",
            "host": "h0",
            "vpid": [1, 1, 1, 2],
            "time_ns": [10, 60, 90, 70],
            "allocated_bytes": [1000, 1400, 1800, 200],
            "allocations": [10, 12, 14, 2],
        }
    )
    messages = rows({"publish_ns": 50}, {"publish_ns": 80}, {"message_id": 1, "publish_ns": 80})
    per_publication = heap_per_publication(heap, messages)
    assert per_publication.select("allocated_bytes", "allocations", "publications").rows() == [
        (500, 3, 2)
    ]
    assert heap_per_publication(heap.clear(), messages).is_empty()


def test_the_columns_of_cells_csv_are_described_once() -> None:
    page = (Path(__file__).parents[2] / "docs" / "communication.md").read_text()
    table = [line.replace("`", "") for line in page.splitlines() if line.startswith("| `")]
    assert table == [f"| {name} | {meaning} |" for name, meaning in COLUMNS.items()]


def test_an_interval_that_is_wider_than_its_dots_is_in_the_picture() -> None:
    """Runs of 18, 18.25 and 18.5 ms: by hand 18.25 +- 4.303 * 0.25 / sqrt(3) = 0.621 ms."""
    metric = Metric("publisher_period", "a period", "ns")
    cell, runs = {"a": 1}, [Run(f"r{number}", {"a": 1}) for number in range(3)]
    values = pl.DataFrame(
        {
            "run": ["r0", "r1", "r2"],
            "topic": "/t",
            "publisher_id": 1,
            "value_ms": [18.0, 18.25, 18.5],
        }
    )
    estimate = value_over_runs(metric, cell, [18e6, 18.25e6, 18.5e6], 3)
    plot = entity_plot(
        values, ("topic", "publisher_id"), runs, [estimate],
        what="period", of="publisher", definition="a period",
    )  # fmt: skip
    low, high = plot.figure.axes[0].get_ylim()
    assert low < 18.25 - 0.62
    assert high > 18.25 + 0.62
