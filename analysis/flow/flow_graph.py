"""Find how messages pass through nodes, and the chains that they form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from roslens.analysis.flow.chain import Chain, Tables, flow_tables
from roslens.analysis.flow.links import Link
from roslens.collectors.topics import internal
from roslens.recording.errors import TooLargeError

_MOST_CHAINS = 1000
_Step = tuple[str, str]


def flow_graph(tables: Tables, links: Sequence[Link] = ()) -> pl.DataFrame:
    """Return how messages pass through nodes, over all runs.

    Returns
    -------
    polars.DataFrame
        ``node``, ``inlet`` (topic received, null where the node publishes on its own), ``outlet``
        (topic published, null where nothing follows), ``kind`` (callback, periodic_async,
        partial_sync, source, sink), ``count`` of messages.
    """
    messages, publications, instances, declared = flow_tables(tables)
    links = [*links, *declared]
    public = ~internal()
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
            runs.select("run", "callback_instance_id", pl.col("name").alias("inlet")),
            on=["run", "callback_instance_id"],
            how="left",
        )
        .group_by("node", "inlet", pl.col("topic").alias("outlet"))
        .agg(pl.len().alias("count"))
    )
    inside = sent.filter(pl.col("inlet").is_not_null())
    stated = pl.DataFrame(
        [(link.node, link.subscription, link.publisher, link.kind) for link in links],
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
    """Return every chain from a publication without a recorded trigger to its end.

    A chain ends at a node whose further publications, if any, no recorded node received. Each hop
    of a message is in some chain. A cycle is followed once; one without a recorded entry begins
    with the first of its nodes. Chains are in the order of their names.

    Raises
    ------
    TooLargeError
        There are more than 1,000 chains: name those of interest.
    """
    receivers: dict[_Step, list[str]] = {}
    flows = flow_tables(tables)[0].select("publisher_node", "topic", "subscription_node")
    for publisher, topic, receiver in flows.drop_nulls().unique().sort(pl.all()).rows():
        receivers.setdefault((publisher, topic), []).append(receiver)
    graph = flow_graph(tables, links).select("node", "inlet", "outlet", "kind").rows()
    heard = [row for row in graph if (row[0], row[2]) in receivers]
    outlets: dict[_Step, list[str]] = {}
    for node, inlet, outlet, kind in heard:
        if kind != "source":
            outlets.setdefault((node, inlet), []).append(outlet)
    reached = {(node, topic) for (_, topic), nodes in receivers.items() for node in nodes}
    # Sources first, then nodes without a recorded trigger, then cycles without a recorded entry.
    begins = sorted(heard, key=lambda row: (row[3] != "source", row[:2] in reached))
    chains: list[Chain] = []
    followed: set[_Step] = set()
    for node, _, outlet, kind in begins:
        if kind == "source" or (node, outlet) not in followed:
            for path in _paths((node, outlet), receivers, outlets, followed):
                chains.append(Chain(path))
                if len(chains) > _MOST_CHAINS:
                    raise TooLargeError(
                        f"there are more than {_MOST_CHAINS} chains; name those of interest, such "
                        "as '/camera -> /image -> /detector'"
                    )
    return sorted(chains, key=lambda chain: chain.path)


def _paths(
    begin: _Step,
    receivers: Mapping[_Step, Sequence[str]],
    outlets: Mapping[_Step, Sequence[str]],
    followed: set[_Step],
) -> Iterator[tuple[str, ...]]:
    """Yield every path from a node and a topic it publishes; add the steps on them to `followed`.

    Parameters
    ----------
    receivers
        Receiving nodes by publishing node and topic.
    outlets
        By node and topic received: topics that it then publishes and that a node received.
    """
    open_paths: list[tuple[str, ...]] = [begin]
    while open_paths:
        path = open_paths.pop()
        node, topic = path[-2:]
        followed.add((node, topic))
        visited = set(zip(path[1::2], path[2::2], strict=False))
        for receiver in receivers[node, topic]:
            further = outlets.get((receiver, topic), [])
            if not further or (topic, receiver) in visited:
                yield (*path, receiver)
            else:
                open_paths += [(*path, receiver, outlet) for outlet in further]
