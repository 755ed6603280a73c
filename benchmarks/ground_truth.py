"""Check the tables of recordings against what the workloads logged themselves.

Usage: python benchmarks/ground_truth.py FOLDER... [--distro NAME]

Reads every recording below the folders that has a ``messages.csv`` (topic, sequence,
publish_realtime_ns just before publish(), callback_realtime_ns on the callback's first line or
empty; publisher and subscription where a topic has several) in its folder or under ``native/``,
or the two files ``messages_publisher.csv`` and ``messages_subscriber.csv`` of the rclcpp workload
in two processes, a ``timers.csv`` (timer, times of its callbacks), the ``samples.csv`` of the
chain workload, a
``calls.csv`` (service, sequence, and the times of request, callback and response), a
``goals.csv`` (action, and the times of sending, accepting, executing and result), or a
``transitions.csv`` (node, transition, resulting_state, and the times around the call). Checks:

* every logged message is exactly one row for each subscription, and no row of these topics is
  invented;
* every logged callback of a timer is one row, within the logged times;
* what was received is delivered; what was not is lost, overwritten, or unknown at the edge;
* every logged call is one row: with its callback, and from Kilted on with request and response;
  where services were not recorded, it is one execution of a callback without a known owner;
* how much longer the logged latency is than the trace's (median, P99, extremes); for calls before
  Kilted, how much later the callback's first line was logged than callback_start; for executions,
  how much longer the logged span is, which for a call is one moment;
* every logged goal is one row (from Kilted on), accepted, executed and ended in the order of the
  log, with its result where one was received and as much feedback as was logged (or more, where
  some arrived before the client knew the goal);
* in the chain workload, every sample goes along the chain as the log says: by the callback that
  published last, and by the declared link of both inputs, where the instance is marked as exact;
  the parts of each instance add up to its latency;
* every logged transition leads through one transition state, within the logged times, to the
  state in the log, and no state is invented.

With ``--distro iron``, ``humble`` or ``galactic`` each recording is first rewritten to what that
distribution would have recorded: events that it does not have are left out, ``rmw_publish`` has no
timestamp and comes before the middleware's stamp, and Galactic's ``rclcpp_publish`` names its
publisher. The tables may then say nothing of messages that the log contradicts, and the logged loss
must lie within the bounds [lost / sent, (lost + unknown) / sent]; goals and samples of the chain
cannot be checked. Everything else is held against the log as above.

Exit status 1 if any recording fails.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import polars.selectors as cs

from roslens.analysis.flow.chain import Chain
from roslens.analysis.flow.chains import chain_instances
from roslens.analysis.flow.links import Link
from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.collectors.ros2.services import begin_of
from roslens.recording import Recording, RoslensError

SAMPLES = Path(__file__).parents[1] / "data" / "samples"

MISSED = ("lost", "replaced", "overwritten")
NOT_RECEIVED = (*MISSED, "unknown", "not_matched")
_SINCE_KILTED = (
    "rmw_client_init", "rmw_send_request", "rmw_take_request", "rmw_send_response",
    "rmw_take_response",
)  # fmt: skip
_SINCE_IRON = (
    "rclcpp_intra_publish", "rclcpp_ipb_to_subscription", "rclcpp_buffer_to_ipb",
    "rclcpp_construct_ring_buffer", "rclcpp_ring_buffer_enqueue", "rclcpp_ring_buffer_dequeue",
    "rclcpp_ring_buffer_clear",
)  # fmt: skip
_SINCE_HUMBLE = (
    "rmw_publisher_init", "rmw_publish", "rmw_subscription_init", "rmw_take", "rcl_take",
    "rclcpp_take", "rclcpp_executor_get_next_ready", "rclcpp_executor_wait_for_work",
    "rclcpp_executor_execute",
)  # fmt: skip
WITHOUT = {
    "iron": _SINCE_KILTED,
    "humble": _SINCE_KILTED + _SINCE_IRON,
    "galactic": _SINCE_KILTED + _SINCE_IRON + _SINCE_HUMBLE,
}
"""Events that each distribution does not have."""
LOGS = {
    "timers.csv": {"first_ns": "start_realtime_ns", "last_ns": "end_realtime_ns"},
    "calls.csv": {
        "service": "service",
        "sent_ns": "request(_sent)?_realtime_ns",
        "called_ns": "(service_)?callback_realtime_ns",
        "received_ns": "response(_received)?_realtime_ns",
    },
    # "goal_response" is logged by the client, "accepted" by the server.
    "goals.csv": {
        "action": "action",
        "sent_ns": "(goal_sent|send)_realtime_ns",
        "accepted_ns": "(goal_response|accepted)_realtime_ns",
        "received_ns": "result(_received)?_realtime_ns",
        "feedback": "feedback_count|action",
    },
    "transitions.csv": {
        "node": "node",
        "state": "resulting_state",
        "called_ns": "start_realtime_ns",
        "returned_ns": "end_realtime_ns",
    },
    "samples.csv": {
        "sent_ns": "a_publish_realtime_ns",
        "b_ns": "c_b_start_realtime_ns",
        "a2_ns": "c_a2_start_realtime_ns",
        "c_ns": "c_publish_realtime_ns",
        "received_ns": "sink_start_realtime_ns",
    },
}
"""What is read of each log but that of messages, and of which column; if several fit, the last."""
_FILES = ("messages.csv", "messages_publisher.csv", *LOGS)
_WAY = ["topic", "publisher", "subscription"]
_INSIDE = ("rclcpp_intra_publish", "rclcpp_ring_buffer_enqueue")
_COPY_NS = 50_000_000
"""A message passed as unique_ptr is copied after callback_start; 10 MB take 7 ms."""
_CHAIN = (
    ("/a", "a_publish_realtime_ns", "b_start_realtime_ns"),
    ("/b", "b_publish_realtime_ns", "c_b_start_realtime_ns"),
    ("/a2", "a2_publish_realtime_ns", "c_a2_start_realtime_ns"),
    ("/c", "c_publish_realtime_ns", "sink_start_realtime_ns"),
)


@dataclass
class Verdict:
    """The findings of the comparison of one recording.

    Attributes
    ----------
    logged, received
        Messages in the log, and how many of them were received.
    outcomes
        Number of rows by outcome.
    problems
        One line per disagreement.
    longer_ns
        Logged latency minus the trace's, per delivered message.
    """

    logged: int
    received: int
    outcomes: dict[str, int]
    problems: list[str] = field(default_factory=list)
    longer_ns: pl.Series = field(default_factory=lambda: pl.Series([], dtype=pl.Int64))


def log_of(run: Path, name: str) -> pl.DataFrame | None:
    """Read a log that a run's workload left in its folder or in ``native/``; None if absent."""
    logs = (path for path in (run / name, run / "native" / name) if path.is_file())
    return next(map(pl.read_csv, logs), None)


