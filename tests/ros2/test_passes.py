"""The linear passes of the native module against sorts by polars and plain definitions."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roslens.collectors import _native
from roslens.collectors.ros2.joins import timeline
from roslens.collectors.ros2.passes import (
    Previous,
    ends_of,
    extents,
    first_after,
    firsts,
    in_order,
    innermost,
    places_of,
)

SCHEMA = {"time_ns": pl.Int64, "thread": pl.Int64, "key": pl.UInt64}
SCHEMA_WHERE = {"time_ns": pl.Int64, "thread": pl.Int64}
wide = st.integers(-(2**63), 2**63 - 1)
times, threads, keys = st.integers(0, 20), st.integers(-1, 2), st.integers(0, 1)


def frames(count: int) -> st.SearchStrategy[list[pl.DataFrame]]:
    """Tables of few moments, threads and keys, so that all of them meet."""
    rows = st.lists(st.tuples(times, threads, keys), max_size=25)
    one = rows.map(lambda found: in_order(pl.DataFrame(found, SCHEMA, orient="row")))
    return st.lists(one, min_size=count, max_size=count)


@given(frames(3))
def test_a_timeline_is_a_sort(parts: list[pl.DataFrame]) -> None:
    """Equal times of a thread: the order of the tables, then that of their rows."""
    found = timeline([(frame.with_row_index("row"), ["row", "key"]) for frame in parts])
    kinds = [
        f.with_row_index("row").with_columns(pl.lit(k, pl.Int8).alias("kind"))
        for k, f in enumerate(parts)
    ]
    expected = pl.concat(kinds).sort("thread", "time_ns", "kind", maintain_order=True)
    assert found.equals(expected.select(found.columns))


@given(frames(3))
def test_what_came_before(parts: list[pl.DataFrame]) -> None:
    """The row before in the sort above, if it is of the same thread and of the table asked for."""
    rows = [
        frame.with_row_index("row").with_columns(pl.lit(kind, pl.Int8).alias("kind"))
        for kind, frame in enumerate(parts)
    ]
    line = pl.concat(rows).sort("thread", "time_ns", "kind", maintain_order=True)
    before = pl.when(pl.col("thread") == pl.col("thread").shift(1))
    line = line.with_columns(
        before.then(pl.col("row").shift(1)).alias("last"),
        before.then(pl.col("kind").shift(1)).alias("of"),
    )
    before = Previous(parts)
    for kind in range(len(parts)):
        mine = line.filter(kind=kind).sort("row")
        for of in range(len(parts)):
            expected = mine.select(pl.when(pl.col("of") == of).then("last")).to_series()
            assert before.rows(kind, of).to_list() == expected.to_list()


@given(frames(2))
def test_what_comes_first_after(parts: list[pl.DataFrame]) -> None:
    """Of all rows whose last head is that one, by polars' own join, the first that has its key."""
    heads, rows = (frame.with_row_index("row") for frame in parts)
    joined = rows.join_asof(
        heads.select("time_ns", "thread", pl.col("row").alias("head"), pl.col("key").alias("of")),
        on="time_ns",
        by="thread",
        check_sortedness=False,
    ).drop_nulls("head")
    for key, found in ((None, first_after(*parts)), ("key", first_after(*parts, "key"))):
        fits = joined.filter(pl.col("key") == pl.col("of")) if key else joined
        first = fits.unique("head", keep="first", maintain_order=True).select("head", "row")
        expected = heads.select(pl.col("row").alias("head")).join(first, on="head", how="left")
        assert found.to_list() == expected.sort("head")["row"].to_list()


def test_a_row_without_key_follows_no_head() -> None:
    heads = pl.DataFrame([(0, 1, 0)], SCHEMA, orient="row")
    rows = pl.DataFrame([(1, 1, None), (2, 1, 0)], SCHEMA, orient="row")
    assert first_after(heads, rows, "key").to_list() == [1]


@given(frames(2))
def test_an_end_closes_the_start_just_before_it(parts: list[pl.DataFrame]) -> None:
    """Per thread and key, a start is closed if what comes next is an end."""
    starts, ends = parts
    line = pl.concat(
        [
            starts.with_row_index("row").with_columns(pl.lit(0, pl.Int32).alias("end")),
            ends.with_row_index("row").with_columns(pl.lit(1, pl.Int32).alias("end")),
        ]
    ).sort("thread", "key", "time_ns", "end", maintain_order=True)
    group = ["thread", "key"]
    closed = pl.col("end").shift(-1).over(group) == 1
    expected = (
        line.with_columns(pl.when(closed).then(pl.col("row").shift(-1).over(group)).alias("by"))
        .filter(pl.col("end") == 0)
        .sort("row")
    )
    assert ends_of(starts, ends, "key").to_list() == expected["by"].to_list()


