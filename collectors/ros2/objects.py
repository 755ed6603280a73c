"""Find nodes, publishers, subscriptions, services, clients and timers, with their addresses.

Every frame has ``proc``, ``created_ns`` and the object's number; the host, vpid and the names are
added when the tables are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.joins import as_of, nearest
from roslens.collectors.ros2.types import I64, TEXT, empty_table, with_names
from roslens.collectors.schema.tables import TABLES
from roslens.collectors.topics import DISCOVERY, ROSOUT


@dataclass(frozen=True)
class Objects:
    """All objects of a recording.

    Attributes
    ----------
    contexts, nodes, publishers, subscriptions, services, clients, timers, ring_buffers
        One row per object with its number (``node_id``, ...), ``created_ns`` and ``ended_ns``,
        the time when its address was given to the next object.
    publisher_by_rmw, subscription_by_rmw
        Object by rmw handle, valid from its rmw init event if there is one.
    """

    contexts: pl.DataFrame
    nodes: pl.DataFrame
    publishers: pl.DataFrame
    subscriptions: pl.DataFrame
    services: pl.DataFrame
    clients: pl.DataFrame
    timers: pl.DataFrame
    ring_buffers: pl.DataFrame
    publisher_by_rmw: pl.DataFrame
    subscription_by_rmw: pl.DataFrame

    @cached_property
    def has_actions(self) -> bool:
        """Whether the recording has a service or client of an action."""
        services = pl.concat([self.services["service"], self.clients["service"]]).cast(TEXT)
        return services.str.contains("/_action/", literal=True).any()

    @property
    def tables(self) -> dict[str, pl.DataFrame]:
        """The frames of objects by the name of their table."""
        return {name: frame for name, frame in vars(self).items() if name in TABLES}


def find_objects(events: Events) -> Objects:
    """Find every object that an init event names."""
    nodes = _nodes(events)
    publishers, publisher_by_rmw = _endpoints(events, nodes, "publisher")
    subscriptions, subscription_by_rmw = _endpoints(events, nodes, "subscription")
    frames = {
        "contexts": _contexts(events),
        "nodes": nodes,
        "publishers": publishers,
        "subscriptions": subscriptions,
        "services": _service_ends(events, nodes, "service"),
        "clients": _clients(events, nodes),
        "timers": _timers(events, nodes),
        "ring_buffers": _ring_buffers(events, publishers, subscriptions),
        "publisher_by_rmw": publisher_by_rmw,
        "subscription_by_rmw": subscription_by_rmw,
    }
    return Objects(**{name: with_names(frame) for name, frame in frames.items()})


def numbered(
    frame: pl.DataFrame, number: str, handles: Sequence[str], *, varies: pl.Expr | None = None
) -> pl.DataFrame:
    """Number objects in the order of their creation, and add ``ended_ns``.

    Parameters
    ----------
    handles
        Columns with the objects' addresses.
    varies
        Marks objects whose first handle is valid only during a call.
    """
    rows = frame.sort("created_ns", "proc", *handles, maintain_order=True)
    rows = rows.with_row_index(number).with_columns(pl.col(number).cast(I64))
    following = []
    for handle in handles:
        later = rows.select("proc", handle, number, ended_ns="created_ns").drop_nulls(handle)
        next_ones = rows.select("proc", handle, number).join_asof(
            later, on=number, by=["proc", handle], strategy="forward", allow_exact_matches=False,
            check_sortedness=False,
        )  # fmt: skip
        following.append(pl.lit(next_ones["ended_ns"]))
    if varies is not None:
        following[0] = pl.when(~varies.fill_null(value=False)).then(following[0])
    return rows.with_columns(pl.min_horizontal(following).alias("ended_ns"))


def _contexts(events: Events) -> pl.DataFrame:
    frame = events["rcl_init"].select(
        "proc",
        pl.col("proc").alias("process_id"),
        pl.col("time_ns").alias("created_ns"),
        "context_handle",
        pl.col("version").alias("tracetools_version"),
    )
    return numbered(frame, "context_id", ["context_handle"])


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
    return numbered(frame, "node_id", ["node_handle"])


def _with_node(frame: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    return as_of(frame, nodes, "node_handle", ["node_id", "node"], time="created_ns").drop(
        "node_handle"
    )


def _endpoints(events: Events, nodes: pl.DataFrame, kind: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return publishers or subscriptions, and which object an rmw handle means since when."""
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
    types = events["message_type_init"].select(
        "proc", "time_ns", "type", pl.col("handle").alias(handle)
    )
    identity = ["proc", handle, "created_ns"]
    types = as_of(types, above, handle, ["created_ns"]).select(*identity, "type")
    # Later types belong to the next object at the address, which was of the other kind.
    types = types.unique(identity, keep="first", maintain_order=True)
    above = above.join(types, on=identity, how="left", maintain_order="left")
    above = as_of(above, below, rmw, ["gid", "rmw_ns", "_rmw"], time="created_ns", since="rmw_ns")
    # If rcl inits were recorded, an rmw endpoint without one belongs to the middleware itself.
    topic = DISCOVERY if events.declared(f"rcl_{kind}_init") else None
    internal = below.filter(
        ~pl.col("_rmw").is_in(above["_rmw"].drop_nulls().to_list())
    ).with_columns(pl.col("rmw_ns").alias("created_ns"), pl.lit(topic, dtype=TEXT).alias("topic"))
    endpoints = pl.concat([above, internal], how="diagonal").drop("_rmw")
    # rcl's init event names another address than that where it keeps the log messages' publisher.
    varies = (pl.col("topic") == ROSOUT) & pl.lit(kind == "publisher")
    endpoints = numbered(endpoints, number, [handle, rmw], varies=varies)
    since = pl.col("rmw_ns").fill_null(pl.col("created_ns"))
    by_rmw = endpoints.select("proc", rmw, since.alias("since_ns"), number).filter(
        pl.col(rmw).is_not_null()
    )
    return endpoints.drop("rmw_ns"), by_rmw