def truth_of(run: Path) -> pl.DataFrame | None:
    """Return logged messages: topic, sent_ns, received_ns (null if never); None if there are none.

    Where the log distinguishes them, also publisher and subscription, counted from 0 in each topic.
    """
    frame = log_of(run, "messages.csv")
    if frame is None:
        frame = _joined_logs(run)
    if frame is not None:
        ways = [
            # A subscription that did not receive a message leaves the name empty.
            (pl.col(name).fill_null(pl.col(name).min()).rank("dense").over("topic") - 1)
            .cast(pl.Int64)
            .fill_null(0)
            .alias(name)
            for name in ("publisher", "subscription")
            if name in frame.columns
        ]
        return frame.select(
            "topic",
            pl.col("publish_realtime_ns").cast(pl.Int64).alias("sent_ns"),
            pl.col("callback_realtime_ns").cast(pl.Int64).alias("received_ns"),
            *ways,
        )
    samples = log_of(run, "samples.csv")
    if samples is None:
        return None
    return pl.concat(
        samples.select(
            pl.lit(topic).alias("topic"),
            pl.col(sent).cast(pl.Int64).alias("sent_ns"),
            pl.col(received).cast(pl.Int64).alias("received_ns"),
        ).drop_nulls("sent_ns")
        for topic, sent, received in _CHAIN
        if sent in samples.columns
    )


