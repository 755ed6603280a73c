"""Test that tables of earlier versions can be read; pyarrow counts the rows of the same files."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

import roslens as rl
from roslens.collectors.collection import tables
from roslens.collectors.schema import TABLES
from roslens.collectors.table_file import write_table
from roslens.recording import Recording, RoslensError, UsageError

ARCHIVE = Path(__file__).parent / "earlier_tables.tar.xz"


@pytest.fixture(params=["2fa8734", "753b163"])
def earlier(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / str(request.param)


def test_they_open_and_what_was_added_is_null(earlier: Path) -> None:
    runs = rl.open(earlier, collect=False)
    missing = {(table, column) for _, table, column in runs.missing_columns}
    lone = tables(Recording.at(earlier))
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
