"""Linear passes over events in the order of time, with a state per thread, in native code.

Frames have ``time_ns`` and ``thread`` and are sorted by time. Of rows of the same time those of
the frame named first come first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from roslens.collectors import _native

_WHERE = ("time_ns", "thread")


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
    found = pl.DataFrame(_native.timeline([frame.select(_WHERE) for frame in frames]))
    return found["part"], found["row"]


class Previous:
    """What came before each row of several frames on its thread."""

    def __init__(self, frames: Sequence[pl.DataFrame]) -> None:
        self._found = _rows(_native.previous([frame.select(_WHERE) for frame in frames]))
        self._sizes = [frame.height for frame in frames]

    def rows(self, kind: int, of: int) -> pl.Series:
        """The row of the frame `of` that precedes each row of the frame `kind`.

        Null where none, or one of another frame, is the last one before it.
        """
        begin, size = sum(self._sizes[:of]), self._sizes[of]
        found = self._found.slice(sum(self._sizes[:kind]), self._sizes[kind])
        row = pl.col("row")
        inside = (row >= begin) & (row < begin + size)
        return found.to_frame("row").select(pl.when(inside).then(row - begin)).to_series()


def ends_of(starts: pl.DataFrame, ends: pl.DataFrame, key: str) -> pl.Series:
    """The row of `ends` that closes each start, or null.

    That is the next one of its thread and key, unless another start of these comes first.
    """
    return _rows(_native.pairs(_keyed(starts, key), _keyed(ends, key)))


def first_after(heads: pl.DataFrame, rows: pl.DataFrame, key: str | None = None) -> pl.Series:
    """The first row of `rows` that follows each head on its thread before the next head, or null.

    With a key only rows of the head's own key count; a row without key never does.
    """
    if key is None:
        return _rows(_native.first_after(heads.select(_WHERE), rows.select(_WHERE), keyed=False))
    known = rows[key].is_not_null()
    if not known.all():
        found = first_after(heads, rows.filter(known), key)
        return known.arg_true().gather(found)
    return _rows(_native.first_after(_keyed(heads, key), _keyed(rows, key), keyed=True))


def innermost(intervals: pl.DataFrame, moments: pl.DataFrame) -> pl.Series:
    """The interval of its thread that began last of those that last at each moment, or null.

    `intervals` has ``end_ns``, beside; both ends are part of it. One without an end lasts until
    the next one of its thread begins.
    """
    known = intervals.select(*_WHERE, pl.col("end_ns").fill_null(2**63 - 1))
    return _rows(_native.innermost(known, moments.select(_WHERE)))


def places_of(values: pl.Series, known: pl.Series) -> pl.Series:
    """The place of each value among sorted ones, null where it is none of them.

    Both of 64-bit integers. Fast where values come nearly in their order.
    """
    frames = (series.alias("key").to_frame() for series in (values, known))
    return _rows(_native.places_of(*frames))


def extents(rows: pl.DataFrame) -> pl.DataFrame:
    """``key``, ``begin_ns``, ``end_ns`` and ``events``: the times of each key's rows, their number.

    ``time_ns`` and ``key`` are 64-bit integers without null; keys come in their first rows' order.
    """
    return pl.DataFrame(_native.extents(rows.select("time_ns", "key")))


def firsts(rows: pl.Series, keys: pl.Series, count: int) -> pl.Series:
    """Whether each pair has a row and is the first of its kind; rows, below `count`, as `places_of`
    gives them, keys of 64-bit integers without null.
    """  # noqa: D205
    pairs = pl.DataFrame([rows.alias("row"), keys.alias("key")])
    return pl.DataFrame(_native.firsts(pairs, count))["first"]


def _keyed(frame: pl.DataFrame, key: str) -> pl.DataFrame:
    return frame.select(*_WHERE, pl.col(key).alias("key"))


def _rows(found: Any) -> pl.Series:
    return pl.DataFrame(found)["row"]
