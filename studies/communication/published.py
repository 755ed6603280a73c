"""The published figures of rclcpp's communication (2019): as printed, and what they imply."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from roslens.analysis.estimate import Cell
from roslens.analysis.runs import Run
from roslens.collectors.results.tool_result import read_rows

QUEUE_DEPTH = 10
"""The study's queues: KEEP_LAST 10."""

_SCHEMA = pl.Schema(
    {
        "pointer": pl.String,
        "intra_process": pl.Boolean,
        "publisher_period_ms": pl.Float64,
        "subscription_period_ms": pl.Float64,
        "latency_mean_ms": pl.Float64,
    }
)
_SIZE = {
    "publishers": 1,
    "subscriptions": 1,
    "processes": 1,
    "outside": 0,
    "message_bytes": 10_000_000,
    "payload": 10_000_000,
}
_MESSAGE_SIZE = ("message_bytes", "payload")
WITHIN = {("shared", True), ("unique", True)}
"""Ways within a process, as `way_of` gives them."""
_SWITCH = {True: True, False: False, "on": True, "off": False}


def read_published(folder: Path) -> pl.DataFrame:
    """The printed table, with what follows from it.

    Returns
    -------
    Per cell (``pointer``, ``intra_process``): ``publisher_period_ms``,
    ``subscription_period_ms``, ``latency_mean_ms`` as printed; ``implied_loss`` (1 - publisher
    period / subscription period), ``periods`` (latency in publisher periods) and ``full``
    (whether that is the length of a full queue, by at least `QUEUE_DEPTH`).

    Raises
    ------
    UsageError
        The table is not in `folder`.
    """
    frame = read_rows(folder / "rclcpp_pr636.csv", _SCHEMA)
    periods = pl.col("latency_mean_ms") / pl.col("publisher_period_ms")
    return frame.with_columns(
        implied_loss=1 - pl.col("publisher_period_ms") / pl.col("subscription_period_ms"),
        periods=periods,
        full=periods >= QUEUE_DEPTH,
    )


def published_cell(run: Run) -> tuple[str, bool] | None:
    """Which of the published cells (pointer, intra-process) the cell of a run resembles.

    Ours are told apart by what is published (factor ``pointer``), as the study's, or by what the
    callback takes (``callback``). None for none of them, and where the size of the messages is in
    neither factors nor parameters.
    """
    settings = {**run.parameters, **run.cell}
    if not any(name in settings for name in _MESSAGE_SIZE):
        return None
    if any(name in settings and settings[name] != level for name, level in _SIZE.items()):
        return None
    return way_of(run.cell)


def way_of(cell: Cell) -> tuple[str, bool] | None:
    """Pointer and intra-process communication of a cell, whatever its load; None without either."""
    pointer = cell.get("pointer", cell.get("callback"))
    intra = _SWITCH.get(cell.get("intra_process", ""))
    if isinstance(pointer, str) and intra is not None:
        return pointer.removesuffix("_ptr"), intra
    return None


def by_reference(cell: Cell) -> bool:
    """Whether a cell publishes by reference with intra-process communication on.

    Only the factor ``pointer`` says so: ``callback`` is what is taken.
    """
    return "pointer" in cell and way_of(cell) == ("shared", True)
