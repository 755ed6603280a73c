"""Events that two sessions recorded, each with a time of its own.

``ros2 trace --dual-session`` records what initialises in a snapshot session while another records
what happens; LTTng calls the probe of one session after that of the other, so that the same event
has two times, some hundred ns apart, on one thread, with one payload.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

APART_NS = 100_000_000
"""Two records of one event are hardly further apart, even where the thread was preempted between
them."""

_ROW = "_row"


def recorded_once(frame: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Keep the first record of each event that several traces hold.

    Parameters
    ----------
    frame
        Has ``time_ns``, ``trace`` and `key`; its order is kept.
    key
        What is the same in all records of an event: thread and payload.

    Returns
    -------
    polars.DataFrame
        Without rows of another trace that follow within `APART_NS`, one for one: what one trace
        holds twice happened twice.
    """
    traces = frame["trace"].unique(maintain_order=True).to_list()
    if len(traces) < 2:
        return frame
    rows = frame.with_row_index(_ROW)
    kept = rows.filter(pl.col("trace") == traces[0])
    for trace in traces[1:]:
        kept = _merged(kept, rows.filter(pl.col("trace") == trace), key)
    return kept.sort(_ROW).drop(_ROW)


def _merged(kept: pl.DataFrame, new: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The rows of both, without the later of each two that are records of one event."""
    both = pl.concat([kept.with_columns(_new=pl.lit(0)), new.with_columns(_new=pl.lit(1))])
    both = both.sort("time_ns", _ROW)
    # 1 where a new row follows one that was kept, -1 the other way round.
    both = both.with_columns(
        pl.col("_new").diff().over(key).alias("_step"),
        pl.col("time_ns").diff().over(key).alias("_apart"),
    )
    near = both.filter((pl.col("_step") != 0) & (pl.col("_apart") <= APART_NS))
    if near.is_empty():
        return both.select(kept.columns)
    # Probes are called in one order, always: that in which records are the nearest.
    order = near.group_by("_step").agg(pl.col("_apart").median()).sort("_apart", "_step")
    again = (pl.col("_step") == order["_step"][0]) & (pl.col("_apart") <= APART_NS)
    return both.filter(~again.fill_null(value=False)).select(kept.columns)
