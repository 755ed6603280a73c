"""Find messages between hosts, which show how far the hosts' clocks are apart.

A message is taken after it was sent; `roslens.collectors.ros2.clock_fit` derives bounds from this.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.collectors.ros2.events import FIELDS, Events, Raw
from roslens.collectors.ros2.processes import PID_NS
from roslens.collectors.ros2.services import KEY, halves

MESSAGES = ("ros2:rmw_publish", "ros2:rmw_take")
SERVICES = (
    "ros2:rmw_client_init",
    "ros2:rmw_send_request",
    "ros2:rmw_take_request",
    "ros2:rmw_send_response",
    "ros2:rmw_take_response",
)
BEFORE = ("ros2:rcl_send_request", "ros2:rcl_send_response", "ros2:callback_start")
"""Events that a thread emits before it sends a request or a response."""

EVENTS = (*MESSAGES, *SERVICES, *BEFORE)
"""The events that `find_crossings` reads."""
COLUMNS = frozenset(
    {"host", "vpid", "vtid", "procname", PID_NS}.union(
        *(FIELDS[name.removeprefix("ros2:")] for name in EVENTS)
    )
    - {"message", "request", "response"}
)
"""The columns of `EVENTS` that `find_crossings` needs."""

_SCHEMA = {"from_host": pl.String, "to_host": pl.String, "sent_ns": pl.Int64, "taken_ns": pl.Int64}


def find_crossings(raw: Raw | Events) -> pl.DataFrame:
    """Find messages, requests and responses that were sent on one host and taken on another.

    Parameters
    ----------
    raw
        The `EVENTS` that were recorded.

    Returns
    -------
    polars.DataFrame
        from_host, to_host, sent_ns, taken_ns: each by the clock of its host. Messages are matched
        by their source timestamp, if it is unique; requests and responses by the client's gid and
        their number. ``rmw_send_request`` and ``rmw_send_response`` are emitted after the write:
        the sending time is therefore that of the thread's preceding event.
    """
    events = raw if isinstance(raw, Events) else Events(raw)
    sent = events["rmw_publish"].select("proc", "time_ns", stamp="timestamp")
    taken = events["rmw_take"].filter(pl.col("taken") != 0)
    taken = taken.select("proc", "time_ns", stamp="source_timestamp")
    gids = events["rmw_client_init"].unique(["proc", "rmw_client_handle"], keep="none")
    gids = gids.select("proc", "rmw_client_handle", *halves("gid"))

    done = pl.concat(
        events[name].select("thread", "time_ns", before_ns="time_ns")
        for name in (event.removeprefix("ros2:") for event in EVENTS)
        if not name.endswith("_init")
    ).sort("time_ns")

    def begun(sends: pl.DataFrame) -> pl.DataFrame:
        joined = sends.join_asof(
            done, on="time_ns", by="thread", allow_exact_matches=False, check_sortedness=False
        )
        return joined.drop_nulls("before_ns").with_columns(time_ns="before_ns")

    def client(name: str) -> pl.DataFrame:
        return events[name].join(gids, on=["proc", "rmw_client_handle"], maintain_order="left")

    def server(name: str) -> pl.DataFrame:
        return events[name].with_columns(halves("client_gid"))

    arrived = pl.col("taken") != 0
    requests, responses = begun(client("rmw_send_request")), begun(server("rmw_send_response"))
    pairs = [
        _joined(sent, taken, ["stamp"]),
        _joined(requests, server("rmw_take_request").filter(arrived), KEY),
        _joined(responses, client("rmw_take_response").filter(arrived), KEY),
    ]
    hosts = events.processes.select("proc", "host")
    return (
        pl.concat(pairs)
        .join(hosts.rename({"host": "from_host"}), on="proc")
        .join(hosts.rename({"host": "to_host"}), left_on="proc_right", right_on="proc")
        .filter(pl.col("from_host") != pl.col("to_host"))
        .select(*_SCHEMA)
    )


def _joined(sent: pl.DataFrame, taken: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Join sent with taken messages, by keys that only one of the sent messages has."""
    unique = sent.drop_nulls(key).unique(key, keep="none", maintain_order=True)
    pairs = unique.select("proc", *key, pl.col("time_ns").alias("sent_ns")).join(
        taken.select("proc", *key, pl.col("time_ns").alias("taken_ns")), on=key
    )
    return pairs.select("proc", "proc_right", "sent_ns", "taken_ns")
