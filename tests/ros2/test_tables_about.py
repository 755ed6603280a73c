"""Test that table files describe their content to pyarrow, pandas and DuckDB, without roslens."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest
from tests.samples import RUN, uncollected

from roslens.collectors.collection import collect
from roslens.collectors.ros2.losses import counted
from roslens.collectors.schema import SAMPLED, TABLES
from roslens.recording import Recording

NOTHING_LOST = {"discarded_events": 0, "lost_packets": 0, "missing_stretches": 0}
"""Loss as babeltrace2 reports it: no discarded events and no discarded packets in this sample."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = uncollected(RUN, tmp_path_factory.mktemp("about") / "run")
    collect(Recording.at(folder, folder.parent / "out"))
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


def test_duckdb_reads_them(tables: Path) -> None:
    query = "SELECT decode(value) FROM parquet_kv_metadata(?) WHERE decode(key) = 'roslens'"
    ((text,),) = duckdb.execute(query, [str(tables / "messages.parquet")]).fetchall()
    about = json.loads(text)
    assert about["columns"]["latency_ns"]["unit"] == "ns"
    assert about["loss"] == NOTHING_LOST


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