def _joined_logs(run: Path) -> pl.DataFrame | None:
    """Join the logs of both sides: a row per message and subscription of its topic."""
    key = ["topic", "publisher", "sequence"]
    sent, received = (log_of(run, f"messages_{side}.csv") for side in ("publisher", "subscriber"))
    if sent is None or received is None:
        return None
    subscriptions = received.select("topic", "subscription").unique()
    published = sent.select(*key, "publish_realtime_ns")
    return published.join(subscriptions, on="topic", how="left").join(
        received.select(*key, "subscription", "callback_realtime_ns"),
        on=[*key, "subscription"],
        how="left",
    )


def logged_of(run: Path, name: str) -> pl.DataFrame | None:
    """Return what `LOGS` says of one of a run's logs; None if the run has none."""
    frame = log_of(run, name)
    if frame is None:
        return None
    columns = {
        column: max(c for c in frame.columns if re.fullmatch(pattern, c))
        for column, pattern in LOGS[name].items()
    }
    return frame.select(pl.col(of).alias(column) for column, of in columns.items()).with_columns(
        cs.ends_with("_ns").cast(pl.Int64),
        cs.by_name("feedback", require_all=False).cast(pl.Int64, strict=False),
    )


def compare_timers(instances: pl.DataFrame, truth: pl.DataFrame) -> Verdict:
    """Hold the timer callbacks of a callback_instances table against a log."""
    return _compare_executions(instances.filter(pl.col("kind") == "timer"), truth)


def compare_unowned(instances: pl.DataFrame, calls: pl.DataFrame) -> Verdict:
    """Hold the executions of callbacks without a known owner against logged calls.

    Callbacks that served no call are ignored: the log need not contain everything that ran.
    """
    unowned = instances.filter(pl.col("kind").is_null()).sort("start_ns")
    called = pl.col("called_ns")
    truth = calls.drop_nulls("called_ns").select(called.alias("first_ns"), called.alias("last_ns"))
    served = truth.sort("first_ns").join_asof(unowned, left_on="first_ns", right_on="start_ns")
    served_by = served["callback_id"].implode()
    rows = unowned.filter(pl.col("callback_id").is_in(served_by, nulls_equal=True))
    return _compare_executions(rows, truth)


def _compare_executions(rows: pl.DataFrame, truth: pl.DataFrame) -> Verdict:
    """Hold rows of callback_instances against logged spans: first_ns, last_ns.

    One thread's executions do not overlap, so they are matched by time.
    """
    rows = rows.sort("start_ns")
    verdict = Verdict(logged=truth.height, received=truth.height, outcomes={"run": rows.height})
    pairs = truth.sort("first_ns").join_asof(
        rows.select("start_ns", "end_ns", "callback_instance_id"),
        left_on="first_ns",
        right_on="start_ns",
        strategy="backward",
    )
    outside = pl.col("start_ns").is_null() | (pl.col("last_ns") > pl.col("end_ns"))
    _count(verdict, pairs.filter(outside), "logged, but not in the table")
    taken = pairs.drop_nulls("callback_instance_id")["callback_instance_id"]
    _count(verdict, pairs.filter(taken.is_duplicated()), "more than one in a row")
    invented = rows.filter(~pl.col("callback_instance_id").is_in(taken.to_list()))
    _count(verdict, invented, "in the table, but not logged")
    verdict.longer_ns = pairs.select(
        (pl.col("last_ns") - pl.col("first_ns")) - (pl.col("end_ns") - pl.col("start_ns"))
    ).to_series().drop_nulls()  # fmt: skip
    return verdict


