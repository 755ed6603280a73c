"""Represent an SVG drawing and its caption."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

# HTML implies the namespace.
_NAMESPACE = ' xmlns="http://www.w3.org/2000/svg"'


def short(text: str, most: int = 34) -> str:
    """Cut a label off after `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


@dataclass(frozen=True)
class Drawing:
    """A drawing for reports and notebooks.

    Attributes
    ----------
    svg
        One SVG element, with all text in it escaped.
    caption
        What is shown, with definitions.
    """

    svg: str
    caption: str

    def __str__(self) -> str:
        return self.caption

    def _repr_html_(self) -> str:
        svg = self.svg.replace(_NAMESPACE, "")
        return (
            '<figure class="roslens-figure" style="margin:1em 0;overflow-x:auto">'
            f'{svg}<figcaption style="max-width:60em">{escape(self.caption)}</figcaption>'
            "</figure>"
        )
