"""Nodes, publishers, subscriptions, services, clients and timers, with their addresses and times.

Every frame has ``proc``, ``created_ns`` and the object's number; the host, vpid and the names are
added when the tables are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from collectors.ros2.events import Events
from collectors.ros2.joins import as_of
from collectors.ros2.types import I64, TEXT

DISCOVERY = "ros_discovery_info"
"""Topic of the middleware's own graph messages, whose endpoints have no rcl event."""

ROSOUT = "/rosout"


@dataclass(frozen=True)
class Objects:
    """All objects of a recording.

    Attributes
    ----------
    contexts, nodes, publishers, subscriptions, services, clients, timers
        One row per object with its number (``node_id``, ...).
    publisher_by_rmw, subscription_by_rmw
        rmw handle to object, since its rmw init event where there is one.
    """

    contexts: pl.DataFrame
    nodes: pl.DataFrame
    publishers: pl.DataFrame
    subscriptions: pl.DataFrame
    services: pl.DataFrame
    clients: pl.DataFrame
    timers: pl.DataFrame
    publisher_by_rmw: pl.DataFrame
    subscription_by_rmw: pl.DataFrame

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The objects by the name of their table."""
        return {
            "contexts": self.contexts,
            "nodes": self.nodes,
            "publishers": self.publishers,
            "subscriptions": self.subscriptions,
            "services": self.services,
            "clients": self.clients,
            "timers": self.timers,
        }


def find_objects(events: Events) -> Objects:
    """Every object that an init event names."""
    nodes = _nodes(events)
    publishers, publisher_by_rmw = _endpoints(events, nodes, "publisher")
    subscriptions, subscription_by_rmw = _endpoints(events, nodes, "subscription")
    return Objects(
        contexts=_contexts(events),
        nodes=nodes,
        publishers=publishers,
        subscriptions=subscriptions,
        services=_service_ends(events, nodes, "service"),
        clients=_clients(events, nodes),
        timers=_timers(events, nodes),
        publisher_by_rmw=publisher_by_rmw,
        subscription_by_rmw=subscription_by_rmw,
    )


def _numbered(frame: pl.DataFrame, number: str, handles: Sequence[str]) -> pl.DataFrame:
    return (
        frame.sort("created_ns", "proc", *handles, maintain_order=True)
        .with_row_index(number)
        .with_columns(pl.col(number).cast(I64))
    )


def _contexts(events: Events) -> pl.DataFrame:
    frame = events["rcl_init"].select(
        "proc",
        pl.col("proc").alias("process_id"),
        pl.col("time_ns").alias("created_ns"),
        "context_handle",
        pl.col("version").alias("tracetools_version"),
    )
    return _numbered(frame, "context_id", ["context_handle"])


def _nodes(events: Events) -> pl.DataFrame:
    name, namespace = pl.col("node_name"), pl.col("namespace")
    frame = events["rcl_node_init"].select(
        "proc",
        pl.col("time_ns").alias("created_ns"),
        (namespace.str.strip_chars_end("/") + "/" + name).alias("node"),
        name.alias("name"),
        "namespace",
        "node_handle",
        "rmw_handle",
    )
    return _numbered(frame, "node_id", ["node_handle"])


def _with_node(frame: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    key = [("proc", "proc"), ("node_handle", "node_handle")]
    return as_of(frame, nodes, key, ["node_id", "node"], time="created_ns").drop("node_handle")


def _endpoints(events: Events, nodes: pl.DataFrame, kind: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Publishers or subscriptions, and which one an rmw handle means since when."""
    handle, rmw, number = f"{kind}_handle", f"rmw_{kind}_handle", f"{kind}_id"
    below = (
        events[f"rmw_{kind}_init"]
        .select("proc", pl.col("time_ns").alias("rmw_ns"), rmw, "gid")
        .with_row_index("_rmw")
    )
    above = events[f"rcl_{kind}_init"].select(
        "proc",
        pl.col("time_ns").alias("created_ns"),
        handle,
        "node_handle",
        rmw,
        pl.col("topic_name").alias("topic"),
        "queue_depth",
    )
    above = _with_node(above, nodes)
    key = [("proc", "proc"), (rmw, rmw)]
    above = as_of(above, below, key, ["gid", "rmw_ns", "_rmw"], time="created_ns", since="rmw_ns")
    # Where rcl inits were recorded, an rmw endpoint without one is the middleware's own.
    own = DISCOVERY if events.declared(f"rcl_{kind}_init") else None
    alone = below.filter(~pl.col("_rmw").is_in(above["_rmw"].drop_nulls().to_list())).with_columns(
        pl.col("rmw_ns").alias("created_ns"), pl.lit(own, dtype=TEXT).alias("topic")
    )
    both = pl.concat([above, alone], how="diagonal").drop("_rmw")
    both = _numbered(both, number, [handle, rmw])
    both = both.with_columns(pl.min_horizontal(_next_use(rmw), _next_use(handle)).alias("ended_ns"))
    since = pl.col("rmw_ns").fill_null(pl.col("created_ns"))
    by_rmw = both.select("proc", rmw, since.alias("since_ns"), number).filter(
        pl.col(rmw).is_not_null()
    )
    return both.drop("rmw_ns"), by_rmw


def _next_use(handle: str) -> pl.Expr:
    """When the address is given to the next object (it then names that one)."""
    following = pl.col("created_ns").shift(-1).over("proc", handle, order_by="created_ns")
    return pl.when(pl.col(handle).is_not_null()).then(following)


def _service_ends(events: Events, nodes: pl.DataFrame, kind: str) -> pl.DataFrame:
    handle, rmw = f"{kind}_handle", f"rmw_{kind}_handle"
    frame = events[f"rcl_{kind}_init"].select(
        "proc",
        pl.col("time_ns").alias("created_ns"),
        handle,
        rmw,
        "node_handle",
        pl.col("service_name").alias("service"),
    )
    return _numbered(_with_node(frame, nodes), f"{kind}_id", [handle])


def _clients(events: Events, nodes: pl.DataFrame) -> pl.DataFrame:
    clients = _service_ends(events, nodes, "client")
    below = events["rmw_client_init"].rename({"time_ns": "rmw_ns"})
    key = [("proc", "proc"), ("rmw_client_handle", "rmw_client_handle")]
    return as_of(clients, below, key, ["gid"], time="created_ns", since="rmw_ns")


def _timers(events: Events, nodes: pl.DataFrame) -> pl.DataFrame:
    timers = events["rcl_timer_init"].select(
        "proc",
        pl.col("time_ns").alias("created_ns"),
        "timer_handle",
        pl.col("period").alias("period_ns"),
    )
    timers = _numbered(timers, "timer_id", ["timer_handle"])
    key = [("proc", "proc"), ("timer_handle", "timer_handle")]
    links = as_of(events["rclcpp_timer_link_node"], timers, key, ["timer_id"])
    links = as_of(
        links, nodes, [("proc", "proc"), ("node_handle", "node_handle")], ["node_id", "node"]
    )
    links = links.unique("timer_id", keep="first", maintain_order=True)
    return timers.join(
        links.select("timer_id", "node_id", "node"),
        on="timer_id",
        how="left",
        maintain_order="left",
    )