def compare_calls(calls: pl.DataFrame, truth: pl.DataFrame) -> Verdict:
    """Hold a service_calls table against logged calls, in the order in which they were made."""
    rows = calls.filter(pl.col("service").is_in(truth["service"].unique().to_list()))
    whole = rows["request_sent_ns"].null_count() < rows.height
    first = "request_sent_ns" if whole else "callback_start_ns"
    states = pl.when(pl.col("callback_start_ns").is_not_null()).then(pl.lit("served"))
    states = states.otherwise(pl.lit("not served"))
    verdict = _new_verdict(truth, rows, states)
    logged = (truth if whole else truth.drop_nulls("called_ns")).sort(
        "sent_ns" if whole else "called_ns"
    )
    pairs = _in_order(verdict, logged, rows.sort(first), ["service"], first)
    pairs = pairs.drop_nulls(["sent_ns", first])
    served = pl.col("callback_start_ns").is_not_null()
    _count(verdict, pairs.filter(pl.col("called_ns").is_not_null() != served), "served or not?")
    late = pl.col("called_ns") - pl.col("callback_start_ns")
    _count(verdict, pairs.filter((late < -100_000) | (late > 10**9)), "out of step with the log")
    longer = late
    if whole:
        answered = pl.col("response_taken_ns").is_not_null()
        wrong = pairs.filter(pl.col("received_ns").is_not_null() & ~answered)
        _count(verdict, wrong, "answered, but no response in the table")
        begin = begin_of("request_called_ns", "request_sent_ns", "request_taken_ns")
        early = pl.col("request_called_ns") < pl.col("sent_ns") - 100_000
        _count(verdict, pairs.filter(early), "called before the log says so")
        late = pl.col("request_called_ns") > pl.min_horizontal("request_sent_ns", "called_ns")
        _count(verdict, pairs.filter(late), "called after it was sent or served")
        longer = pl.col("received_ns") - pl.col("sent_ns") - (pl.col("response_taken_ns") - begin)
    verdict.longer_ns = pairs.select(longer).to_series().drop_nulls()
    return verdict


def compare_goals(goals: pl.DataFrame, truth: pl.DataFrame) -> Verdict:
    """Hold an action_goals table against logged goals, in the order in which they were sent."""
    rows = goals.filter(pl.col("action").is_in(truth["action"].unique().to_list()))
    received = pl.col("received_ns").is_not_null()
    ended = pl.col("result_taken_ns").is_not_null()
    states = pl.when(ended).then(pl.lit("with result")).otherwise(pl.lit("without"))
    verdict = _new_verdict(truth, rows, states)
    sent = truth.sort("sent_ns")
    pairs = _in_order(verdict, sent, rows.sort("goal_sent_ns"), ["action"], "action_goal_id")
    pairs = pairs.drop_nulls(["sent_ns", "action_goal_id"])
    lag = pl.col("goal_sent_ns") - pl.col("sent_ns")
    _count(verdict, pairs.filter((lag < -100_000) | (lag > 10**9)), "out of step with the log")
    _count(verdict, pairs.filter(received & ~ended), "ended, but no result in the table")
    before = pl.col("goal_response_taken_ns") > pl.col("accepted_ns")
    _count(verdict, pairs.filter(before), "accepted before the response")
    # A client drops feedback that arrives before it knows the goal's handle.
    known = (pl.col("accepted_ns") < pl.col("first_feedback_ns")).fill_null(value=False)
    more, unequal = (
        (pl.col("feedback") > pl.col("feedback_count")),
        pl.col("feedback").ne(pl.col("feedback_count")),
    )
    _count(
        verdict, pairs.filter(received & (more | (known & unequal))), "other feedback than logged"
    )
    verdict.longer_ns = pairs.select(
        pl.col("received_ns") - pl.col("sent_ns") - pl.col("total_ns")
    ).to_series().drop_nulls()  # fmt: skip
    return verdict


