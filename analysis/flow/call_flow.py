"""Represent service calls and action goals as messages, so that chains go through them.

A call of ``/add`` is a message on ``/add.request`` from the client to the server, and one on
``/add.response`` back; a goal of ``/move`` is one on ``/move.goal`` and one on ``/move.result``.
No recording shows how the client uses an answer: its node receives the answer at the moment
at which it took it. A server works on a goal from taking it to sending the result.
Where the call that sent a message is not in the trace, the latest possible time counts as its
time of sending (`begin_of`), and `at_least` is true: the duration is a lower bound.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from roslens.collectors.ros2.services import begin_of

REQUEST, RESPONSE, GOAL, RESULT = ".request", ".response", ".goal", ".result"
_ACTION = "/_action/"
_NUMBER = "callback_instance_id"


def with_calls(
    messages: pl.DataFrame,
    publications: pl.DataFrame,
    instances: pl.DataFrame,
    calls: pl.DataFrame,
    goals: pl.DataFrame,
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Add the messages, publications and executions that stand for calls and goals.

    Added rows have negative numbers. Executions of services count as subscription executions for
    their requests.
    """
    messages = messages.with_columns(at_least=pl.lit(value=False))
    served = pl.col("kind") == "service"
    instances = instances.with_columns(
        pl.when(served).then(pl.col("name") + REQUEST).otherwise("name").alias("name"),
        pl.when(served).then(pl.lit("subscription")).otherwise("kind").alias("kind"),
    )
    calls = calls.filter(
        pl.col("request_sent_ns").is_not_null() & ~pl.col("service").str.contains(_ACTION)
    )
    goals = goals.filter(pl.col("goal_sent_ns").is_not_null())
    parts = []
    if calls.height:
        parts += _calls_as_messages(calls)
    if goals.height:
        parts += _goals_as_messages(goals)
    for part in parts:
        sent = part.unique(["run", "message_id"], keep="first", maintain_order=True).select(
            "run",
            "message_id",
            "topic",
            pl.col("publisher_node").alias("node"),
            "publish_ns",
            pl.col("within").alias(_NUMBER),
        )
        executions = part.filter(pl.col(_NUMBER) < 0).select(
            "run",
            _NUMBER,
            pl.lit("subscription").alias("kind"),
            pl.col("topic").alias("name"),
            pl.col("subscription_node").alias("node"),
            pl.col("callback_start_ns").alias("start_ns"),
            pl.col("callback_end_ns").alias("end_ns"),
        )
        messages = pl.concat([messages, part.drop("within")], how="diagonal")
        publications = pl.concat([publications, sent], how="diagonal")
        instances = pl.concat([instances, executions], how="diagonal")
    return messages, publications, instances


def _calls_as_messages(calls: pl.DataFrame) -> list[pl.DataFrame]:
    """Return requests, each of which several servers may take, and responses."""
    call = pl.struct("run", "client_id", "sequence_number").rank("dense").cast(pl.Int64)
    numbered = calls.with_columns(
        request=-4 * call,
        response=-4 * pl.int_range(1, pl.len() + 1) - 1,
        response_at_least=pl.col("response_called_ns").is_null(),
    )
    return _both_directions(numbered, (REQUEST, RESPONSE))


def _goals_as_messages(goals: pl.DataFrame) -> list[pl.DataFrame]:
    """Return goals and results, as calls whose server works from taking the goal to its result."""
    row = pl.int_range(1, pl.len() + 1)
    as_calls = goals.with_columns(
        request=-4 * row - 2,
        response=-4 * row - 3,
        service="action",
        request_called_ns="goal_called_ns",
        request_sent_ns="goal_sent_ns",
        request_taken_ns="goal_taken_ns",
        callback_start_ns="goal_taken_ns",
        callback_end_ns="result_sent_ns",
        response_called_ns="result_sent_ns",
        response_sent_ns="result_sent_ns",
        response_taken_ns="result_taken_ns",
        response_at_least=pl.lit(value=True),
        **{_NUMBER: pl.when(pl.col("goal_taken_ns").is_not_null()).then(-4 * row - 2)},
    )
    return _both_directions(as_calls, (GOAL, RESULT))


def _both_directions(calls: pl.DataFrame, ends: tuple[str, str]) -> list[pl.DataFrame]:
    """Return messages to the server and back; `ends` are the suffixes of their topics."""
    taken = pl.col("response_taken_ns")
    request = _message(
        calls,
        {
            "message_id": pl.col("request"),
            "topic": pl.col("service") + ends[0],
            "publish_ns": begin_of("request_called_ns", "request_sent_ns", "request_taken_ns"),
            "at_least": pl.col("request_called_ns").is_null(),
            "take_ns": pl.col("request_taken_ns"),
            "callback_start_ns": pl.col("callback_start_ns"),
            "callback_end_ns": pl.col("callback_end_ns"),
            _NUMBER: pl.col(_NUMBER),
            "within": pl.col("client_callback_instance_id"),
        },
        ("client", "server"),
    )
    response = _message(
        calls.filter(pl.col("response_sent_ns").is_not_null()),
        {
            "message_id": pl.col("response"),
            "topic": pl.col("service") + ends[1],
            "publish_ns": begin_of("response_called_ns", "response_sent_ns", "response_taken_ns"),
            "at_least": pl.col("response_at_least"),
            "take_ns": taken,
            "callback_start_ns": taken,
            "callback_end_ns": taken,
            _NUMBER: pl.when(taken.is_not_null()).then("response"),
            "within": pl.col(_NUMBER),
        },
        ("server", "client"),
    )
    return [request, response]


def _message(
    frame: pl.DataFrame,
    values: Mapping[str, pl.Expr],
    sides: tuple[str, str],
) -> pl.DataFrame:
    """Return rows as in ``messages``, and ``within``, the execution that sent the message."""
    sender, receiver = sides
    started = pl.col("callback_start_ns").is_not_null()
    return frame.select(
        "run",
        *(value.alias(name) for name, value in values.items()),
        pl.col(f"{sender}_node").alias("publisher_node"),
        pl.col(f"{receiver}_node").alias("subscription_node"),
        pl.lit(value=False).alias("intra_process"),
    ).with_columns(
        pl.when(started)
        .then(pl.lit("delivered"))
        .when(pl.col("take_ns").is_not_null())
        .then(pl.lit("taken"))
        .otherwise(pl.lit("unknown"))
        .alias("outcome")
    )
