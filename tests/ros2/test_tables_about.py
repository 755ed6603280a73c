"""Test table files: read by polars, pyarrow, pandas and DuckDB, and later by roslens itself."""

import json
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import RUN, uncollected

import roslens as rl
from roslens.collectors import _native, collection
from roslens.collectors.ros2.losses import counted
from roslens.collectors.schema import SAMPLED, TABLES
from roslens.collectors.table_file import write_table
from roslens.recording import Recording, RoslensError, UsageError

NOTHING_LOST = {"discarded_events": 0, "lost_packets": 0, "missing_stretches": 0}
"""Loss as babeltrace2 reports it: no discarded events and no discarded packets in this sample."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = uncollected(RUN, tmp_path_factory.mktemp("about") / "run")
    collection.collect(Recording.at(folder, folder.parent / "out"))
    return folder.parent / "out" / "tables"


def test_every_table_names_its_columns_units_and_the_loss(tables: Path) -> None:
    sampled = {table.name: table for table in SAMPLED}
    for path in tables.glob("*.parquet"):
        schema = pq.read_schema(path)
        about = json.loads(schema.metadata[b"roslens"])
        table = TABLES.get(path.stem) or sampled[path.stem]
        assert (about["table"], about["definition"]) == (path.stem, table.row)
        assert list(about["columns"]) == schema.names
        assert all(column["meaning"] for column in about["columns"].values())
        # Process samples do not come from the tracer, so its loss does not apply to them.
        assert about["loss"] == (NOTHING_LOST if path.stem in TABLES else None)
    assert {path.stem for path in tables.glob("*.parquet")} >= TABLES.keys()


def test_pandas_has_them_as_attrs(tables: Path) -> None:
    attrs = pd.read_parquet(tables / "messages.parquet").attrs
    assert attrs["columns"]["latency_ns"]["unit"] == "ns"
    assert attrs["columns"]["publish_ns"]["operation"]
    assert attrs["loss"] == NOTHING_LOST
    assert attrs["tables"] == "1.1"


def test_what_nothing_counts_is_unknown_and_not_zero() -> None:
    """By hand: losses of 3 and 2 events, a lost packet of unknown count, and a missing head."""
    kinds = ["discarded_events", "discarded_events", "lost_packets", "missing_head"]
    rows = {"host": "h0", "kind": kinds, "count": [3, 2, None, None]}
    losses = TABLES["losses"].conform(pl.DataFrame(rows))
    assert counted(losses, {"discarded_events": None, "lost_packets": 9}) == {
        "discarded_events": 5,
        "lost_packets": None,
        "missing_stretches": 1,
    }
    assert counted(losses.clear(), {"discarded_events": 7}) == {
        **NOTHING_LOST,
        "discarded_events": 7,
    }


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
        stored = pq.read_schema(path)
    assert read.schema == plain.schema
    assert read.equals(plain)
    assert not any("dictionary" in str(field.type) for field in stored)


def test_a_code_without_text_is_refused(tmp_path: Path) -> None:
    codes = pl.DataFrame({"a": [0, 1]}, {"a": pl.UInt32})
    with pytest.raises(OSError, match="dictionary key 1"):
        _native.write_table(codes, tmp_path / "t", ["a"], pl.DataFrame({"text": ["only"]}))
    with pytest.raises(OSError, match="no u32"):
        _native.write_table(codes.cast(pl.Int64), tmp_path / "t", ["a"])


@pytest.fixture(params=["2fa8734", "753b163"])
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(Path(__file__).parent / "earlier_tables.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / str(request.param)


def test_they_open_and_what_was_added_is_null(earlier: Path) -> None:
    runs = rl.open(earlier, collect=False)
    missing = {(table, column) for _, table, column in runs.missing_columns}
    lone = collection.tables(Recording.at(earlier))
    for name, table in TABLES.items():
        file = pq.ParquetFile(earlier / "tables" / f"{name}.parquet")
        added = set(table.schema) - set(file.schema_arrow.names)
        assert {column for where, column in missing if where == name} == added
        frame = runs.table(name).collect()
        assert frame.height == lone[name].collect().height == file.metadata.num_rows
        assert all(frame[column].null_count() == frame.height for column in added)
        assert frame.select(table.schema.names()).schema == table.schema


def test_nouns_answer_or_say_why_not(earlier: Path) -> None:
    runs = rl.open(earlier, collect=False)
    try:
        assert runs.latency.estimates().height
    except RoslensError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_a_later_major_version_is_refused_in_a_line(earlier: Path) -> None:
    path = min((earlier / "tables").glob("*.parquet"))
    metadata = {"roslens": json.dumps({"tables": "2.0"})}
    write_table(pl.read_parquet(path), path, metadata)
    with pytest.raises(UsageError, match=r"version 2\.0, and this roslens reads those up to"):
        rl.open(earlier, collect=False)
