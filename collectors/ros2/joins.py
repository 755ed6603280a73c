"""Join over time: find what an address meant at a time, and what a thread did next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from polars._typing import AsofJoinStrategy

_ORDER = "_order"


def join_next_in_time(
    left: pl.DataFrame,
    right: pl.DataFrame,
    left_on: str,
    right_on: str,
    by: str | Sequence[str],
    *,
    strategy: AsofJoinStrategy = "backward",
) -> pl.DataFrame:
    """Join each row of `left` with the row of `right` next to it in time, by an asof `strategy`.

    Both frames are sorted first.
    """
    return left.sort(left_on, maintain_order=True).join_asof(
        right.sort(right_on, maintain_order=True),
        left_on=left_on,
        right_on=right_on,
        by=by,
        strategy=strategy,
        check_sortedness=False,
    )


def as_of(
    left: pl.DataFrame,
    right: pl.DataFrame,
    handle: str,
    bring: Sequence[str],
    *,
    time: str = "time_ns",
    since: str = "created_ns",
    strategy: AsofJoinStrategy = "backward",
) -> pl.DataFrame:
    """Add to each row of `left` what its address meant then: the latest such row of `right`.

    Parameters
    ----------
    left
        Has `time`, ``proc`` and `handle`; its order is kept.
    right
        Has `since`, ``proc``, `handle` and `bring`, which `left` must not have.
    handle
        The column of addresses, each of which is valid within its process.
    bring
        Columns of `right` to add; null where nothing matches.
    """
    if left.is_empty() or right.is_empty():
        kinds = right.schema
        return left.with_columns(pl.lit(None, dtype=kinds[name]).alias(name) for name in bring)
    key = ["proc", handle]
    right = right.drop_nulls(key).select(*key, pl.col(since).alias("_since"), *bring)
    joined = join_next_in_time(
        left.with_row_index(_ORDER), right, time, "_since", key, strategy=strategy
    )
    return joined.sort(_ORDER).select(*left.columns, *bring)


def nearest(
    left: pl.DataFrame, right: pl.DataFrame, handle: str, bring: Sequence[str]
) -> pl.DataFrame:
    """Add to each row of `left` the row of `right` with the same address that is nearest in time.

    This is for init events of one object, which are close together, but in an order that depends on
    the kind of object. Both have ``time_ns``, ``proc`` and `handle`; the order of `left` is kept.
    """
    return as_of(left, right, handle, bring, since="time_ns", strategy="nearest")
