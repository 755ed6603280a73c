"""Linear passes over events in the order of time, with a state per thread (`collectors._native`).

Frames have ``time_ns`` and ``thread`` and are sorted by time. Of rows of the same time those of
the frame named first come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from collectors import _native

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Columns: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64]]


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """Sort by ``time_ns`` what is not; rows of the same time keep their order."""
    return frame if frame["time_ns"].is_sorted() else frame.sort("time_ns", maintain_order=True)


def places(frames: Sequence[pl.DataFrame]) -> tuple[pl.Series, pl.Series]:
    """The rows of all frames, thread by thread in the order of time.

    Returns
    -------
    tuple
        ``part``, the number of each row's frame, and ``row``, its number if the frames lie one
        after the other.
    """
    found = pl.DataFrame(_native.timeline([_columns(frame) for frame in frames]))
    return found["part"], found["row"]


def previous(frames: Sequence[pl.DataFrame]) -> list[list[pl.Series]]:
    """For each frame and each frame, the row of the latter that precedes each row of the former.

    Null where none, or one of another frame, is the last one before it on its thread.
    """
    found = _rows(_native.previous([_columns(frame) for frame in frames]))
    sizes = [frame.height for frame in frames]
    begins = [sum(sizes[:place]) for place in range(len(sizes))]
    parts = [found.slice(begin, size) for begin, size in zip(begins, sizes, strict=True)]
    return [[_within(part, *of) for of in zip(begins, sizes, strict=True)] for part in parts]


def _within(rows: pl.Series, begin: int, size: int) -> pl.Series:
    row = pl.col("row")
    inside = (row >= begin) & (row < begin + size)
    return rows.to_frame("row").select(pl.when(inside).then(row - begin)).to_series()


def ends_of(starts: pl.DataFrame, ends: pl.DataFrame, key: str) -> pl.Series:
    """The row of `ends` that closes each start, as parentheses do per thread and key, or null."""
    keys = starts[key].to_numpy(), ends[key].to_numpy()
    return _rows(_native.pairs(_columns(starts), _columns(ends), keys))


def first_after(heads: pl.DataFrame, rows: pl.DataFrame, key: str | None = None) -> pl.Series:
    """The first row of `rows` that follows each head on its thread before the next head, or null.

    With a key only rows of the head's own key count; a row without key never does.
    """
    if key is None:
        return _rows(_native.first_after(_columns(heads), _columns(rows)))
    known = rows[key].is_not_null()
    if not known.all():
        found = first_after(heads, rows.filter(known), key)
        return known.arg_true().gather(found)
    keys = heads[key].to_numpy(), rows[key].to_numpy()
    return _rows(_native.first_after(_columns(heads), _columns(rows), keys))


def innermost(intervals: pl.DataFrame, moments: pl.DataFrame) -> pl.Series:
    """The interval of its thread that began last of those that last at each moment, or null.

    `intervals` has ``end_ns``, beside; both ends are part of it. One without an end lasts until
    the next one of its thread begins.
    """
    ends = intervals["end_ns"].fill_null(2**63 - 1).to_numpy()
    return _rows(_native.innermost(_columns(intervals), ends, _columns(moments)))


def _columns(frame: pl.DataFrame) -> Columns:
    return frame["time_ns"].to_numpy(), frame["thread"].to_numpy()


def _rows(found: Any) -> pl.Series:
    return pl.DataFrame(found)["row"]
