"""Service calls: one request of one client, at each server that took it.

Key of a request: the client's gid (its first 16 bytes) and the sequence number. A response has
that key too, and its timestamp tells apart the responses of several servers.
"""

from __future__ import annotations

import polars as pl

from roslens.collectors.ros2.callbacks import Callbacks, enclosing
from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import as_of, timeline
from roslens.collectors.ros2.objects import Objects
from roslens.collectors.ros2.types import I64, NAME

KEY = ["gid_low", "gid_high", "sequence_number"]
BEGIN = pl.coalesce("request_sent_ns", "request_taken_ns", "response_sent_ns")
"""When a call began, as far as is known."""
_EVENTS = ("rmw_send_request", "rmw_take_request", "rmw_send_response", "rmw_take_response")
_UNKNOWN = (
    "client_id",
    "client_callback_instance_id",
    "sequence_number",
    "request_sent_ns",
    "request_taken_ns",
    "response_sent_ns",
    "response_taken_ns",
)
"""What the server's callbacks alone do not tell."""


def service_events_recorded(events: Events) -> bool:
    """Whether the four events of Kilted and later are there."""
    return all(events.declared(name) for name in _EVENTS)


def find_service_calls(events: Events, objects: Objects, callbacks: Callbacks) -> pl.DataFrame:
    """One row per request and server that took it; columns of the table and the two procs.

    Before Kilted only the server's callbacks were recorded: then a row is one of those, with
    nothing known about the client.
    """
    if not service_events_happened(events):
        return callbacks_alone(callbacks)
    return in_order(
        joined_calls(
            requests_sent(events, objects, callbacks),
            requests_taken(events, objects, callbacks),
            responses_sent(events, objects),
            responses_taken(events, objects),
            objects,
        )
    )


def unknown_ends(calls: pl.DataFrame) -> int:
    """How many calls were sent, or served, by an end whose init event is missing."""
    sent = pl.col("request_sent_ns").is_not_null()
    served = pl.any_horizontal(pl.col("request_taken_ns", "response_sent_ns").is_not_null())
    nameless = (sent & pl.col("client_id").is_null()) | (served & pl.col("service_id").is_null())
    return calls.filter(nameless).height


def service_events_happened(events: Events) -> bool:
    """Whether calls can be told; else only the servers' callbacks."""
    return any(events.happened(name) for name in _EVENTS)


def requests_sent(events: Events, objects: Objects, callbacks: Callbacks) -> pl.DataFrame:
    """What clients sent: key, client_id, request_sent_ns, client_callback_instance_id."""
    requests = _client_side(events, objects, "rmw_send_request")
    within = enclosing(callbacks.instances, requests.select("thread", "time_ns"))
    return requests.select(
        *KEY,
        "client_id",
        pl.col("time_ns").alias("request_sent_ns"),
        within.alias("client_callback_instance_id"),
        pl.col("proc").alias("sent_proc"),
    )


def requests_taken(events: Events, objects: Objects, callbacks: Callbacks) -> pl.DataFrame:
    """What servers took: key, service_id, request_taken_ns, and the callback that served it."""
    taken = _with_callback(_server_side(events, objects, "rmw_take_request"), callbacks)
    return taken.select(
        *KEY,
        "service_id",
        pl.col("time_ns").alias("request_taken_ns"),
        "callback_instance_id",
        "callback_start_ns",
        "callback_end_ns",
        pl.col("proc").alias("taken_proc"),
    )


def responses_sent(events: Events, objects: Objects) -> pl.DataFrame:
    """What servers answered: key, service_id, response_sent_ns, stamp."""
    return _server_side(events, objects, "rmw_send_response").select(
        *KEY,
        "service_id",
        pl.col("time_ns").alias("response_sent_ns"),
        pl.col("timestamp").alias("stamp"),
        pl.col("proc").alias("answered_proc"),
    )


def joined_calls(
    requests: pl.DataFrame,
    taken: pl.DataFrame,
    sent: pl.DataFrame,
    answered: pl.DataFrame,
    objects: Objects,
) -> pl.DataFrame:
    """Calls of what the two sides sent and took, in no order; only rows of equal key meet."""
    calls = requests.join(taken, on=KEY, how="full", coalesce=True)
    calls = _answered_untaken(calls, sent)
    calls = calls.join(sent, on=[*KEY, "service_id"], how="full", coalesce=True, nulls_equal=True)
    return _named(_with_response(calls.unique(maintain_order=True), answered), objects)


def _answered_untaken(calls: pl.DataFrame, sent: pl.DataFrame) -> pl.DataFrame:
    """Give requests of which no take was recorded the service that answered them, if any."""
    at = [*KEY, "service_id"]
    answers = sent.join(calls, on=at, how="anti", nulls_equal=True)
    answers = answers.unique(KEY, keep="first", maintain_order=True)
    answers = answers.select(*KEY, pl.col("service_id").alias("answering"))
    untaken = pl.col("request_taken_ns").is_null()
    return (
        calls.join(answers, on=KEY, how="left", maintain_order="left")
        .with_columns(
            pl.when(untaken).then("answering").otherwise("service_id").alias("service_id")
        )
        .drop("answering")
    )


def in_order(calls: pl.DataFrame) -> pl.DataFrame:
    """Sort calls by when they began."""
    return calls.sort(
        BEGIN,
        "service_id",
        "client_id",
        "sequence_number",
        maintain_order=True,
    )


