"""Read the published figures of rclcpp's communication (2019), and derive what they imply."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from roslens.analysis.estimate import Cell
from roslens.analysis.runs import Run
from roslens.collectors.results.tool_result import read_rows

QUEUE_DEPTH = 10
"""Depth of the study's queues: KEEP_LAST 10."""

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
"""Ways of communication within a process, as `transport_of` returns them."""
_SWITCH = {True: True, False: False, "on": True, "off": False}


def read_published(folder: Path) -> pl.DataFrame:
    """Read the printed table, and add derived columns.

    Returns
    -------
    Per cell (``pointer``, ``intra_process``): ``publisher_period_ms``,
    ``subscription_period_ms``, ``latency_mean_ms`` as printed; ``implied_loss`` (1 - publisher
    period / subscription period), ``periods`` (latency in publisher periods) and ``full``
    (whether the latency is that of a full queue, at least `QUEUE_DEPTH` periods).

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
    """Return the published cell (pointer, intra-process) that the cell of a run resembles.

    Our cells are distinguished by the published pointer (factor ``pointer``), as in the study, or
    by the callback's argument (``callback``). None if no published cell fits, and where the size of
    the messages is in neither factors nor parameters.
    """
    settings = {**run.parameters, **run.cell}
    if not any(name in settings for name in _MESSAGE_SIZE):
        return None
    if any(name in settings and settings[name] != level for name, level in _SIZE.items()):
        return None
    return transport_of(run.cell)


def transport_of(cell: Cell) -> tuple[str, bool] | None:
    """Return pointer and intra-process setting of a cell, whatever its load, or None."""
    pointer = cell.get("pointer", cell.get("callback"))
    intra = _SWITCH.get(cell.get("intra_process", ""))
    if isinstance(pointer, str) and intra is not None:
        return pointer.removesuffix("_ptr"), intra
    return None


def by_reference(cell: Cell) -> bool:
    """Return whether a cell publishes by reference with intra-process communication on.

    Only the factor ``pointer`` shows this: ``callback`` describes how messages are taken.
    """
    return "pointer" in cell and transport_of(cell) == ("shared", True)
