"""Pair a figure with its caption; matplotlib's drawing code is imported only for showing it."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 9.0
"""Width of a report in inches."""

DPI = 144
_COLOURS = 128


@dataclass(frozen=True)
class Plot:
    """A figure with the caption that belongs to it.

    Attributes
    ----------
    caption
        What is shown, number of runs and samples, and the definition.
    left_out
        A sentence on what is not drawn, shown wherever the figure is; empty if all is drawn.
    """

    figure: Figure
    caption: str
    left_out: str = ""

    def png(self) -> bytes:
        """Return the figure as PNG, with only as many colours as needed: a third of the bytes."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
        from PIL import Image  # noqa: PLC0415  (as matplotlib: only when it is shown)

        # Not by savefig, which draws twice if the layout is not fixed.
        canvas: Any = FigureCanvasAgg(self.figure)
        pixels, size = canvas.print_to_buffer()
        small = io.BytesIO()
        image = Image.frombytes("RGBA", size, pixels).convert("RGB")
        image.quantize(_COLOURS, dither=Image.Dither.NONE).save(small, "PNG")
        return small.getvalue()

    def __str__(self) -> str:
        return f"{self.caption} {self.left_out}".rstrip()

    def _repr_html_(self) -> str:
        data = base64.b64encode(self.png()).decode("ascii")
        alt = escape(str(self), quote=True)
        return (
            f'<figure class="roslens-figure" style="margin:1em 0"><img alt="{alt}" '
            f'style="width:100%;max-width:{WIDTH * 110:.0f}px;background:white" '
            f'src="data:image/png;base64,{data}"><figcaption style="max-width:60em">'
            f"{escape(str(self))}</figcaption></figure>"
        )
