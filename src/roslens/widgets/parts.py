"""Provide the parts of the start page: tables, the graph, and the path of a message."""

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
    """Table of a frame, one line per row; sorted by its headings, with rows that can be chosen.

    Attributes
    ----------
    content
        The table's ``columns`` and ``rows``.
    chosen
        Number of the frame's row that was clicked; -1 if there is none.
    choosable
        Whether rows can be chosen.
    """

    _esm = _HERE / "table.js"
    _css = _HERE / "table.css"

    content: Any = traitlets.Dict().tag(sync=True)
    chosen = traitlets.Int(-1).tag(sync=True)
    choosable = traitlets.Bool(default_value=False).tag(sync=True)

    def __init__(self, frame: pl.DataFrame, *, choosable: bool = False) -> None:
        super().__init__(content=_content(frame), choosable=choosable)

    def show(self, frame: pl.DataFrame) -> None:
        """Show another frame, with no row chosen."""
        with self.hold_sync():
            self.content, self.chosen = _content(frame), -1


def _content(frame: pl.DataFrame) -> dict[str, Any]:
    # JSON has no representation of NaN.
    cleaned = frame.with_columns(pl.selectors.float().fill_nan(None))
    return {"columns": cleaned.columns, "rows": [list(row) for row in cleaned.iter_rows()]}


class GraphWidget(anywidget.AnyWidget):
    """Drawing of `roslens.analysis.figures.graph.draw_graph` that reacts to clicks.

    Attributes
    ----------
    chosen
        ``node`` and ``topic`` of the clicked element, both for an edge; empty without a click.
    marked
        Pairs of node and topic (one may be empty) that are highlighted.
    """

    _esm = _HERE / "graph.js"
    _css = _HERE / "graph.css"

    svg = traitlets.Unicode().tag(sync=True)
    caption = traitlets.Unicode().tag(sync=True)
    chosen: Any = traitlets.Dict().tag(sync=True)
    marked: traitlets.List[Any] = traitlets.List().tag(sync=True)

    def show(self, drawing: Drawing | None) -> None:
        """Show another drawing; None if there is nothing to draw."""
        self.svg = drawing.svg if drawing else ""
        self.caption = drawing.caption if drawing else _NOTHING

    def mark(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Highlight the edges between these nodes and topics."""
        self.marked = [list(pair) for pair in pairs]

    def name_chosen(self) -> str:
        """Return the chosen topic, else the chosen node; empty if nothing is chosen."""
        return str(self.chosen.get("topic") or self.chosen.get("node") or "")


def _name(text: str) -> str:
    """Escape a name from the trace, and isolate its writing direction."""
    return f"<bdi>{escape(text or '?')}</bdi>"


def message_html(way: Sequence[Journey], clicked: int | None) -> str:
    """Show messages that led to each other, one below the other on one time axis.

    Parameters
    ----------
    way
        The messages in time order, each with at least one hop.
    clicked
        Callback instance of the clicked message.
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
