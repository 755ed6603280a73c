"""Find the goals of actions, from the services and topics that an action consists of.

A goal is a call of ``send_goal``. ROS 2 does not trace its id; where a library of ours recorded it,
the id determines the goal's result, cancel request and outcome. Otherwise its result comes from a
call of ``get_result``, which belongs to the goal accepted last before it, or, where that assigns a
goal twice, to the goals in order. Status and feedback are attributed only where a server has one
goal at a time. Where events may be missing meanwhile, nothing is concluded from absence and order.
"""

from __future__ import annotations

from itertools import combinations

import polars as pl

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.goal_ids import goal_ends, with_goal_ids
from roslens.collectors.ros2.joins import join_next_in_time
from roslens.collectors.ros2.losses import gaps_of
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.services import begin_of
from roslens.collectors.ros2.types import I64, TEXT, empty_table

_NAME = r"^(.*)/_action/(send_goal|get_result|cancel_goal)$"
_TOPIC = r"^(.*)/_action/(feedback|status)$"
_TIMES = {
    "request_called_ns": ("goal_called_ns", "result_called_ns"),
    "request_sent_ns": ("goal_sent_ns", "result_requested_ns"),
    "request_taken_ns": ("goal_taken_ns", "result_request_taken_ns"),
    "response_sent_ns": ("goal_response_sent_ns", "result_sent_ns"),
    "response_taken_ns": ("goal_response_taken_ns", "result_taken_ns"),
}
_SERVER = ["action", "server"]
_WAY = [*_SERVER, "client"]
_FOREVER = 2**62
_ANYWHERE = ""
"""The host of a gap whose host is unknown."""


def find_action_goals(
    events: Events,
    objects: Objects,
    service_calls: pl.DataFrame,
    publications: pl.DataFrame,
    gaps: pl.DataFrame,
) -> pl.DataFrame:
    """Return one row per goal sent, and per goal accepted without its request being traced.

    Columns are those of the table, and proc. `gaps` has host (null if unknown), begin_ns and end_ns
    of the times in which events may be missing.
    """
    calls = with_goal_ids(_calls(objects, service_calls, events.places), events, objects)
    status, feedback = (_status_messages(publications, topic) for topic in ("status", "feedback"))
    goals = _part(calls, "send_goal", 0).with_columns(
        pl.coalesce("goal_response_taken_ns", "goal_response_sent_ns").alias("answered_ns")
    )
    goals = goals.sort(
        pl.coalesce("goal_sent_ns", "goal_taken_ns", "goal_response_sent_ns"), maintain_order=True
    ).with_row_index("action_goal_id")
    goals = goals.with_columns(pl.col("action_goal_id").cast(I64))
    gaps = gaps_of(gaps.with_columns(pl.col("host").fill_null(_ANYWHERE)))
    goals = _with_hosts(goals, gaps["host"].unique())
    goals = _with_rejected(goals, status, gaps)
    goals = _with_result(goals, _part(calls, "get_result", 1))
    goals = _without_doubtful(_with_single_goals(goals), gaps)
    goals = _with_status(goals, status)
    goals = _with_feedback(goals, feedback, objects)
    goals = _with_cancel(goals, _part(calls, "cancel_goal", 0))
    goals = _with_ends(goals, goal_ends(events, objects), gaps)
    goal_begin = begin_of("goal_called_ns", "goal_sent_ns", "goal_taken_ns")
    result_begin = begin_of("result_called_ns", "result_requested_ns", "result_request_taken_ns")
    return goals.with_columns(
        (pl.col("goal_response_taken_ns") - goal_begin).alias("accept_ns"),
        (pl.col("finished_ns") - pl.col("goal_response_sent_ns")).alias("execute_ns"),
        (pl.col("result_taken_ns") - result_begin).alias("result_ns"),
        (pl.col("result_taken_ns") - goal_begin).alias("total_ns"),
    )


def untold_goals(objects: Objects, publications: pl.DataFrame) -> pl.DataFrame:
    """Return per ``action`` how many status and feedback messages were published."""
    services = objects.services.select(pl.col("service").cast(TEXT).str.extract(_NAME, 1))
    actions = services.unique().drop_nulls().rename({"service": "action"}).sort("action")
    for topic in ("status", "feedback"):
        counts = _status_messages(publications, topic).group_by("action").len(topic)
        actions = actions.join(counts, on="action", how="left", maintain_order="left")
    return actions.with_columns(pl.col("status", "feedback").fill_null(0))


