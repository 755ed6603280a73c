"""Join over time: find what an address meant at a time, and what a thread did next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from polars._typing import AsofJoinStrategy

_ORDER = "_order"


def beside(
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
    key: Sequence[tuple[str, str]],
    bring: Sequence[str],
    *,
    time: str = "time_ns",
    since: str = "created_ns",
) -> pl.DataFrame:
    """Add to each row of `left` the latest row of `right` with the same key up to its time.

    Parameters
    ----------
    left
        Has `time` and the left key columns; its order is kept.
    right
        Has `since`, the right key columns and `bring`, which `left` must not have.
    key
        Pairs of column names, left and right.
    bring
        Columns of `right` to add; null where nothing matches.
    """
    on_left, on_right = [pair[0] for pair in key], [pair[1] for pair in key]
    if left.is_empty() or right.is_empty():
        kinds = right.schema
        return left.with_columns(pl.lit(None, dtype=kinds[name]).alias(name) for name in bring)
    right = right.select(*on_right, since, *(b for b in bring if b not in (since, *on_right)))
    if right.select(on_right).is_duplicated().any():
        return (
            left.with_row_index(_ORDER)
            .sort(time)
            .join_asof(
                right.with_columns(pl.col(since).alias("_since")).sort("_since"),
                left_on=time,
                right_on="_since",
                by_left=on_left,
                by_right=on_right,
                strategy="backward",
                check_sortedness=False,
            )
            .sort(_ORDER)
            .select(*left.columns, *bring)
        )
    # No address was used twice: a plain join is much faster, by one column if that is unique.
    sole = next((pair for pair in key[::-1] if right[pair[1]].is_unique().all()), None)
    by = [sole] if sole is not None else list(key)
    rest = [pair for pair in key if pair not in by]
    right = right.rename({name: f"_right_{name}" for name in right.columns})
    matches = pl.col(f"_right_{since}") <= pl.col(time)
    for mine, theirs in rest:
        matches &= pl.col(mine) == pl.col(f"_right_{theirs}")
    brought = (
        left.select(*dict.fromkeys([*on_left, time]))
        .join(
            right,
            left_on=[mine for mine, _ in by],
            right_on=[f"_right_{theirs}" for _, theirs in by],
            how="left",
            maintain_order="left",
            coalesce=False,
        )
        .select(pl.when(matches).then(pl.col(f"_right_{name}")).alias(name) for name in bring)
    )
    return left.hstack(brought)


def nearest(
    left: pl.DataFrame,
    right: pl.DataFrame,
    key: Sequence[str],
    bring: Sequence[str],
) -> pl.DataFrame:
    """Add to each row of `left` the row of `right` with the same key that is nearest in time.

    This is for init events of one object, which are close together, but in an order that depends on
    the kind of object. Both have ``time_ns`` and `key`; the order of `left` is kept.
    """
    if left.is_empty() or right.is_empty():
        kinds = right.schema
        return left.with_columns(pl.lit(None, dtype=kinds[name]).alias(name) for name in bring)
    return (
        beside(
            left.with_row_index(_ORDER),
            right.select("time_ns", *key, *bring),
            "time_ns",
            "time_ns",
            key,
            strategy="nearest",
        )
        .sort(_ORDER)
        .drop(_ORDER)
    )
