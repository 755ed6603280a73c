"""A figure and its caption; matplotlib's drawing code is imported only when it is shown."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 9.0
"""Inches; the width of a report."""

DPI = 144


@dataclass(frozen=True)
class Plot:
    """A figure with the caption that belongs to it.

    Attributes
    ----------
    caption
        What is shown, number of runs and samples, and the definition.
    alternative
        What a reader who cannot see it is told.
    """

    figure: Figure
    caption: str
    alternative: str = ""

    def png(self) -> bytes:
        """The figure as PNG."""
        stream = io.BytesIO()
        self.figure.savefig(stream, format="png", dpi=DPI, facecolor="white")
        return stream.getvalue()

    def __str__(self) -> str:
        return self.caption

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png()).decode("ascii")
        alternative = escape(self.alternative or self.caption, quote=True)
        return (
            f'<figure class="roslens-figure" style="margin:1em 0"><img alt="{alternative}" '
            f'style="width:100%;max-width:{WIDTH * 110:.0f}px;background:white" '
            f'src="data:image/png;base64,{data}"><figcaption style="max-width:60em">'
            f"{escape(self.caption)}</figcaption></figure>"
        )
