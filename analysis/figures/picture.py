"""Wrap the figures of reports for users: matplotlib figures, shown with their captions."""

from __future__ import annotations

from matplotlib.figure import Figure

from roslens.analysis.figures.plot import Plot


class Picture(Figure):
    """A matplotlib figure that a notebook shows with its caption.

    Change it (``picture.axes[0].set_xlim(0, 5)``), save it (``picture.savefig("latency.pdf")``).

    Attributes
    ----------
    caption
        What is shown, of how many runs, and the definition.
    """

    caption: str = ""

    def _repr_html_(self) -> str:
        return Plot(self, self.caption)._repr_html_()
