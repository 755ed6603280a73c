"""Test that tables written to files are read back by polars, another Parquet implementation."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roslens.collectors import _native
from roslens.collectors.table_file import write_table


@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
            st.one_of(st.none(), st.text(max_size=20)),
            st.one_of(st.none(), st.booleans()),
            st.one_of(st.none(), st.lists(st.integers(0, 255), max_size=3)),
        ),
        max_size=30,
    )
)
def test_a_table_is_read_back_as_it_was_written(rows: list[tuple[object, ...]]) -> None:
    schema = {"a": pl.Int64, "b": pl.String, "c": pl.Boolean, "d": pl.List(pl.UInt8)}
    frame = pl.DataFrame(rows, schema, orient="row")
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_table(frame, path)
        read = pl.read_parquet(path)
    assert read.schema == frame.schema
    assert read.equals(frame)


def test_a_table_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="directory"):
        write_table(pl.DataFrame({"a": [1]}), tmp_path / "no" / "table.parquet")


texts = st.lists(st.none() | st.text(max_size=20) | st.sampled_from(["/chatter", ""]), max_size=40)


@given(st.lists(st.tuples(texts, st.booleans()), min_size=1, max_size=4))
def test_categories_are_text_in_the_file(columns: list[tuple[list[str | None], bool]]) -> None:
    """Some of the columns are categories, in several pieces, and all are read back as text."""
    rows = min(len(values) for values, _ in columns)
    plain = pl.DataFrame(
        [pl.Series(f"c{n}", values[:rows], pl.String) for n, (values, _) in enumerate(columns)]
    ).with_columns(pl.lit(1).alias("n"))
    kinds = {f"c{n}": pl.Categorical for n, (_, coded) in enumerate(columns) if coded}
    frame = plain.cast(kinds)
    pieces = pl.concat([frame[: rows // 2], frame[rows // 2 :]], rechunk=False)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        write_table(pieces, path)
        read = pl.read_parquet(path)
        stored = pyarrow.parquet.read_schema(path)
    assert read.schema == plain.schema
    assert read.equals(plain)
    assert not any("dictionary" in str(field.type) for field in stored)


def test_a_code_without_text_is_refused(tmp_path: Path) -> None:
    codes = pl.DataFrame({"a": [0, 1]}, {"a": pl.UInt32})
    with pytest.raises(OSError, match="dictionary key 1"):
        _native.write_table(codes, tmp_path / "t", ["a"], pl.DataFrame({"text": ["only"]}))
    with pytest.raises(OSError, match="no u32"):
        _native.write_table(codes.cast(pl.Int64), tmp_path / "t", ["a"])
