"""Test the collect engine on a real recording: its output, and when it collects again."""

import json
import os
from pathlib import Path

import polars as pl
import pytest
from tests.oracle.babeltrace import count_events
from tests.samples import RUN, uncollected

from roslens.collectors import collected as module
from roslens.collectors.collected import NOTE
from roslens.collectors.collection import collect, tables
from roslens.collectors.schema import TABLES
from roslens.recording import Recording, UsageError

pytestmark = pytest.mark.recording


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Return a copy of a sample that tests may change."""
    return uncollected(RUN, tmp_path / "run")


def test_events_and_tables_are_written(run: Path) -> None:
    """babeltrace2 itself counts the events; every table has its schema."""
    steps: list[str] = []
    done = collect(Recording.at(run), progress=steps.append)
    assert steps == ["reading", "model", "tables"]
    assert done.rebuilt
    assert done.events_by_name == count_events(run / "trace")
    for name, count in done.events_by_name.items():
        provider, event = name.split(":")
        assert pl.read_parquet(run / "events" / provider / f"{event}.parquet").height == count
    frames = tables(Recording.at(run))
    for name, table in TABLES.items():
        frame = frames[name].collect()
        assert frame.schema == table.schema
        assert frame.height == done.rows[name]
    assert not list(run.rglob("*.part"))


def test_nothing_is_done_twice(run: Path) -> None:
    first = collect(Recording.at(run))
    again = collect(Recording.at(run))
    assert (first.rebuilt, again.rebuilt) == (True, False)
    assert (again.events_by_name, again.rows) == (first.events_by_name, first.rows)


def test_it_is_made_again_when_anything_changed(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording.at(run)
    collect(recording)
    assert collect(recording, force=True).rebuilt
    stream = next(path for path in (run / "trace").rglob("*_0") if path.is_file())
    os.utime(stream, ns=(1, 1))
    assert collect(recording).rebuilt
    assert not collect(recording).rebuilt
    (recording.tables / "messages.parquet").unlink()
    assert collect(recording).rebuilt
    (recording.tables / NOTE).write_text("{")
    assert collect(recording).rebuilt
    monkeypatch.setattr(module, "collector_version", lambda: "another version")
    assert collect(recording).rebuilt
    assert not collect(recording).rebuilt


def test_events_alone_and_then_tables(run: Path) -> None:
    recording = Recording.at(run)
    done = collect(recording, events_only=True)
    assert done.rows == {}
    assert [path.name for path in recording.tables.iterdir()] == [NOTE]
    with pytest.raises(UsageError, match="roslens collect"):
        tables(recording)
    assert not collect(recording, events_only=True).rebuilt
    assert collect(recording).rebuilt
    assert not collect(recording, events_only=True).rebuilt


def test_a_bare_trace_and_another_output(run: Path, tmp_path: Path) -> None:
    bare = run / "trace"
    collect(Recording.at(bare))
    assert (bare / "roslens" / "tables" / "messages.parquet").is_file()
    assert not collect(Recording.at(bare)).rebuilt
    collect(Recording.at(bare, tmp_path / "out"))
    assert (tmp_path / "out" / "events" / "ros2" / "rcl_init.parquet").is_file()


def test_an_output_that_cannot_be_written_to_is_wrong_use(run: Path, tmp_path: Path) -> None:
    """The output folder is a file, in which even root cannot write."""
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=r"cannot be written to.*-o") as error:
        collect(Recording.at(run, tmp_path / "file"))
    assert error.value.exit_code == 2


def test_a_folder_without_a_trace(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no CTF trace"):
        collect(Recording.at(tmp_path))
    assert not (tmp_path / "roslens").exists()


def test_the_note_holds_no_path(run: Path) -> None:
    collect(Recording.at(run))
    note = json.loads((run / "tables" / NOTE).read_text())
    assert str(run) not in json.dumps(note)
