"""The published figures of rclcpp's communication (2019): as printed, and what they imply."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from analysis.estimate import Cell
from tracing.recording import UsageError

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
_SIZE = {"publishers": 1, "message_bytes": 10_000_000}


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
    path = folder / "rclcpp_pr636.csv"
    try:
        frame = pl.read_csv(path, schema=_SCHEMA)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise UsageError(f"{path}: cannot be read: {str(error).splitlines()[0]}") from error
    periods = pl.col("latency_mean_ms") / pl.col("publisher_period_ms")
    return frame.with_columns(
        implied_loss=1 - pl.col("publisher_period_ms") / pl.col("subscription_period_ms"),
        periods=periods,
        full=periods >= QUEUE_DEPTH,
    )


def published_cell(cell: Cell) -> tuple[str, bool] | None:
    """Which of the published cells (pointer, intra-process) a cell of ours resembles.

    Ours are told apart by what the callback takes (factor ``callback``), the study's by what is
    published. None for none of them.
    """
    if any(name in cell and cell[name] != level for name, level in _SIZE.items()):
        return None
    callback, intra = cell.get("callback"), cell.get("intra_process")
    if isinstance(callback, str) and isinstance(intra, bool):
        return callback.removesuffix("_ptr"), intra
    return None