@given(frames(2), st.lists(st.one_of(st.none(), st.integers(0, 8)), min_size=25, max_size=25))
def test_the_innermost_interval(parts: list[pl.DataFrame], lengths: list[int | None]) -> None:
    """By definition: of the intervals around a moment the one that began last."""
    starts, moments = parts
    rows = starts.rows()
    ends: list[int] = []
    for place, ((start, thread, _), length) in enumerate(zip(rows, lengths, strict=False)):
        # One without an end lasts until the next of its thread begins, that moment not included.
        later = [time for time, other, _ in rows[place + 1 :] if other == thread]
        ends.append(start + length if length is not None else (later[0] - 1 if later else 99))
    expected = []
    for time, thread, _ in moments.iter_rows():
        around = [
            place
            for place, (start, of, _) in enumerate(rows)
            if of == thread and start <= time <= ends[place]
        ]
        expected.append(max(around, default=None))
    told = pl.Series(
        "end_ns",
        [None if n is None else r[0] + n for r, n in zip(rows, lengths, strict=False)],
        dtype=pl.Int64,
    )
    assert innermost(starts.with_columns(told), moments).to_list() == expected


@given(
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 30), max_size=60),
    st.sets(st.integers(0, 30) | st.integers(-(2**63), 2**63 - 1), max_size=40),
)
def test_places_are_those_of_a_join(values: list[int | None], known: set[int]) -> None:
    """A left join of polars with the numbered known values; null joins nothing."""
    ordered = pl.Series("v", sorted(known), pl.Int64)
    wanted = pl.Series("v", values, pl.Int64)
    numbered = ordered.to_frame().with_row_index("row")
    expected = wanted.to_frame().join(numbered, on="v", how="left", maintain_order="left")["row"]
    assert places_of(wanted, ordered).to_list() == expected.to_list()
    # In several pieces, too.
    pieces = pl.concat([wanted[:7], wanted[7:]], rechunk=False)
    assert places_of(pieces, ordered).to_list() == expected.to_list()


@given(
    st.lists(
        st.tuples(st.none() | st.integers(0, 9), wide | st.integers(0, 2)),
        max_size=60,
    )
)
def test_the_first_of_each_pair(pairs: list[tuple[int | None, int]]) -> None:
    """Those that polars calls the first distinct ones, but for those without a row."""
    given = pl.DataFrame(pairs, {"row": pl.UInt32, "key": pl.Int64}, orient="row")
    distinct = pl.struct("row", "key").is_first_distinct() & pl.col("row").is_not_null()
    expected = given.select(distinct).to_series().to_list()
    assert firsts(given["row"], given["key"], 10).to_list() == expected
    pieces = pl.concat([given[:7], given[7:]], rechunk=False)
    assert firsts(pieces["row"], pieces["key"], 10).to_list() == expected


@given(st.lists(st.tuples(wide | times, wide | st.integers(0, 2)), max_size=60))
def test_extents_are_those_of_a_group_by(rows: list[tuple[int, int]]) -> None:
    """By polars, which keeps the order of first appearance if asked to."""
    given = pl.DataFrame(rows, {"time_ns": pl.Int64, "key": pl.Int64}, orient="row")
    time = pl.col("time_ns")
    expected = given.group_by("key", maintain_order=True).agg(
        time.min().alias("begin_ns"), time.max().alias("end_ns"), pl.len().alias("events")
    )
    assert extents(given).equals(expected.cast({"events": pl.Int64}))


def test_a_row_that_does_not_count_is_refused() -> None:
    with pytest.raises(ValueError, match="not below"):
        firsts(pl.Series([10], dtype=pl.UInt32), pl.Series([1]), 10)


def test_places_among_what_is_not_sorted_are_refused() -> None:
    with pytest.raises(ValueError, match="not sorted"):
        places_of(pl.Series([1]), pl.Series([2, 1]))


@pytest.mark.parametrize(
    ("time", "thread", "said"),
    [([2, 1], [0, 0], "order of time"), ([1, 2], [0, None], "a thread for each row")],
)
def test_other_columns_are_refused(time: list[int], thread: list[int | None], said: str) -> None:
    frame = pl.DataFrame({"time_ns": time, "thread": thread}, SCHEMA_WHERE)
    with pytest.raises(ValueError, match=said):
        _native.timeline([frame])


def test_a_table_without_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="no column thread"):
        _native.timeline([pl.DataFrame({"time_ns": [1]})])
