"""Test that ``rl.open`` finds all runs, with their factors as columns."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from synthetic import write_run

import roslens as rl
from roslens.analysis.runs import unique_names
from roslens.collectors.schema import RESOURCES, TABLES
from roslens.paths import resolve
from roslens.recording import UsageError


def test_factors_become_columns_and_types_are_common(tmp_path: Path) -> None:
    write_run(tmp_path / "r0", latencies_ns=[1], factors={"a": 1, "flag": True, "mixed": 1})
    write_run(tmp_path / "r1", latencies_ns=[2, 3], factors={"a": 2.5, "flag": False, "mixed": "x"})
    write_run(tmp_path / "r2", latencies_ns=[4], factors={"topic": "odd"})
    opened = rl.open(tmp_path, collect=False)
    frame = opened.messages.collect()
    assert frame.columns[:5] == ["run", "a", "flag", "mixed", "factor_topic"]
    assert frame.columns[5:] == [column.name for column in TABLES["messages"].columns]
    assert frame.schema["a"] == pl.Float64
    assert frame.schema["flag"] == pl.Boolean
    assert frame.select("run", "a", "mixed", "factor_topic", "latency_ns").rows() == [
        ("r0", 1.0, "1", None, 1),
        ("r1", 2.5, "x", None, 2),
        ("r1", 2.5, "x", None, 3),
        ("r2", None, None, "odd", 4),
    ]


def test_every_table_is_there_even_when_no_run_has_it(tmp_path: Path) -> None:
    run = write_run(tmp_path / "r", latencies_ns=[1], factors={"a": 1}, resources=False)
    for file in (run / "tables").glob("*.parquet"):
        file.unlink()
    opened = rl.open(tmp_path, collect=False)
    for name, table in TABLES.items():
        frame = opened.table(name).collect()
        # `callbacks` is a noun.
        assert name == "callbacks" or getattr(opened, name).collect().equals(frame)
        assert frame.height == 0
        assert frame.columns == ["run", "a", *(column.name for column in table.columns)]
    assert opened.resources.collect().columns[2:] == [c.name for c in RESOURCES.columns]
    assert [run.name for run in opened.without_resources] == ["r"]
    with pytest.raises(AttributeError, match="no table 'nonsense'"):
        _ = opened.nonsense
    with pytest.raises(UsageError, match="no table 'nonsense'"):
        opened.table("nonsense")


def test_runs_of_one_name_and_repeated_paths(tmp_path: Path) -> None:
    for campaign in ("c0", "c1"):
        write_run(tmp_path / campaign / "r", latencies_ns=[1])
    opened = rl.open([tmp_path, tmp_path / "c0"], collect=False)
    assert [run.name for run in opened.runs] == ["c0/r", "c1/r"]
    assert len(opened) == 2
    assert [recording.runs for recording in opened] == [[run] for run in opened.runs]


def test_the_first_thing_shown_is_loss(tmp_path: Path) -> None:
    write_run(tmp_path / "good", latencies_ns=[1], order=0)
    assert repr(rl.open(tmp_path, collect=False)) == (
        "1 run in 1 cell, 8 events\nthe tracer lost nothing"
    )
    write_run(tmp_path / "bad", latencies_ns=[1], discarded=1234, status="interrupted")
    text = repr(rl.open(tmp_path, collect=False))
    assert "THE TRACER LOST EVENTS in 1 run: bad (1,234 discarded)" in text
    assert "1 not complete: bad" in text


def test_a_bare_trace_beside_other_runs_is_a_cell_of_its_own(tmp_path: Path) -> None:
    write_run(tmp_path / "suite" / "r", latencies_ns=[1], factors={"a": 1})
    bare = write_run(tmp_path / "bare", latencies_ns=[1], with_manifest=False)
    (bare / "metadata").write_text("")
    opened = rl.open([tmp_path / "suite", bare], collect=False)
    assert [run.cell for run in opened.runs] == [{"a": 1}, {"recording": "bare"}]


@pytest.mark.parametrize("folder", ["ust_trace", "ust", "trace", "kernel"])
def test_a_folder_that_many_tools_name_alike_is_no_name(tmp_path: Path, folder: str) -> None:
    assert unique_names([tmp_path / "drive" / folder]) == ["drive"]
    # Two folders of one recording are only told apart by these names.
    both = [tmp_path / "drive" / folder, tmp_path / "drive"]
    assert unique_names(both) == [folder, "drive"]


def test_paths_are_found_from_below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "data" / "mine" / "r", latencies_ns=[1])
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    assert resolve("data/mine").resolve() == (tmp_path / "data" / "mine").resolve()
    assert resolve("nowhere/at/all") == Path("nowhere/at/all")


@pytest.mark.parametrize("paths", [[], ["nowhere"], "", [""], 5, [None]])
def test_nothing_to_open(paths: Any) -> None:
    with pytest.raises(UsageError, match=r"no recording given|no such file|is no path"):
        rl.open(paths, collect=False)


@pytest.mark.recording
def test_what_is_shown_of_a_recording() -> None:
    """babeltrace2 reads times and topics as 'lttng' and the workload left them."""
    shown = repr(rl.open("data/samples/two_process")).splitlines()
    assert shown[2:] == [
        "recorded for 6.9 s",
        "topics: /data, /parameter_events, /rosout, ros_discovery_info",
        "nodes: /listener, /talker",
    ]
