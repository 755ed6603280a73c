"""Find nodes that wait for several topics, by callbacks that take turns in publishing.

A node that publishes when the last of its inputs has come publishes now in the callback of one
topic, now in that of another; each topic alone seems to lose messages that others completed.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import yaml

from roslens.analysis.flow.chain import Tables, flow_tables
from roslens.analysis.flow.links import Link, link_between
from roslens.collectors.topics import internal

LEAST_PUBLICATIONS = 10
SHARE = 0.9
"""Least part of the publications that must come after as many messages of each topic."""


def suggested_links(tables: Tables, links: Sequence[Link] = ()) -> list[Link]:
    """Return undeclared links of kind ``partial_sync`` that the recordings suggest.

    Two or more topics are such inputs of a published topic if the node published it in the
    callbacks of each, at least `LEAST_PUBLICATIONS` times, as often as it received each of them,
    and nearly always (`SHARE`) no sooner: the n-th time after n messages of each. A node that
    passes on every message it receives publishes more often than that.

    Parameters
    ----------
    tables
        Tables of one run or of several.
    links
        Declared links; the topics of nodes in these links are not examined.
    """
    _, publications, instances, declared = flow_tables(tables)
    all_links = [*links, *declared]
    received = instances.filter(pl.col("kind") == "subscription").select(
        "run",
        "node",
        pl.col("name").alias("inlet"),
        "callback_instance_id",
        pl.col("start_ns").alias("since_ns"),
    )
    sent = publications.filter(~internal() & pl.col("node").is_not_null()).select(
        "run",
        "node",
        pl.col("topic").alias("outlet"),
        "message_id",
        pl.col("publish_ns").alias("out_ns"),
        "callback_instance_id",
    )
    within = sent.join(received, on=["run", "node", "callback_instance_id"])
    candidates = (
        within.group_by("node", "outlet", maintain_order=True)
        .agg(pl.col("inlet").unique().sort())
        .filter(pl.col("inlet").list.len() > 1)
        .sort("node", "outlet")
    )
    suggested: list[Link] = []
    for node, outlet, inlets in candidates.iter_rows():
        if any(link_between(all_links, node, inlet, outlet) for inlet in inlets):
            continue
        outputs = sent.filter((pl.col("node") == node) & (pl.col("outlet") == outlet))
        each = [
            received.filter((pl.col("node") == node) & (pl.col("inlet") == inlet))
            for inlet in inlets
        ]
        if outputs.height >= LEAST_PUBLICATIONS and all(
            _pair_up(outputs, inputs) for inputs in each
        ):
            suggested += [Link("partial_sync", node, inlet, outlet) for inlet in inlets]
    return suggested


def _pair_up(outputs: pl.DataFrame, inputs: pl.DataFrame) -> bool:
    """Return whether nearly each publication found an input of its own, and few inputs are left."""
    if outputs.height < SHARE * inputs.height:
        return False
    events = pl.concat(
        [
            outputs.select("run", at="out_ns", came=0, went=1),
            inputs.select("run", at="since_ns", came=1, went=0),
        ]
    ).sort("at", maintain_order=True)
    sums = (pl.col("came").cum_sum(), pl.col("went").cum_sum())
    counted = events.select("went", *(
        total.over("run").alias(name)
        for total, name in zip(sums, ("all_came", "all_went"), strict=True)
    ))  # fmt: skip
    served = counted.filter((pl.col("went") == 1) & (pl.col("all_came") >= pl.col("all_went")))
    return served.height >= SHARE * outputs.height


def as_yaml(links: Sequence[Link]) -> str:
    """Return links as YAML, as a file declares them (`roslens.analysis.flow.links.links_of`)."""
    entries: dict[tuple[str, str, str], list[str]] = {}
    for link in links:
        entries.setdefault((link.kind, link.node, link.publisher), []).append(link.subscription)
    declarations = [
        {"kind": kind, "node": node, "subscriptions": inlets, "publishers": [outlet]}
        for (kind, node, outlet), inlets in entries.items()
    ]
    return yaml.safe_dump(
        {"links": declarations}, sort_keys=False, default_flow_style=None, width=100
    )
