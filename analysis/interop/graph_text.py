"""Write nodes and topics as a graph in the languages of Graphviz and Mermaid."""

from __future__ import annotations

import re

import polars as pl

from roslens.analysis.flow.chain import Tables
from roslens.recording.text import shown


def node_topic_graph(tables: Tables) -> pl.DataFrame:
    """Count the messages each node published on and took from each topic, over all runs.

    Returns
    -------
    polars.DataFrame
        ``node``, ``topic``, ``publishes`` (else it receives), ``count`` (publications, or
        messages taken); sorted. The middleware's own endpoints, without a node, are left out.
    """
    sent = tables.table("publications").select(
        "node", "topic", pl.lit(value=True).alias("publishes")
    )
    taken = (
        tables.table("messages")
        .filter(pl.col("take_ns").is_not_null() | pl.col("callback_start_ns").is_not_null())
        .select(
            pl.col("subscription_node").alias("node"), "topic",
            pl.lit(value=False).alias("publishes"),
        )
    )  # fmt: skip
    return (
        pl.concat([sent, taken])
        .drop_nulls()
        .group_by(pl.all())
        .agg(pl.len().alias("count"))
        .sort("node", "topic", "publishes")
        .collect()
    )


def dot(graph: pl.DataFrame) -> str:
    """Return the graph for Graphviz: nodes as boxes, topics as ellipses, edges with counts."""
    lines = ["digraph {", "  rankdir=LR;"]
    lines += [
        f"  {_quoted('n ' + n)} [label={_quoted(n)}, shape=box];" for n in _names(graph, "node")
    ]
    lines += [f"  {_quoted('t ' + t)} [label={_quoted(t)}];" for t in _names(graph, "topic")]
    for node, topic, publishes, count in graph.iter_rows():
        ends = [_quoted("n " + node), _quoted("t " + topic)]
        start, end = ends if publishes else reversed(ends)
        lines.append(f'  {start} -> {end} [label="{count}"];')
    return "\n".join([*lines, "}", ""])


def mermaid(graph: pl.DataFrame) -> str:
    """Return the graph for Mermaid: nodes as boxes, topics rounded, edges with counts."""
    nodes = {name: f"n{k}" for k, name in enumerate(_names(graph, "node"))}
    topics = {name: f"t{k}" for k, name in enumerate(_names(graph, "topic"))}
    lines = ["flowchart LR"]
    lines += [f"  {number}[{_in_mermaid(name)}]" for name, number in nodes.items()]
    lines += [f"  {number}([{_in_mermaid(name)}])" for name, number in topics.items()]
    for node, topic, publishes, count in graph.iter_rows():
        ends = [nodes[node], topics[topic]]
        start, end = ends if publishes else reversed(ends)
        lines.append(f"  {start} -->|{count}| {end}")
    return "\n".join([*lines, ""])


def _names(graph: pl.DataFrame, column: str) -> list[str]:
    return graph[column].unique().sort().to_list()


def _quoted(text: str) -> str:
    # ROS names contain letters, digits, "_", "/" and "~"; escaping keeps other text valid.
    escaped = shown(text).replace("\\", "\\\\").replace('"', "'")
    return f'"{escaped}"'


def _in_mermaid(text: str) -> str:
    # Mermaid reads a label as HTML, and "#60;" is its own escape for "<".
    escaped = re.sub(r'[#&<>"`]', lambda match: f"#{ord(match[0])};", shown(text))
    return f'"{escaped}"'
