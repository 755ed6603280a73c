"""Test the text graph of nodes and topics; expected text by hand."""

from synthetic import Tables

from roslens.analysis.interop.graph_text import dot, mermaid, node_topic_graph

TAKEN = {"subscription_node": "/b", "topic": "/t"}
ONE_RUN = Tables(
    publications=[{"node": "/a", "topic": "/t"}] * 3 + [{"topic": "x"}],
    messages=[{**TAKEN, "take_ns": 1}, {**TAKEN, "callback_start_ns": 2}, TAKEN],
)
"""/a publishes /t three times; /b takes two of them, one with a callback alone."""


def test_the_graph_counts_publications_and_what_was_taken() -> None:
    assert node_topic_graph(ONE_RUN).rows() == [("/a", "/t", True, 3), ("/b", "/t", False, 2)]


def test_dot() -> None:
    assert dot(node_topic_graph(ONE_RUN)).splitlines() == [
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
    assert mermaid(node_topic_graph(ONE_RUN)).splitlines() == [
        "flowchart LR",
        '  n0["/a"]',
        '  n1["/b"]',
        '  t0(["/t"])',
        "  n0 -->|3| t0",
        "  t0 -->|2| n1",
    ]