@dataclass(frozen=True)
class InMemory:
    """Tables of one run, with the interface that analyses expect."""

    tables: dict[str, pl.DataFrame]

    def table(self, name: str) -> pl.LazyFrame:
        return self.tables[name].lazy().with_columns(run=pl.lit(""))


CHAIN = Chain.of("/source -> /a -> /node_b -> /b -> /node_c -> /c -> /sink")
SYNC = tuple(Link("partial_sync", "/node_c", topic, "/c") for topic in ("/b", "/a2"))


def along_the_chain(samples: pl.DataFrame, *, linked: bool) -> pl.DataFrame:
    """Return which publication each sample leads to, by the log alone: sent_ns and received_ns.

    Node C publishes both messages of a sample in the callback of the input that arrives last.
    """
    if linked:
        return samples.select("sent_ns", "received_ns").drop_nulls()
    return samples.filter(pl.col("b_ns") > pl.col("a2_ns")).select("sent_ns", "received_ns")


def compare_chain(tables: dict[str, pl.DataFrame], truth: pl.DataFrame, *, linked: bool) -> Verdict:
    """Hold the instances of the workload's chain against its log."""
    chain = chain_instances(InMemory(tables), CHAIN, SYNC if linked else ())
    logged = along_the_chain(truth, linked=linked)
    verdict = Verdict(
        logged=truth.height,
        received=logged.height,
        outcomes=_outcomes(chain.instances, pl.col("outcome")),
    )
    last = chain.hops.filter((pl.col("hop") == 2) & (pl.col("part") == "callback"))
    seen = chain.complete.join(
        last.select("instance", pl.col("begin_ns").alias("sink_ns")), on="instance"
    )
    place = pl.int_range(pl.len()).alias("place")
    pairs = logged.sort("sent_ns").with_columns(place).join(
        seen.sort("begin_ns").with_columns(place), on="place", how="full"
    )  # fmt: skip
    _count(verdict, pairs.filter(pl.col("instance").is_null()), "logged, but no instance")
    _count(verdict, pairs.filter(pl.col("sent_ns").is_null()), "instances, but not logged")
    pairs = pairs.drop_nulls(["sent_ns", "instance"])
    for column, logged_column in (("begin_ns", "sent_ns"), ("sink_ns", "received_ns")):
        far = (pl.col(column) - pl.col(logged_column)).abs() > 500_000
        sure = pl.col("match") == "exact"
        _count(verdict, pairs.filter(far & sure), f"{column} out of step with the log")
    sums = chain.hops.group_by("instance").agg(pl.col("duration_ns").sum())
    added = chain.complete.join(sums, on="instance", how="left")
    wrong = added.filter(pl.col("latency_ns").ne_missing(pl.col("duration_ns")))
    _count(verdict, wrong, "instances whose parts do not add up")
    verdict.longer_ns = pairs.select(
        (pl.col("received_ns") - pl.col("sent_ns")) - (pl.col("sink_ns") - pl.col("begin_ns"))
    ).to_series()
    return verdict