def _service_ends(events: Events, nodes: pl.DataFrame, kind: str) -> pl.DataFrame:
    handle, rmw = f"{kind}_handle", f"rmw_{kind}_handle"
    if not events.has(f"rcl_{kind}_init"):
        return empty_table(f"{kind}s")
    frame = events[f"rcl_{kind}_init"].select(
        "proc",
        pl.col("time_ns").alias("created_ns"),
        handle,
        rmw,
        "node_handle",
        pl.col("service_name").alias("service"),
    )
    return numbered(_with_node(frame, nodes), f"{kind}_id", [handle, rmw])


def _clients(events: Events, nodes: pl.DataFrame) -> pl.DataFrame:
    clients = _service_ends(events, nodes, "client")
    below = events["rmw_client_init"].rename({"time_ns": "rmw_ns"})
    return as_of(clients, below, "rmw_client_handle", ["gid"], time="created_ns", since="rmw_ns")


def _timers(events: Events, nodes: pl.DataFrame) -> pl.DataFrame:
    if not events.has("rcl_timer_init"):
        return empty_table("timers")
    timers = events["rcl_timer_init"].select(
        "proc",
        pl.col("time_ns").alias("created_ns"),
        "timer_handle",
        pl.col("period").alias("period_ns"),
    )
    timers = numbered(timers, "timer_id", ["timer_handle"])
    links = as_of(events["rclcpp_timer_link_node"], timers, "timer_handle", ["timer_id"])
    links = as_of(links, nodes, "node_handle", ["node_id", "node"])
    links = links.unique("timer_id", keep="first", maintain_order=True)
    return timers.join(
        links.select("timer_id", "node_id", "node"),
        on="timer_id",
        how="left",
        maintain_order="left",
    )


def _ring_buffers(
    events: Events, publishers: pl.DataFrame, subscriptions: pl.DataFrame
) -> pl.DataFrame:
    """Find intra-process ring buffers and their owners.

    rclcpp makes a buffer, the intra-process buffer around it and, for a subscription, the link to
    it, all at once. The history that a transient local publisher keeps for late joiners is a buffer
    without a link, made right after the publisher.
    """
    if not any(map(events.has, ("rclcpp_construct_ring_buffer", "rclcpp_buffer_to_ipb"))):
        return empty_table("ring_buffers")
    constructed = events["rclcpp_construct_ring_buffer"].select(
        "proc", "thread", "buffer", "time_ns", "capacity"
    )
    wrapped = events["rclcpp_buffer_to_ipb"].select("proc", "thread", "buffer", "ipb", "time_ns")
    unmade = wrapped.join(constructed, on=["proc", "buffer"], how="anti").drop("ipb")
    buffers = nearest(pl.concat([constructed, unmade], how="diagonal"), wrapped, "buffer", ["ipb"])
    buffers = buffers.rename({"time_ns": "created_ns"})
    buffers = numbered(buffers, "ring_buffer_id", ["buffer"])
    links = as_of(
        events["rclcpp_ipb_to_subscription"],
        buffers,
        "ipb",
        ["ring_buffer_id"],
    )
    inits = events["rclcpp_subscription_init"]
    links = nearest(links, inits, "subscription", ["subscription_handle"])
    links = links.drop_nulls("ring_buffer_id").unique("ring_buffer_id", keep="first")
    buffers = buffers.join(
        links.select("ring_buffer_id", "subscription_handle", linked=pl.lit(value=True)),
        on="ring_buffer_id",
        how="left",
        maintain_order="left",
    )
    buffers = as_of(
        buffers, subscriptions, "subscription_handle", ["subscription_id"], time="created_ns"
    )
    last = events["rcl_publisher_init"].select("proc", "thread", "publisher_handle", "time_ns")
    buffers = as_of(
        buffers, last, "thread", ["publisher_handle"], time="created_ns",
        since="time_ns",
    )  # fmt: skip
    buffers = as_of(buffers, publishers, "publisher_handle", ["publisher_id"], time="created_ns")
    # If no link was recorded at all, missing links show nothing.
    unlinked = pl.col("linked").is_null() & pl.col("capacity").is_not_null()
    unlinked &= pl.lit(events.declared("rclcpp_ipb_to_subscription"))
    buffers = buffers.with_columns(pl.when(unlinked).then("publisher_id").alias("publisher_id"))
    names = ["node_id", "node", "topic"]
    for kind, owners in (("subscription", subscriptions), ("publisher", publishers)):
        named = owners.select(f"{kind}_id", *(pl.col(n).alias(f"{kind}_{n}") for n in names))
        buffers = buffers.join(named, on=f"{kind}_id", how="left", maintain_order="left")
    return buffers.with_columns(
        pl.coalesce(f"subscription_{name}", f"publisher_{name}").alias(name) for name in names
    ).select(
        "ring_buffer_id", "proc", "subscription_id", "publisher_id", *names, "capacity", "buffer",
        "ipb", "created_ns", "ended_ns",
    )  # fmt: skip
