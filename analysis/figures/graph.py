"""Draw the graph of nodes and topics, with rates, latency and loss on its edges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from graphlib import TopologicalSorter
from html import escape
from typing import Any, TypeVar

import polars as pl

from roslens.analysis.figures.drawing import Drawing, short
from roslens.analysis.reports.numbers import significant
from roslens.collectors.topics import INFRASTRUCTURE

MOST_TOPICS = 40
"""Most topics that are drawn, the busiest ones; the others are only counted."""

_CHARACTER = 6.6
_BOX, _ROW, _EDGE = 26, 62, 150
_LOSS, _TEXT, _LINE = "#d55e00", "#1c1c1c", "#7a7a7a"

_CAPTION = (
    "Nodes (boxes) and topics (rounded). On the way to a topic: its rate; from a topic: the "
    "median latency from publish to callback_start of what was delivered, and the part that "
    "was lost, where any was; lines are the thicker the higher the rate, orange where "
    "messages were lost."
)

Vertex = tuple[bool, str]
"""Whether the vertex is a topic, and its name."""


def draw_graph(
    edges: pl.DataFrame, *, below: Mapping[str, str] | None = None, caption: str = _CAPTION
) -> Drawing | None:
    """Draw nodes as boxes, topics rounded; None if there is nothing to draw.

    Parameters
    ----------
    edges
        From `roslens.analysis.overview.runs_and_topics.graph_edges`.
    below
        Text to write below boxes, by name of the node.
    caption
        What is shown, as a caption.
    """
    below = below or {}
    application = edges.filter(~pl.col("topic").is_in(INFRASTRUCTURE))
    busiest = application.group_by("topic").agg(pl.col("messages").sum()).sort("messages", "topic")
    shown = application.filter(pl.col("topic").is_in(busiest["topic"].tail(MOST_TOPICS).to_list()))
    if not shown.height:
        return None
    rows = list(shown.iter_rows(named=True))
    nodes: list[Vertex] = [(False, name) for name in sorted({r["node"] for r in rows})]
    topics: list[Vertex] = [(True, name) for name in sorted({r["topic"] for r in rows})]
    pairs = [
        ((False, r["node"]), (True, r["topic"]))
        if r["publishes"]
        else ((True, r["topic"]), (False, r["node"]))
        for r in rows
    ]
    layers = layered([*nodes, *topics], pairs)
    boxes, width, height = _place(layers)
    ends = [(boxes[a], boxes[b]) for a, b in pairs]
    drawn = [_edge(row, *end) for row, end in zip(rows, ends, strict=True)]
    drawn += [_vertex(vertex, *boxes[vertex]) for vertex in boxes]
    drawn += [_text_below(below[v[1]], *boxes[v]) for v in boxes if not v[0] and v[1] in below]
    # Text comes last, so that no line crosses it.
    drawn += [_label(row, *end) for row, end in zip(rows, ends, strict=True)]
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="width:100%;min-width:{min(width, 700):.0f}px;max-width:{width:.0f}px;'
        'background:#fff" role="img" aria-label="graph of nodes and topics" '
        f'font-family="system-ui, sans-serif" font-size="11">{"".join(drawn)}</svg>'
    )
    left_out = busiest.height - len(topics)
    more = f" {left_out:,} less busy topics are not shown." if left_out else ""
    return Drawing(
        svg,
        f"{caption}{more} {' and '.join(INFRASTRUCTURE)} are left out.",
    )


Box = tuple[float, float, float]
"""Left edge, vertical middle, width; all in px."""


def _place(layers: list[list[Vertex]]) -> tuple[dict[Vertex, Box], float, float]:
    highest = max(map(len, layers))
    boxes: dict[Vertex, Box] = {}
    x = 8.0
    for layer in layers:
        widths = [_CHARACTER * len(short(name)) + 20 for _, name in layer]
        top = (highest - len(layer)) * _ROW / 2
        for i, (vertex, width) in enumerate(zip(layer, widths, strict=True)):
            boxes[vertex] = (x + (max(widths) - width) / 2, top + (i + 0.5) * _ROW, width)
        x += max(widths) + _EDGE
    return boxes, x - _EDGE + 8, highest * _ROW + 30


def _vertex(vertex: Vertex, x: float, y: float, width: float) -> str:
    topic, name = vertex
    fill, stroke = ("#e8f1f8", "#0072b2") if topic else ("#f4f4f4", "#555")
    return (
        f'<g data-{"topic" if topic else "node"}="{escape(name, quote=True)}">'
        f"<title>{escape(name)}</title>"
        f'<rect x="{x:.1f}" y="{y - _BOX / 2:.1f}" width="{width:.1f}" height="{_BOX}" '
        f'rx="{_BOX / 2 if topic else 3}" fill="{fill}" stroke="{stroke}"/>'
        f'<text x="{x + width / 2:.1f}" y="{y + 4:.1f}" text-anchor="middle" fill="{_TEXT}">'
        f"{escape(short(name))}</text></g>"
    )


def _text_below(text: str, x: float, y: float, width: float) -> str:
    return (
        f'<text x="{x + width / 2:.1f}" y="{y + _BOX / 2 + 12:.1f}" text-anchor="middle" '
        f'fill="{_TEXT}">{escape(text)}</text>'
    )


def _ends(start: Box, end: Box) -> tuple[float, float, float, float, float]:
    """Return both ends of an edge and how far it hangs: an edge that leads back hangs below."""
    if end[0] > start[0]:
        return start[0] + start[2], start[1], end[0], end[1], 0.0
    return start[0], start[1] + 6, end[0] + end[2], end[1] + 6, _ROW * 0.55


def _edge(row: dict[str, Any], start: Box, end: Box) -> str:
    x0, y0, x1, y1, hang = _ends(start, end)
    bend = (x1 - x0) / 2 if not hang else (x1 - x0) / 4
    width = 1 + min(3.0, (row["rate_hz"] or 0) ** 0.5 / 8)
    colour = _LOSS if row["lost"] else _LINE
    side = 7 if x1 >= x0 else -7
    curve = (
        f"M{x0:.1f},{y0:.1f} C{x0 + bend:.1f},{y0 + hang:.1f} "
        f"{x1 - bend:.1f},{y1 + hang:.1f} {x1 - side:.1f},{y1:.1f}"
    )
    node, topic = str(row["node"]), str(row["topic"])
    ends = (node, topic) if row["publishes"] else (topic, node)
    return (
        f'<g data-node="{escape(node, quote=True)}" data-topic="{escape(topic, quote=True)}">'
        f"<title>{escape(' → '.join(ends))}</title>"
        # Invisible, and wide enough to be hit by a pointer.
        f'<path d="{curve}" fill="none" stroke="#fff" stroke-opacity="0" stroke-width="14"/>'
        f'<path class="line" d="{curve}" fill="none" stroke="{colour}" '
        f'stroke-width="{width:.2f}"/>'
        f'<path d="M{x1:.1f},{y1:.1f} l{-side},-4 v8 z" fill="{colour}"/></g>'
    )


def _label(row: dict[str, Any], start: Box, end: Box) -> str:
    x0, y0, x1, y1, hang = _ends(start, end)
    # The middle of the cubic curve.
    x, y = (x0 + x1) / 2, (y0 + y1) / 2 + 0.75 * hang + (18 if hang else 0)
    lines = []
    if row["publishes"]:
        lines += [f"{significant(row['rate_hz'], 3)} Hz"] if row["rate_hz"] else []
    else:
        lines += [f"{significant(row['p50_ms'], 3)} ms"] if row["p50_ms"] is not None else []
        lines += [f"{100 * row['lost']:.2g} % lost"] if row["lost"] else []
    halo = 'paint-order="stroke" stroke="#fff" stroke-width="4"'
    return "".join(
        f'<text x="{x:.1f}" y="{y - 5 + 13 * i:.1f}" text-anchor="middle" pointer-events="none" '
        f'fill="{_LOSS if "lost" in line else _TEXT}" {halo}>{escape(line)}</text>'
        for i, line in enumerate(lines)
    )


AnyVertex = TypeVar("AnyVertex", bound=Hashable)
_SWEEPS = 8


def layered(
    vertices: Sequence[AnyVertex], edges: Sequence[tuple[AnyVertex, AnyVertex]]
) -> list[list[AnyVertex]]:
    """Return the vertices by layer, each layer from top to bottom.

    Every edge leads to a later layer, except those that close a cycle.
    """
    forward = _without_cycles(vertices, edges)
    before: dict[AnyVertex, set[AnyVertex]] = defaultdict(set)
    after: dict[AnyVertex, set[AnyVertex]] = defaultdict(set)
    for a, b in forward:
        before[b].add(a)
        after[a].add(b)
    layer: dict[AnyVertex, int] = {}
    for vertex in TopologicalSorter({v: before[v] for v in vertices}).static_order():
        layer[vertex] = 1 + max((layer[u] for u in before[vertex]), default=-1)
    layers: list[list[AnyVertex]] = [[] for _ in range(1 + max(layer.values(), default=-1))]
    for vertex in vertices:
        layers[layer[vertex]].append(vertex)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        _order(layers if down else layers[::-1], before if down else after)
    return layers


def _without_cycles(
    vertices: Sequence[AnyVertex], edges: Sequence[tuple[AnyVertex, AnyVertex]]
) -> set[tuple[AnyVertex, AnyVertex]]:
    """Return the edges, with those that close a cycle reversed and loops left out."""
    after: dict[AnyVertex, list[AnyVertex]] = defaultdict(list)
    for a, b in edges:
        after[a].append(b)
    forward: set[tuple[AnyVertex, AnyVertex]] = set()
    state: dict[AnyVertex, int] = {}
    targets = {b for _, b in edges}
    # Vertices without incoming edges first, so that a cycle is cut where it was entered.
    for start in sorted(vertices, key=lambda v: v in targets):
        if start in state:
            continue
        state[start] = 1
        stack = [(start, iter(after[start]))]
        while stack:
            vertex, following = stack[-1]
            for target in following:
                if target == vertex:
                    continue
                if state.get(target) == 1:
                    forward.add((target, vertex))
                    continue
                forward.add((vertex, target))
                if target not in state:
                    state[target] = 1
                    stack.append((target, iter(after[target])))
                    break
            else:
                state[vertex] = 2
                stack.pop()
    return forward


def _order(layers: list[list[AnyVertex]], neighbours: dict[AnyVertex, set[AnyVertex]]) -> None:
    place: dict[AnyVertex, float] = {}
    for layer in layers:
        mean = {}
        for index, vertex in enumerate(layer):
            places = [place[u] for u in neighbours[vertex] if u in place]
            mean[vertex] = sum(places) / len(places) if places else (index + 0.5) / len(layer)
        layer.sort(key=mean.__getitem__)
        place |= {v: (i + 0.5) / len(layer) for i, v in enumerate(layer)}
