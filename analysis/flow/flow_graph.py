"""How messages go through nodes, and the chains that this makes."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from roslens.analysis.flow.chain import Chain, Tables, flow_tables, run_keys
from roslens.analysis.flow.links import Link
from roslens.tracing.recording import UsageError

INTERNAL = r"^/rosout$|^/parameter_events$|^ros_discovery_info$|/_action/"
_MOST_CHAINS = 1000


def flow_graph(tables: Tables, links: Sequence[Link] = ()) -> pl.DataFrame:
    """How messages go through nodes, over all runs.

    Returns
    -------
    polars.DataFrame
        ``node``, ``inlet`` (topic received, null where the node publishes on its own), ``outlet``
        (topic published, null where nothing follows), ``kind`` (callback, periodic_async,
        partial_sync, source, sink), ``count`` of messages.
    """
    messages, publications, instances, declared = flow_tables(tables)
    keys = run_keys(messages)
    links = [*links, *declared]
    public = ~pl.col("topic").str.contains(INTERNAL)
    received = (
        messages.filter(public & pl.col("callback_instance_id").is_not_null())
        .group_by(pl.col("subscription_node").alias("node"), pl.col("topic").alias("inlet"))
        .agg(pl.len().alias("received"))
        .drop_nulls()
    )
    runs = instances.filter(pl.col("kind") == "subscription")
    sent = (
        publications.filter(public & pl.col("node").is_not_null())
        .join(
            runs.select(*keys, "callback_instance_id", pl.col("name").alias("inlet")),
            on=[*keys, "callback_instance_id"],
            how="left",
        )
        .group_by("node", "inlet", pl.col("topic").alias("outlet"))
        .agg(pl.len().alias("count"))
    )
    inside = sent.filter(pl.col("inlet").is_not_null())
    stated = pl.DataFrame(
        [(x.node, x.subscription, x.publisher, x.kind) for x in links],
        schema=["node", "inlet", "outlet", "kind"],
        orient="row",
        schema_overrides=dict.fromkeys(["node", "inlet", "outlet", "kind"], pl.String()),
    ).unique(["node", "inlet", "outlet"], keep="first", maintain_order=True)
    edge = ["node", "inlet", "outlet"]
    totals = sent.group_by("node", "outlet").agg(pl.col("count").sum())
    stated = stated.join(totals, on=["node", "outlet"]).join(
        received, on=["node", "inlet"], how="semi"
    )
    through = pl.concat(
        [
            inside.join(stated, on=edge, how="anti").with_columns(pl.lit("callback").alias("kind")),
            stated.select(*edge, "count", "kind"),
        ]
    )
    source = (
        sent.filter(pl.col("inlet").is_null())
        .join(stated, on=["node", "outlet"], how="anti")
        .with_columns(pl.lit("source").alias("kind"))
    )
    sink = received.join(through, on=["node", "inlet"], how="anti").select(
        "node",
        "inlet",
        pl.lit(None, dtype=pl.String).alias("outlet"),
        pl.col("received").alias("count"),
        pl.lit("sink").alias("kind"),
    )
    order = [*edge, "kind", "count"]
    return pl.concat([source.select(order), through.select(order), sink.select(order)]).sort(
        edge, nulls_last=False
    )


def find_chains(tables: Tables, links: Sequence[Link] = ()) -> list[Chain]:
    """Every chain from a publisher that nothing triggers to a node that publishes no further.

    A cycle is followed once. In the order of their names.

    Raises
    ------
    UsageError
        There are more than 1,000: name those of interest.
    """
    graph = flow_graph(tables, links)
    receivers: dict[tuple[str, str], list[str]] = {}
    flows = flow_tables(tables)[0].select("publisher_node", "topic", "subscription_node")
    for publisher, topic, receiver in flows.drop_nulls().unique().sort(pl.all()).rows():
        receivers.setdefault((publisher, topic), []).append(receiver)
    outlets: dict[tuple[str, str], list[str]] = {}
    through = graph.filter(~pl.col("kind").is_in(["source", "sink"]))
    for node, inlet, outlet in through.select("node", "inlet", "outlet").iter_rows():
        outlets.setdefault((node, inlet), []).append(outlet)
    sources = graph.filter(pl.col("kind") == "source").select("node", "outlet")
    open_paths = [tuple(row) for row in sources.iter_rows()]
    found: list[Chain] = []
    while open_paths:
        path = open_paths.pop()
        for receiver in receivers.get((path[-2], path[-1]), []):
            visited = set(zip(path[1::2], path[2::2], strict=False))
            further = outlets.get((receiver, path[-1]), [])
            cycle = (path[-1], receiver) in visited
            if cycle or not further:
                found.append(Chain((*path, receiver)))
            else:
                open_paths += [(*path, receiver, outlet) for outlet in further]
        if len(found) + len(open_paths) > _MOST_CHAINS:
            raise UsageError(
                f"there are more than {_MOST_CHAINS} chains; name those of interest, such as "
                "'/camera -> /image -> /detector'"
            )
    return sorted(found, key=lambda chain: chain.path)
