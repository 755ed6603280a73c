"""A table in a notebook: sorted by its heads, with a row that can be chosen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import polars as pl
import traitlets

_HERE = Path(__file__).resolve().parent


class TableWidget(anywidget.AnyWidget):
    """A frame, each row a line.

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
    known = frame.with_columns(pl.selectors.float().fill_nan(None))
    return {"columns": known.columns, "rows": [list(row) for row in known.iter_rows()]}