def halves(gid: str) -> list[pl.Expr]:
    """The first 16 bytes as two numbers; what follows them is not part of the gid."""

    def number(start: int) -> pl.Expr:
        byte = [
            pl.col(gid).list.get(start + i, null_on_oob=True).cast(pl.UInt64) * 2 ** (8 * i)
            for i in range(8)
        ]
        return pl.sum_horizontal(byte, ignore_nulls=False)

    return [number(0).alias("gid_low"), number(8).alias("gid_high")]


def _client_side(events: Events, objects: Objects, name: str) -> pl.DataFrame:
    handle = "rmw_client_handle"
    found = as_of(
        events[name], objects.clients, [("proc", "proc"), (handle, handle)], ["client_id", "gid"]
    )
    return found.with_columns(halves("gid"))


def _server_side(events: Events, objects: Objects, name: str) -> pl.DataFrame:
    handle = "rmw_service_handle"
    found = as_of(
        events[name], objects.services, [("proc", "proc"), (handle, handle)], ["service_id"]
    )
    if name == "rmw_take_request":
        found = found.filter(pl.col("taken") != 0)
    return found.with_columns(halves("client_gid"))


def _with_callback(taken: pl.DataFrame, callbacks: Callbacks) -> pl.DataFrame:
    """Add the execution that follows each request on its thread, if it serves that service."""
    taken = taken.with_row_index("request_row")
    runs = callbacks.instances.select(
        "thread",
        pl.col("start_ns").alias("time_ns"),
        "callback_instance_id",
        pl.col("start_ns").alias("callback_start_ns"),
        pl.col("end_ns").alias("callback_end_ns"),
        pl.col("kind").fill_null("service").alias("serves"),
        "owner_id",
    )
    line = timeline([(taken, ["request_row"]), (runs, runs.columns[2:])])
    after = (pl.col("thread") == pl.col("thread").shift(-1)) & (pl.col("kind").shift(-1) == 1)
    line = line.with_columns(
        pl.when(after).then(pl.col(name).shift(-1)).alias(name) for name in runs.columns[2:]
    ).filter(pl.col("kind") == 0)
    taken = taken.join(
        line.select("request_row", *runs.columns[2:]), on="request_row", maintain_order="left"
    )
    fits = (pl.col("serves") == "service") & (
        (pl.col("owner_id") == pl.col("service_id")).fill_null(value=True)
    )
    return taken.with_columns(
        pl.when(fits).then(pl.col(name)).alias(name)
        for name in ("callback_instance_id", "callback_start_ns", "callback_end_ns")
    )


def responses_taken(events: Events, objects: Objects) -> pl.DataFrame:
    """What clients got: key, stamp, response_taken_ns."""
    taken = _client_side(events, objects, "rmw_take_response").filter(pl.col("taken") != 0)
    return taken.select(
        *KEY,
        pl.col("source_timestamp").alias("stamp"),
        pl.col("time_ns").alias("response_taken_ns"),
    )


def _with_response(calls: pl.DataFrame, taken: pl.DataFrame) -> pl.DataFrame:
    """Add response_taken_ns: by key and timestamp, else by key where one server answered."""
    exact = taken.unique([*KEY, "stamp"], keep="first", maintain_order=True)
    calls = calls.join(exact, on=[*KEY, "stamp"], how="left", maintain_order="left")
    single = taken.filter(~pl.struct(KEY).is_duplicated()).select(
        *KEY, pl.col("response_taken_ns").alias("only_ns")
    )
    calls = calls.join(single, on=KEY, how="left", maintain_order="left")
    alone = pl.len().over(KEY) == 1
    used = pl.col("response_taken_ns").is_null() & alone
    calls = calls.with_columns(
        pl.when(used).then("only_ns").otherwise("response_taken_ns").alias("response_taken_ns")
    )
    return calls.drop("only_ns", "stamp")


def _named(calls: pl.DataFrame, objects: Objects) -> pl.DataFrame:
    clients = objects.clients.select(
        "client_id",
        pl.col("node").alias("client_node"),
        pl.col("service").alias("of_client"),
        pl.col("proc").alias("client_proc"),
    )
    services = objects.services.select(
        "service_id",
        pl.col("node").alias("server_node"),
        "service",
        pl.col("proc").alias("server_proc"),
    )
    return (
        calls.join(clients, on="client_id", how="left", maintain_order="left")
        .join(services, on="service_id", how="left", maintain_order="left")
        .with_columns(
            pl.coalesce("service", "of_client").alias("service"),
            # The object is not known where its init event is missing.
            pl.coalesce(
                "server_proc", "client_proc", "taken_proc", "answered_proc", "sent_proc"
            ).alias("proc"),
        )
    )


def callbacks_alone(callbacks: Callbacks) -> pl.DataFrame:
    """Calls as the servers' executions tell them."""
    return callbacks.instances.filter(pl.col("kind") == "service").select(
        "proc",
        pl.col("name").alias("service"),
        pl.col("node").alias("server_node"),
        pl.col("owner_id").alias("service_id"),
        "callback_instance_id",
        pl.col("start_ns").alias("callback_start_ns"),
        pl.col("end_ns").alias("callback_end_ns"),
        pl.lit(None, dtype=NAME).alias("client_node"),
        *(pl.lit(None, dtype=I64).alias(name) for name in _UNKNOWN),
    )
