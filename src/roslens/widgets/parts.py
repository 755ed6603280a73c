"""What the start page consists of: tables, the graph, and the path of a message."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import polars as pl
import traitlets

from roslens.analysis.figures.drawing import Drawing
from roslens.analysis.reports.numbers import milliseconds
from roslens.analysis.timeline.journey import Journey

_HERE = Path(__file__).resolve().parent
_NOTHING = "No node sent a message on a topic of its own."
_BAR = "background:#0072b2;height:9px;min-width:1px"


class TableWidget(anywidget.AnyWidget):
    """A frame, each row a line; sorted by its heads, with a row that can be chosen.

    Attributes
    ----------
    content
        Its ``columns`` and ``rows``.
    chosen
        Number of the row of the frame that was clicked; -1 without one.
    choosable
        Whether rows can be.
    """

    _esm = _HERE / "table.js"
    _css = _HERE / "table.css"

    content: Any = traitlets.Dict().tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)
    choosable = traitlets.Bool(default_value=False).tag(sync=True)

    def __init__(self, frame: pl.DataFrame, *, choosable: bool = False) -> None:
        super().__init__(content=_content(frame), choosable=choosable)

    def show(self, frame: pl.DataFrame) -> None:
        """Show another frame; nothing is chosen in it."""
        with self.hold_sync():
            self.content, self.chosen = _content(frame), -1


def _content(frame: pl.DataFrame) -> dict[str, Any]:
    # JSON has no number for what is none.
    cleaned = frame.with_columns(pl.selectors.float().fill_nan(None))
    return {"columns": cleaned.columns, "rows": [list(row) for row in cleaned.iter_rows()]}


class GraphWidget(anywidget.AnyWidget):
    """A drawing of `roslens.analysis.figures.graph.draw_graph` that answers to clicks.

    Attributes
    ----------
    chosen
        ``node`` and ``topic`` of what was clicked, both of an edge; empty without anything.
    marked
        Pairs of node and topic (one may be empty) that are to be seen.
    """

    _esm = _HERE / "graph.js"
    _css = _HERE / "graph.css"

    svg = traitlets.Unicode().tag(sync=True)
    caption = traitlets.Unicode().tag(sync=True)
    chosen: Any = traitlets.Dict().tag(sync=True)
    marked: traitlets.List[Any] = traitlets.List().tag(sync=True)

    def show(self, drawing: Drawing | None) -> None:
        """Show another drawing; None where there is nothing to draw."""
        self.svg = drawing.svg if drawing else ""
        self.caption = drawing.caption if drawing else _NOTHING

    def mark(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Mark the edges between these nodes and topics."""
        self.marked = [list(pair) for pair in pairs]

    def name_chosen(self) -> str:
        """The topic, else the node that was chosen; empty without one."""
        return str(self.chosen.get("topic") or self.chosen.get("node") or "")


def _name(text: str) -> str:
    """A name from the trace: text, whose direction of writing stays its own."""
    return f"<bdi>{escape(text or '?')}</bdi>"


def message_html(way: Sequence[Journey], clicked: int | None) -> str:
    """The messages that led to each other, one below the other on one time axis.

    Parameters
    ----------
    way
        In order of time, each with at least one hop.
    clicked
        Callback instance whose message is the one meant.
    """
    begin = min(hop.begin_ns for each in way for hop in each.hops)
    whole = max(1, max(hop.end_ns for each in way for hop in each.hops) - begin)
    rows = []
    for each in way:
        kind = "request" if each.kind == "call" else "message"
        latency = "" if each.latency_ns is None else f", {milliseconds(each.latency_ns)} ms"
        is_clicked = each.callback_instance_id == clicked and len(way) > 1
        rows.append(
            f'<tr><th colspan="3">{"▸ " if is_clicked else ""}{_name(each.topic)}: '
            f"{_name(each.publisher_node)} → {_name(each.subscription_node)}, "
            f"{kind} {each.message_id}, {escape(each.outcome)}{latency}</th></tr>"
        )
        rows += [
            f"<tr><td>{escape(hop.name)}</td><td>{milliseconds(hop.duration_ns)} ms</td>"
            f'<td><div style="{_BAR};margin-left:{100 * (hop.begin_ns - begin) / whole:.2f}%;'
            f'width:{100 * hop.duration_ns / whole:.2f}%"></div></td></tr>'
            for hop in each.hops
        ]
    return f'<table class="roslens-message">{"".join(rows)}</table>'