def compare_transitions(states: pl.DataFrame, truth: pl.DataFrame) -> Verdict:
    """Hold a lifecycle_states table against logged transitions, in order.

    Each transition makes two rows: the transition state, and the state that it led to.
    """
    rows = states.filter(pl.col("node").is_in(truth["node"].unique().to_list()))
    verdict = Verdict(
        logged=truth.height,
        received=truth.height,
        outcomes={"states": rows.height},
    )
    order = pl.int_range(pl.len()).over("node").alias("place")
    moved = rows.filter(pl.int_range(pl.len()).over("node") > 0).sort("begin_ns")
    through = moved.with_columns(order).select(
        "node", "state", "begin_ns", pl.col("place") // 2, (pl.col("place") % 2).alias("half")
    )
    steps = through.filter(half=0).join(through.filter(half=1), on=["node", "place"], how="full",
                                        suffix="_reached", coalesce=True)  # fmt: skip
    pairs = truth.sort("called_ns").with_columns(order).join(
        steps, on=["node", "place"], how="full", suffix="_through", coalesce=True
    )  # fmt: skip
    _count(verdict, pairs.filter(pl.col("begin_ns_reached").is_null()), "logged, but not there")
    _count(verdict, pairs.filter(pl.col("called_ns").is_null()), "in the table, but not logged")
    pairs = pairs.drop_nulls(["called_ns", "begin_ns_reached"])
    differs = pl.col("state") != pl.col("state_reached")
    _count(verdict, pairs.filter(differs), "led to another state")
    outside = (pl.col("begin_ns") < pl.col("called_ns")) | (
        pl.col("begin_ns_reached") > pl.col("returned_ns")
    )
    _count(verdict, pairs.filter(outside), "not within the logged times")
    traced = pl.col("begin_ns_reached") - pl.col("begin_ns")
    verdict.longer_ns = pairs.select(
        pl.col("returned_ns") - pl.col("called_ns") - traced
    ).to_series()
    return verdict


def compare(messages: pl.DataFrame, truth: pl.DataFrame) -> Verdict:
    """Hold a messages table against logged messages, in the order in which they were sent."""
    topics = truth["topic"].unique().to_list()
    rows = messages.filter(pl.col("topic").is_in(topics))
    verdict = _new_verdict(truth, rows, pl.col("outcome"))
    columns = [name for name in _WAY if name in truth.columns]
    # Ids grow in order of creation, as the log's numbers do; subscriptions in another process than
    # the publisher's come last.
    elsewhere = (pl.col("publisher_vpid") != pl.col("subscription_vpid")).fill_null(value=False)
    last = {"publisher": pl.lit(0), "subscription": elsewhere.cast(pl.Int64) * 2**40}
    rows = rows.with_columns(
        ((pl.col(f"{name}_id") + last[name]).rank("dense").over("topic") - 1)
        .cast(pl.Int64)
        .fill_null(0)
        .alias(name)
        for name in columns[1:]
    )
    sent = truth.sort("sent_ns", maintain_order=True)
    seen = rows.sort("publish_ns", maintain_order=True)
    pairs = _in_order(verdict, sent, seen, columns, "message_id")
    pairs = pairs.drop_nulls(["sent_ns", "message_id"])
    key = [
        name for name in ("message_id", "subscription") if name == "message_id" or name in columns
    ]
    _count(verdict, rows.filter(pl.struct(key).is_duplicated()), "more than one row")
    # Logged just before publish(): an earlier row, or one over a second later, is another message.
    lag = pl.col("publish_ns") - pl.col("sent_ns")
    _count(verdict, pairs.filter((lag < -100_000) | (lag > 10**9)), "out of step with the log")
    received = pl.col("received_ns").is_not_null()
    delivered = pl.col("outcome") == "delivered"
    _count(verdict, pairs.filter(received & ~delivered), "received, but not delivered")
    missed = ~received & ~pl.col("outcome").is_in(NOT_RECEIVED)
    _count(verdict, pairs.filter(missed), "not received, but not lost either")
    logged = pl.col("received_ns") - pl.col("sent_ns")
    verdict.longer_ns = (
        pairs.filter(received & delivered).select(logged - pl.col("latency_ns")).to_series()
    )
    return verdict


