"""The graph of nodes and topics; expected text by hand."""

from __future__ import annotations

import polars as pl

from roslens.analysis.interop.graph_text import dot, mermaid, node_topic_graph


class OneRun:
    """/a publishes /t three times; /b takes two of them, one with a callback alone."""

    def table(self, name: str) -> pl.LazyFrame:
        if name == "publications":
            return pl.LazyFrame({"node": ["/a"] * 3 + [None], "topic": ["/t"] * 3 + ["x"]})
        return pl.LazyFrame(
            {
                "subscription_node": ["/b"] * 3,
                "topic": ["/t"] * 3,
                "take_ns": [1, None, None],
                "callback_start_ns": [None, 2, None],
            }
        )


def test_the_graph_counts_publications_and_what_was_taken() -> None:
    assert node_topic_graph(OneRun()).rows() == [("/a", "/t", True, 3), ("/b", "/t", False, 2)]


def test_dot() -> None:
    assert dot(node_topic_graph(OneRun())).splitlines() == [
        "digraph {",
        "  rankdir=LR;",
        '  "n /a" [label="/a", shape=box];',
        '  "n /b" [label="/b", shape=box];',
        '  "t /t" [label="/t"];',
        '  "n /a" -> "t /t" [label="3"];',
        '  "t /t" -> "n /b" [label="2"];',
        "}",
    ]


def test_mermaid() -> None:
    assert mermaid(node_topic_graph(OneRun())).splitlines() == [
        "flowchart LR",
        '  n0["/a"]',
        '  n1["/b"]',
        '  t0(["/t"])',
        "  n0 -->|3| t0",
        "  t0 -->|2| n1",
    ]