def _calls(objects: Objects, service_calls: pl.DataFrame, places: pl.DataFrame) -> pl.DataFrame:
    """Return calls of action services, with texts that identify the action client and server.

    The result also has client_host and server_host.

    The three services of one action client are three clients: those of one node and action that
    were created at the same position in order belong together.
    """
    calls = service_calls.with_columns(
        pl.col("service").cast(TEXT).str.extract(_NAME, 1).alias("action"),
        pl.col("service").cast(TEXT).str.extract(_NAME, 2).alias("part"),
    ).filter(pl.col("action").is_not_null())
    for side, objects_of, number in (
        ("client", objects.clients, "client_id"),
        ("server", objects.services, "service_id"),
    ):
        name = pl.format("{} {} {}", "proc", pl.col("node").fill_null("?"), "place").alias(side)
        ends = _placed(objects_of, number, "service")
        host = pl.lit(places["host"].cast(TEXT)).gather("proc").alias(f"{side}_host")
        ends = ends.select(number, name, host)
        calls = calls.join(ends, on=number, how="left", maintain_order="left")
    # An untraced side counts as a single one, as nothing distinguishes several.
    return calls.with_columns(pl.col("client", "server").fill_null("?"))


def _placed(ends: pl.DataFrame, number: str, name: str) -> pl.DataFrame:
    """Add ``place``, the position in order among those with one node and name."""
    place = pl.int_range(pl.len()).over("proc", "node", name).alias("place")
    return ends.sort(number).with_columns(place)


def find_actions(objects: Objects) -> pl.DataFrame:
    """Return servers and clients of actions; columns of the table ``actions``, and proc."""
    if not objects.has_actions:
        return empty_table("actions")
    ends = [
        _action_ends(objects.services, objects.publishers, "server", "service", "publisher"),
        _action_ends(objects.clients, objects.subscriptions, "client", "client", "subscription"),
    ]
    actions = pl.concat(ends).sort("created_ns", "proc", "action", "role", maintain_order=True)
    return actions.with_row_index("action_id").with_columns(pl.col("action_id").cast(I64))


def _action_ends(
    services: pl.DataFrame, topics: pl.DataFrame, role: str, service: str, endpoint: str
) -> pl.DataFrame:
    """Return the ends of one role: endpoints of equal node, action and position in order."""
    names = ("send_goal", "cancel_goal", "get_result", "feedback", "status")
    parts = [
        _placed(frame, f"{kind}_id", name).select(
            *("proc", "node_id", "node", "place", "created_ns", "ended_ns"),
            pl.col(f"{kind}_id").alias("number"),
            pl.col(name).cast(TEXT).str.extract(pattern, 1).alias("action"),
            pl.col(name).cast(TEXT).str.extract(pattern, 2).alias("part"),
        )
        for frame, kind, name, pattern in (
            (services, service, "service", _NAME),
            (topics, endpoint, "topic", _TOPIC),
        )
    ]
    key = ["proc", "node", "action", "place"]
    part = pl.col("part")
    return (
        pl.concat(parts)
        .filter(pl.col("action").is_not_null())
        .group_by(key, maintain_order=True)
        .agg(
            pl.col("node_id").first(),
            *(pl.col("number").filter(part == name).first().alias(f"{name}_id") for name in names),
            pl.col("created_ns").min(),
            pl.col("ended_ns").filter(~part.is_in(["feedback", "status"])).min(),
        )
        # An end that only subscribes to feedback or status is no client.
        .filter(pl.any_horizontal(pl.col("send_goal_id", "get_result_id").is_not_null()))
        .with_columns(pl.lit(role).alias("role"))
    )


def _part(calls: pl.DataFrame, part: str, index: int) -> pl.DataFrame:
    renamed = {name: names[index] for name, names in _TIMES.items()}
    columns = [
        *_WAY, "proc", "client_node", "server_node", "client_host", "server_host",
        "sequence_number", "client_callback_instance_id", "goal_id",
    ]  # fmt: skip
    return calls.filter(part=part).select(*columns, *_TIMES).rename(renamed)


def _status_messages(publications: pl.DataFrame, topic: str) -> pl.DataFrame:
    """Return status or feedback messages in order: action, server_node, told_ns, nth."""
    key = ["action", "server_node"]
    return (
        publications.filter(pl.col("topic").cat.ends_with(f"/_action/{topic}"))
        .select(
            pl.col("topic").cast(TEXT).str.extract(_TOPIC, 1).alias("action"),
            pl.col("node").alias("server_node"),
            pl.col("publish_ns").alias("told_ns"),
        )
        .sort("told_ns")
        .with_columns((pl.int_range(pl.len()) + 1).over(key).alias("nth"))
    )


