"""Remove the second record of events that two sessions recorded, each with its own time.

``ros2 trace --dual-session`` records initialisation in a snapshot session while another session
records the rest; LTTng calls the probe of one session after that of the other, so that one
event has two times, some hundred ns apart, on one thread, with one payload.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

APART_NS = 100_000_000
"""Two records of one event are hardly further apart than this, even if the thread was preempted
between them."""

_TOGETHER_NS = 10_000
"""Most records of one event are no further apart than this."""

_ROW = "_row"


def recorded_together(events: pl.LazyFrame, fields: Collection[str]) -> bool:
    """Return whether two traces hold the same events of one kind, for most of their common time.

    Parameters
    ----------
    events
        ``time_ns``, ``host``, ``trace``, ``vpid``, ``vtid``, and the existing columns of `fields`.
    """
    process = ["host", "vpid"]
    several = events.group_by(process).agg(pl.col("trace").min() != pl.col("trace").max())
    of_both = several.filter("trace").collect(engine="streaming")
    if of_both.is_empty():
        return False
    schema = events.collect_schema()
    payload = [
        field for field in fields if field in schema and not isinstance(schema[field], pl.List)
    ]
    rows = events.select("time_ns", "trace", *process, "vtid", *payload).join(
        of_both.lazy().select(process), on=process, how="semi", nulls_equal=True
    )
    spans = rows.group_by(*process, "trace").agg(
        begin=pl.col("time_ns").min(), end=pl.col("time_ns").max()
    )
    shared = spans.group_by(process).agg(
        # The common time: from the second begin to the last end but one.
        begin=pl.col("begin").bottom_k(2).max(),
        end=pl.col("end").top_k(2).min(),
    )
    time, trace = pl.col("time_ns"), pl.col("trace")
    near = (trace != trace.shift(1)) & (time.diff() <= _TOGETHER_NS)
    counts = (
        rows.join(shared, on=process, nulls_equal=True)
        .filter(time.is_between("begin", "end"))
        .sort("time_ns")
        .select(again=near.over(*process, "vtid", *payload))
        .select(pl.len(), pl.col("again").sum())
        .collect()
    )
    count, again = counts.row(0)
    return bool(again > 0.25 * count)


def recorded_once(frame: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Keep the first record of each event that several traces hold.

    Parameters
    ----------
    frame
        A frame with ``time_ns``, ``trace`` and `key`; its order is kept.
    key
        Columns that are equal in all records of an event: thread and payload.

    Returns
    -------
    polars.DataFrame
        Rows without those of another trace that follow within `APART_NS`, one for one: an event
        that one trace holds twice happened twice.
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
    """Merge rows, without the later of every two that are records of one event."""
    rows = pl.concat([kept.with_columns(_new=pl.lit(0)), new.with_columns(_new=pl.lit(1))])
    rows = rows.sort("time_ns", _ROW)
    # 1 where a new row follows a kept one, -1 the other way round.
    rows = rows.with_columns(
        pl.col("_new").diff().over(key).alias("_step"),
        pl.col("time_ns").diff().over(key).alias("_apart"),
    )
    near = rows.filter((pl.col("_step") != 0) & (pl.col("_apart") <= APART_NS))
    if near.is_empty():
        return rows.select(kept.columns)
    # Probes are always called in one order: the one in which records are nearest.
    order = near.group_by("_step").agg(pl.col("_apart").median()).sort("_apart", "_step")
    again = (pl.col("_step") == order["_step"][0]) & (pl.col("_apart") <= APART_NS)
    return rows.filter(~again.fill_null(value=False)).select(kept.columns)