def as_recorded_by(distro: str, events: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """Return the events that a distribution would have recorded of the same run."""
    unrecorded = {f"ros2:{name}" for name in WITHOUT[distro]}
    frames = {name: frame for name, frame in events.items() if name not in unrecorded}
    sent = frames.get("ros2:rmw_publish")
    if sent is not None and "timestamp" in sent.columns:
        # Just before the stamp: those distributions emit the event first.
        before = pl.min_horizontal("time_ns", pl.col("timestamp") - 1)
        sent = sent.with_columns(before.cast(sent["time_ns"].dtype).alias("time_ns"))
        frames["ros2:rmw_publish"] = sent.drop("timestamp", "rmw_publisher_handle").sort("time_ns")
    above, below = frames.get("ros2:rclcpp_publish"), frames.get("ros2:rcl_publish")
    if distro == "galactic" and above is not None and below is not None:
        handles = below.select("time_ns", "vtid", "publisher_handle").sort("time_ns")
        frames["ros2:rclcpp_publish"] = above.drop("publisher_handle", strict=False).join_asof(
            handles, on="time_ns", by="vtid", strategy="forward", check_sortedness=False
        )
    return frames


def compare_incomplete(messages: pl.DataFrame, truth: pl.DataFrame) -> Verdict:
    """Hold a messages table that may be incomplete against logged messages."""
    topics = truth["topic"].unique().to_list()
    rows = messages.filter(pl.col("topic").is_in(topics) & pl.col("publish_ns").is_not_null())
    verdict = _new_verdict(truth, rows, pl.col("outcome"))
    sent = truth.sort("sent_ns", maintain_order=True)
    seen = rows.sort("publish_ns", maintain_order=True)
    pairs = _in_order(verdict, sent, seen, ["topic"], "message_id")
    received, outcome = pl.col("received_ns").is_not_null(), pl.col("outcome")
    _count(verdict, pairs.filter(received & outcome.is_in(MISSED)), "received, but said to be lost")
    _count(verdict, pairs.filter(~received & (outcome == "delivered")), "delivered, never received")
    late = pl.col("received_ns") - pl.col("callback_start_ns")
    _count(verdict, pairs.filter((late < -(10**6)) | (late > _COPY_NS)), "of another callback")
    missed = rows.filter(outcome.is_in(MISSED)).height
    unknown = rows.filter(outcome == "unknown").height
    logged = truth["received_ns"].null_count()
    if not missed <= logged <= missed + unknown:
        verdict.problems.append(f"{logged} were lost, but {missed} to {missed + unknown} are told")
    start = pl.col("received_ns") - pl.col("sent_ns") - pl.col("latency_ns")
    verdict.longer_ns = pairs.filter(received).select(start).to_series().drop_nulls()
    return verdict


def _new_verdict(truth: pl.DataFrame, rows: pl.DataFrame, states: pl.Expr) -> Verdict:
    """Return a verdict with the logged and received messages and the states of a table's rows."""
    received = truth["received_ns"].count()
    return Verdict(truth.height, received, _outcomes(rows, states))


def _outcomes(rows: pl.DataFrame, state: pl.Expr) -> dict[str, int]:
    return dict(rows.group_by(state.alias("state")).len().sort("state").iter_rows())


def _in_order(
    verdict: Verdict, logged: pl.DataFrame, rows: pl.DataFrame, columns: Sequence[str], key: str
) -> pl.DataFrame:
    """Pair log entries with table rows by their order within `columns`; both are sorted.

    Entries and rows without a partner are counted; a row is in the table if `key` is not null.
    """
    order = pl.int_range(pl.len()).over(columns).alias("place")
    seen = rows.with_columns(order)
    pairs = logged.with_columns(order).join(seen, on=[*columns, "place"], how="full", coalesce=True)
    _count(verdict, pairs.filter(pl.col(key).is_null()), "logged, but not in the table")
    _count(verdict, pairs.filter(pl.col("sent_ns").is_null()), "in the table, but not logged")
    return pairs


def _count(verdict: Verdict, rows: pl.DataFrame, problem: str) -> None:
    if rows.height:
        verdict.problems.append(f"{rows.height} {problem}")


def recordings(folders: list[Path]) -> Iterator[Path]:
    """Yield the run folders with ground truth, in path order."""
    for folder in folders:
        runs = {
            file.parent.parent if file.parent.name == "native" else file.parent
            for name in _FILES
            for file in folder.rglob(name)
        }
        yield from sorted(runs)


def _figures(longer: pl.Series) -> str:
    if longer.is_empty():
        return "-"
    quantile = [longer.quantile(p, interpolation="lower") or 0 for p in (0, 0.5, 0.99, 1)]
    return " ".join(f"{value / 1e3:10.1f}" for value in quantile)


def verdicts_of(
    run: Path, tables: dict[str, pl.DataFrame], recorded: set[str], *, whole: bool = True
) -> Iterator[tuple[str, Verdict]]:
    """Yield the verdict of each file of the run's ground truth on its table.

    Parameters
    ----------
    whole
        False for events rewritten to what an older distribution would have recorded.
    """
    called = "ros2:callback_start"
    named = "ros2:rcl_service_init" in recorded
    calls = (compare_calls, "service_calls") if named else (compare_unowned, "callback_instances")
    logs = {name: logged_of(run, name) for name in LOGS}
    checks = (
        ("messages", truth_of(run), compare if whole else compare_incomplete, "messages", called),
        (
            *("calls" if named else "calls, of services not recorded", logs["calls.csv"]),
            *(*calls, called),
        ),
        ("goals", logs["goals.csv"], compare_goals, "action_goals", "ros2:rmw_send_request"),
        (
            *("transitions", logs["transitions.csv"], compare_transitions, "lifecycle_states"),
            "ros2:rcl_lifecycle_transition",
        ),
        (
            *("timers", logs["timers.csv"], compare_timers, "callback_instances"),
            "ros2:rclcpp_timer_link_node",
        ),
    )
    for kind, logged, check, table, needed in checks:
        if logged is not None and needed not in recorded:
            print(f"{run.parent.name}/{run.name}\n    {kind}: {needed} was not recorded")
        elif logged is not None:
            yield kind, check(tables[table], logged)
    if whole and (samples := logs["samples.csv"]) is not None:
        yield "chain, by callback", compare_chain(tables, samples, linked=False)
        yield "chain, by link", compare_chain(tables, samples, linked=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="*", type=Path, help="default: the samples")
    parser.add_argument("--distro", choices=list(WITHOUT), help="rewrite to what it records")
    arguments = parser.parse_args()
    failed = checked = 0
    head = "logged latency minus the trace's, us"
    print(f"{head:68} {'least':>10} {'median':>10} {'P99':>10} {'most':>10}")
    for run in recordings(arguments.folder or [SAMPLES]):
        try:
            raw = read_raw(Recording.at(run))
        except RoslensError as error:
            print(f"{run.name}: {error}")
            failed += 1
            continue
        distro, events = arguments.distro, raw.events
        if distro is not None:
            inside = any(events.get(f"ros2:{n}", pl.DataFrame()).height for n in _INSIDE)
            if inside and _INSIDE[0] in WITHOUT[distro]:
                print(f"{run.parent.name}/{run.name}\n    messages within a process: not recorded")
                continue
            events = as_recorded_by(distro, events)
        tables = build_tables(events, raw.losses, raw.warnings)
        verdicts = list(verdicts_of(run, tables, set(events), whole=distro is None))
        if not verdicts:
            continue
        gaps = tables["health"].filter(pl.col("kind") == "undeclared_gaps")["count"].sum()
        if gaps:
            verdicts[0][1].problems.append(f"events seem to be missing in {gaps} places")
        checked += 1
        failed += any(verdict.problems for _, verdict in verdicts)
        print(f"{run.parent.name}/{run.name}")
        for kind, verdict in verdicts:
            outcomes = ", ".join(f"{count} {name}" for name, count in verdict.outcomes.items())
            text = f"{kind}: {verdict.logged} logged, {verdict.received} received; {outcomes}"
            print(f"    {text:64} {_figures(verdict.longer_ns)}")
            for problem in verdict.problems:
                print(f"    FAILED: {problem}")
    print(f"{checked} recordings checked, {failed} failed")
    return 1 if failed or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