def _with_messages(goals: pl.DataFrame, messages: pl.DataFrame, end: str) -> pl.DataFrame:
    """Add numbers of messages ``before`` a goal and ``upto`` its end, and the last's time."""
    key = ["action", "server_node"]
    for moment, nth, time in (("goal_taken_ns", "before", "_"), (end, "upto", "last_ns")):
        told = messages.rename({"nth": nth, "told_ns": time})
        reached = goals.filter(pl.col(moment).is_not_null()).select("action_goal_id", *key, moment)
        last = join_next_in_time(reached, told, moment, time, key)
        last = last.select("action_goal_id", pl.col(nth).fill_null(0), time)
        goals = goals.join(last, on="action_goal_id", how="left", maintain_order="left")
    return goals.drop("_")


def _with_hosts(goals: pl.DataFrame, everywhere: pl.Series) -> pl.DataFrame:
    """Add ``hosts``, on which a gap affects a goal: those of its server and of all its clients.

    The server's other goals decide whether it was alone. If a host is unknown, any gap counts.
    """
    ends = pl.col("client_host").append(pl.col("server_host"))
    hosts = goals.group_by(_SERVER).agg(
        ends.unique().alias("hosts"), ends.is_null().any().alias("any")
    )
    hosts = hosts.select(
        *_SERVER,
        pl.when("any")
        .then(pl.lit(everywhere.implode()).first())
        .otherwise(pl.concat_list("hosts", pl.lit(_ANYWHERE)))
        .alias("hosts"),
    )
    return goals.join(hosts, on=_SERVER, how="left", maintain_order="left")


def _in_gap(goals: pl.DataFrame, gaps: pl.DataFrame, begin: pl.Expr, until: pl.Expr) -> pl.Series:
    """Return for each goal whether events may be missing between two times."""
    host, key = pl.col("hosts").alias("host"), "action_goal_id"
    spans = goals.select(key, host, begin.alias("from_ns"), until.alias("until_ns"))
    spans = spans.drop_nulls("from_ns").explode("host")
    joined = join_next_in_time(spans, gaps, "from_ns", "gap_end_ns", "host", strategy="forward")
    doubted = joined.filter(pl.col("gap_begin_ns") <= pl.col("until_ns"))[key]
    return goals[key].is_in(doubted.implode())


