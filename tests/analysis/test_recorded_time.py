"""Test times without pauses, in which nothing was recorded on purpose, or lost events, by hand."""

import polars as pl
import pytest

from roslens.analysis.measures.pauses import paused_runs, recorded_time
from roslens.analysis.overview.runs_and_topics import graph_edges, topics_overview

MS = 1_000_000
LOSSES = pl.LazyFrame(
    [
        ("a", "h", None, "not_sampled", 10, 20),
        ("a", "h", "ust/uid/0/64-bit", "discarded_events", 21, 25),
        ("a", "h", "ust/uid/0/64-bit", "truncated", 23, 29),
        ("a", "h", "kernel", "discarded_events", 21, 60),
        ("a", "h", None, "not_sampled", 30, 35),
        ("b", "h", None, "not_sampled", 5, 6),
        ("b", "other", None, "not_sampled", 0, 4),
        ("d", "h", "ust/uid/0/64-bit", "missing_stream", None, None),
    ],
    schema=["run", "host", "trace", "kind", "begin_ns", "end_ns"],
    orient="row",
)


def test_pauses_take_no_time() -> None:
    rows = pl.LazyFrame(
        [
            ("a", "h", 1, 2),
            ("a", "h", 10, 11),
            ("a", "h", 19, 25),
            ("a", "h", 20, 36),
            ("a", "h", None, 50),
            ("b", "h", 7, 8),
            ("c", "h", 40, 41),
            ("d", "h", 40, 41),
        ],
        schema={"run": pl.String, "host": pl.Categorical, "begin": pl.Int64, "end": pl.Int64},
        orient="row",
    ).with_row_index("row")
    recorded = recorded_time(rows, LOSSES, "begin", "end").sort("row").drop("row", "host").collect()
    assert recorded.columns == ["run", "begin", "end", "pauses", "paused"]
    assert recorded.rows() == [
        ("a", 1, 2, 0, False),
        ("a", 10, 10, 1, True),
        ("a", 10, 11, 1, True),
        ("a", 10, 13, 1, False),
        ("a", None, 27, 0, False),
        ("b", 6, 7, 1, False),
        ("c", 40, 41, 0, False),
        ("d", 0, 0, 1, True),
    ]
    whole = recorded_time(rows, None, "begin", "end").collect()
    assert whole.drop("pauses", "paused").equals(rows.collect())
    assert paused_runs(LOSSES) == ["a", "b"]


def test_a_rate_is_of_the_time_that_was_recorded() -> None:
    """Messages come every 10 ms; of two seconds, the one from 0.305 s on was not recorded."""
    pause = {"begin_ns": 305 * MS, "end_ns": 1305 * MS}
    # One publisher is called so rarely that its probe stayed: its messages in the pause are there.
    sent = [("/often", number) for number in range(200) if not 305 <= 10 * number < 1305]
    sent += [("/seldom", 10 * number) for number in range(20)]
    messages = pl.LazyFrame(sent, schema=["topic", "number"], orient="row").select(
        "topic", publish_ns=10 * MS * pl.col("number"), run=pl.lit("r"),
        publisher_node=pl.lit("/a"), publisher_host=pl.lit("h"), subscription_node=pl.lit("/b"),
        outcome=pl.lit("delivered"), latency_ns=pl.lit(MS),
        clock_bound_ns=pl.lit(None, pl.Int64),
    )  # fmt: skip
    where = {"run": ["r"], "host": ["h"], "trace": [None]}
    losses = pl.LazyFrame(
        {**where, "kind": ["not_sampled"], **pause}, schema_overrides={"trace": pl.String}
    )
    for frame in (topics_overview(messages, losses), graph_edges(messages, losses)):
        rates = dict(frame.select("topic", "rate_hz").rows())
        # 99 intervals in 0.99 s, and 9 in 0.9 s.
        assert rates == {"/often": pytest.approx(100), "/seldom": pytest.approx(10)}
    sized = messages.with_columns(size=pl.when(topic="/often").then(20))
    bytes_per_s = topics_overview(sized, losses).select("topic", "bytes_per_s").rows()
    assert dict(bytes_per_s) == {"/often": pytest.approx(2000), "/seldom": None}
    assert dict(topics_overview(messages).select("topic", "rate_hz").rows())["/often"] < 51
