"""Test the files on disk after damage, copies, limits, crashes and concurrent collectors."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest
from tests.programs import roslens_command
from tests.samples import RUN, uncollected

from roslens.collectors import store
from roslens.collectors.collected import NOTE
from roslens.collectors.collection import collect, tables
from roslens.collectors.limits import Limits
from roslens.recording import Recording, RunFailedError

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.recording


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    """Make a collected copy of a sample."""
    uncollected(RUN, tmp_path / "run")
    collected = Recording.at(tmp_path / "run")
    collect(collected)
    return collected


def digests(output: Path) -> dict[str, str]:
    return {
        path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in ("events", "tables")
        for path in (output / part).rglob("*.parquet")
    }


def test_the_note_holds_every_file_with_its_digest(recording: Recording) -> None:
    """hashlib computes the digests of the files as they lie there."""
    note = json.loads((recording.tables / NOTE).read_text())
    assert {name: file["sha256"] for name, file in note["files"].items()} == digests(
        recording.output
    )


@pytest.mark.parametrize("name", ["tables/messages.parquet", "events/ros2/rmw_take.parquet"])
@pytest.mark.parametrize("damage", ["cut", "bit", "gone"])
def test_damage_is_found_and_mended(recording: Recording, name: str, damage: str) -> None:
    before = digests(recording.output)
    path = recording.output / name
    content = bytearray(path.read_bytes())
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        times = path.stat()
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        # Restoring the time of writing does not restore that of the change.
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert collect(recording).rebuilt
    assert digests(recording.output) == before
    assert not collect(recording).rebuilt


def test_what_only_a_full_reading_finds(recording: Recording) -> None:
    """A disk that lost a bit changes no time: the note is given the times of the damaged file."""
    path = recording.tables / "messages.parquet"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    note = json.loads((recording.tables / NOTE).read_text())
    note["files"] = store.stamped(recording, note["files"])
    (recording.tables / NOTE).write_text(json.dumps(note))
    assert not collect(recording).rebuilt
    assert collect(recording, verify=True).rebuilt
    assert not collect(recording, verify=True).rebuilt


def test_a_copy_is_as_good_as_the_original(recording: Recording, tmp_path: Path) -> None:
    shutil.copytree(recording.path, tmp_path / "copy")
    copy = Recording.at(tmp_path / "copy")
    assert not collect(copy).rebuilt
    assert digests(copy.output) == digests(recording.output)


def test_a_file_of_events_that_nobody_made(recording: Recording) -> None:
    shutil.copy(recording.events / "ros2" / "rcl_init.parquet", recording.events / "x.parquet")
    assert collect(recording).rebuilt
    assert not (recording.events / "x.parquet").exists()


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (Limits(seconds=0.01), "took more than 0.01 s"),
        (Limits(memory_bytes=1 << 20), "more than 1 MiB of memory"),
    ],
)
def test_a_limit_costs_this_recording_only(recording: Recording, limits: Limits, said: str) -> None:
    before = digests(recording.output)
    with pytest.raises(RunFailedError, match=said) as error:
        collect(recording, force=True, limits=limits)
    assert error.value.exit_code == 4
    assert digests(recording.output) == before
    assert not list(recording.output.glob(".collect*"))


def test_within_its_limits_the_result_is_the_same(recording: Recording) -> None:
    before = digests(recording.output)
    steps: list[str] = []
    limits = Limits(seconds=500, memory_bytes=1 << 36, output_bytes=1 << 36)
    done = collect(recording, force=True, limits=limits, progress=steps.append)
    assert steps == ["reading", "model", "tables"]
    assert done.rebuilt
    assert done.rows["messages"] == tables(recording)["messages"].select(pl.len()).collect().item()
    assert digests(recording.output) == before


def test_collectors_at_the_same_time(recording: Recording, tmp_path: Path) -> None:
    """Four processes with one output each end well, and the files are those of one alone."""
    output = tmp_path / "shared"
    collecting = roslens_command("collect", recording.path, "-o", output, "--force")
    running = [
        subprocess.Popen(collecting, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in running:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    by_path = digests(output)
    # Samples taken beside the run are copied if the tables lie elsewhere.
    by_path.pop("tables/resources.parquet")
    assert by_path == digests(recording.output)
    assert not list(output.glob(".collect*"))
