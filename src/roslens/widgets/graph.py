"""The graph of nodes and topics in a notebook, in which edges, nodes and topics can be chosen."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anywidget
import traitlets

from roslens.analysis.figures.drawing import Drawing

_HERE = Path(__file__).resolve().parent
_NOTHING = "No node sent a message on a topic of its own."


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