def _without_doubtful(goals: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Withdraw conclusions from order and absence for goals during which events may be missing."""
    begin = pl.coalesce("goal_sent_ns", "goal_taken_ns", "goal_response_sent_ns")
    until = pl.coalesce("result_taken_ns", "result_sent_ns", pl.lit(_FOREVER))
    doubted = _in_gap(goals, gaps, begin, until)
    doubted |= goals.select(_is_incomplete()).to_series() & _in_gap(
        goals, gaps, pl.lit(0), pl.lit(_FOREVER)
    )
    return goals.with_columns(
        pl.when(~doubted).then("alone").alias("alone"),
        pl.when(doubted & pl.col("match").is_not_null())
        .then(pl.lit("approximate"))
        .otherwise("match")
        .alias("match"),
    )


def _is_incomplete() -> pl.Expr:
    """Return whether a side recorded a later time of a goal, but not an earlier one."""
    orders = (
        ("goal_sent_ns", "goal_response_taken_ns", "result_requested_ns", "result_taken_ns"),
        ("goal_taken_ns", "goal_response_sent_ns", "result_sent_ns"),
        ("result_request_taken_ns", "result_sent_ns"),
    )
    pairs = [pair for order in orders for pair in combinations(order, 2)]
    return pl.any_horizontal(
        pl.col(early).is_null() & pl.col(late).is_not_null() for early, late in pairs
    )


def _with_rejected(goals: pl.DataFrame, status: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Add whether a goal was rejected: no status until the next goal, though it is published."""
    following = pl.col("goal_taken_ns").shift(-1).over(_SERVER, order_by="goal_taken_ns")
    goals = goals.with_columns(following.fill_null(_FOREVER).alias("next_ns"))
    goals = _with_messages(goals, status, "next_ns")
    tells = (pl.col("upto") > 0).any().over(_SERVER)
    sure = ~_in_gap(goals, gaps, pl.col("goal_taken_ns"), pl.col("next_ns"))
    rejected = (sure & tells & (pl.col("before") == pl.col("upto"))).fill_null(value=False)
    return goals.with_columns(rejected.alias("rejected")).drop(
        "next_ns", "before", "upto", "last_ns"
    )


def _with_result(goals: pl.DataFrame, results: pl.DataFrame) -> pl.DataFrame:
    """Add the times of each goal's result, and ``match``."""
    asked = pl.coalesce("result_requested_ns", "result_request_taken_ns")
    results = results.with_columns(asked.alias("asked_ns")).filter(pl.col("asked_ns").is_not_null())
    times = [names[1] for names in _TIMES.values()]
    named = results.filter(pl.col("goal_id").is_in(goals["goal_id"].drop_nulls().implode()))
    named = named.sort("asked_ns").unique("goal_id", keep="first", maintain_order=True)
    by_id = goals.select("action_goal_id", "goal_id").join(named, on="goal_id").select(
        "action_goal_id", *times, pl.lit("exact").alias("match")
    )  # fmt: skip
    by_order = _results_by_order(
        goals.join(by_id, on="action_goal_id", how="anti"),
        results.filter(pl.col("goal_id").is_null()),
    ).select(by_id.columns)
    matched = pl.concat([by_id, by_order])
    return goals.join(matched, on="action_goal_id", how="left", maintain_order="left")


def _results_by_order(goals: pl.DataFrame, results: pl.DataFrame) -> pl.DataFrame:
    """Assign results without a goal id to goals by order, and add ``match``."""
    place = pl.int_range(pl.len()).over(_WAY)
    waiting = (
        goals.filter(pl.col("answered_ns").is_not_null() & ~pl.col("rejected"))
        .sort("answered_ns")
        .select(*_WAY, "action_goal_id", "answered_ns", place.alias("goal_place"))
    )
    results = results.sort("asked_ns").with_columns(place.alias("place"))
    results = join_next_in_time(
        results, waiting.drop("action_goal_id"), "asked_ns", "answered_ns", _WAY
    )
    twice = pl.struct(*_WAY, "goal_place").is_duplicated() & pl.col("goal_place").is_not_null()
    results = results.with_columns(
        pl.when(pl.col("place") == pl.col("goal_place"))
        .then(pl.lit("exact"))
        .otherwise(pl.lit("approximate"))
        .alias("match"),
        twice.any().over(_WAY).alias("in_order"),
    ).with_columns(
        pl.when("in_order").then("place").otherwise("goal_place").alias("goal_place"),
        pl.when("in_order").then(pl.lit("approximate")).otherwise("match").alias("match"),
    )
    return (
        results.drop("answered_ns")
        .join(waiting, on=[*_WAY, "goal_place"])
        # By order, too, a result never belongs to a later goal.
        .filter(pl.col("answered_ns") <= pl.col("asked_ns"))
    )


def _with_single_goals(goals: pl.DataFrame) -> pl.DataFrame:
    """Add whether the server had no other goal between goal_taken and result_sent.

    Null where the answer depends on the unknown end of a goal.
    """
    taken = pl.coalesce("goal_taken_ns", "goal_response_sent_ns")
    ended = pl.when("rejected").then(taken).otherwise("result_sent_ns")
    # A goal rejected meanwhile does not count; the next one may.
    later = pl.when(~pl.col("rejected")).then(taken)
    after = later.backward_fill().shift(-1).over(_SERVER).fill_null(_FOREVER + 1)

    def is_alone(until: pl.Expr) -> pl.Expr:
        end = pl.when(taken.is_not_null()).then(until)
        before = end.cum_max().forward_fill().shift(1).over(_SERVER).fill_null(0)
        return pl.col("rejected") | ((before <= taken) & (after > until))

    # Goals of unknown end are taken to end at once, or never.
    soonest, latest = is_alone(ended.fill_null(taken)), is_alone(ended.fill_null(_FOREVER))
    sure = pl.col("goal_taken_ns").is_not_null() & (soonest == latest)
    return (
        goals.sort(taken, maintain_order=True)
        .with_columns(
            ended.fill_null(_FOREVER).alias("until_ns"), pl.when(sure).then(latest).alias("alone")
        )
        .sort("action_goal_id")
    )


def _with_status(goals: pl.DataFrame, status: pl.DataFrame) -> pl.DataFrame:
    """Add finished_ns: the last status of at least two (executing, then ended)."""
    goals = _with_messages(goals, status, "result_sent_ns")
    ended = pl.col("alone") & (pl.col("upto") - pl.col("before") >= 2)
    return goals.with_columns(pl.when(ended).then("last_ns").alias("finished_ns")).drop(
        "before", "upto", "last_ns"
    )


def _with_feedback(goals: pl.DataFrame, feedback: pl.DataFrame, objects: Objects) -> pl.DataFrame:
    tells = objects.publishers.select(
        pl.col("topic").cast(TEXT).str.extract(r"^(.*)/_action/feedback$", 1).alias("action"),
        pl.col("node").alias("server_node"),
        pl.lit(value=True).alias("tells"),
    ).unique()
    goals = goals.join(tells, on=["action", "server_node"], how="left", maintain_order="left")
    goals = _with_messages(goals, feedback, "result_sent_ns")
    # Without its publisher in the trace, absence of feedback is not known.
    published = pl.when("tells").then(pl.col("upto") - pl.col("before"))
    count = pl.when("rejected").then(0).otherwise(published)
    goals = goals.with_columns(pl.when("alone").then(count).alias("feedback_count"))
    first = feedback.select("action", "server_node", pl.col("nth") - 1, "told_ns")
    goals = goals.join(
        first.rename({"nth": "before", "told_ns": "first_ns"}),
        on=["action", "server_node", "before"],
        how="left",
        maintain_order="left",
    )
    any_feedback = pl.col("feedback_count") > 0
    goals = goals.with_columns(
        pl.when(any_feedback).then("first_ns").alias("first_feedback_ns"),
        pl.when(any_feedback).then("last_ns").alias("last_feedback_ns"),
    )
    lasted = pl.col("last_feedback_ns") - pl.col("first_feedback_ns")
    rate = (pl.col("feedback_count") - 1) * 1e9 / lasted
    return goals.with_columns(pl.when(lasted > 0).then(rate).alias("feedback_rate_hz")).drop(
        "before", "upto", "last_ns", "first_ns", "tells"
    )


def _with_cancel(goals: pl.DataFrame, cancels: pl.DataFrame) -> pl.DataFrame:
    """Add cancel_sent_ns: the first request that names the goal, or came while it ran alone."""
    asked = cancels.select(
        *_SERVER, "goal_id", pl.col("goal_sent_ns").alias("cancel_sent_ns"),
        pl.col("goal_taken_ns").alias("c"),
    ).drop_nulls("c").sort("c")  # fmt: skip
    named = asked.drop_nulls("goal_id").unique("goal_id", keep="first", maintain_order=True)
    by_id = goals.select("action_goal_id", "goal_id").join(named, on="goal_id")
    candidates = goals.filter(pl.col("goal_taken_ns").is_not_null() & pl.col("alone"))
    candidates = candidates.join(by_id, on="action_goal_id", how="anti").drop("goal_id")
    nameless = asked.filter(pl.col("goal_id").is_null())
    by_order = (
        join_next_in_time(candidates, nameless, "goal_taken_ns", "c", _SERVER, strategy="forward")
        .filter(pl.col("c") <= pl.col("until_ns"))
    )  # fmt: skip
    cancelled = pl.concat(
        [frame.select("action_goal_id", "cancel_sent_ns") for frame in (by_id, by_order)]
    )
    return goals.join(cancelled, on="action_goal_id", how="left", maintain_order="left")


def _with_ends(goals: pl.DataFrame, ends: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Add accepted_ns, outcome and its time, and the goals of which nothing else is known."""
    outcomes = ends.select("goal_id", "accepted_ns", "ended_ns", "outcome")
    goals = goals.join(outcomes, on="goal_id", how="left", maintain_order="left")
    # If the request names its goal, the server's library would also have recorded its status.
    untold = pl.all_horizontal(pl.col("accepted_ns", "ended_ns").is_null())
    refused = pl.col("goal_id").is_not_null() & pl.col("goal_response_sent_ns").is_not_null()
    answered = _in_gap(goals, gaps, pl.col("goal_taken_ns"), pl.col("goal_response_sent_ns"))
    goals = goals.with_columns(
        pl.when(refused & untold & ~answered)
        .then(pl.lit("rejected"))
        .otherwise("outcome")
        .alias("outcome"),
        pl.coalesce("ended_ns", "finished_ns").alias("finished_ns"),
    ).drop("ended_ns")
    unseen = ends.join(goals.drop_nulls("goal_id"), on="goal_id", how="anti")
    numbers = pl.int_range(pl.len(), dtype=I64) + goals.height
    unseen = unseen.with_columns(numbers.alias("action_goal_id")).rename(
        {"ended_ns": "finished_ns"}
    )
    return pl.concat([goals, unseen], how="diagonal_relaxed")
