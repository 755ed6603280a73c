"""Test which tracing sessions of a folder are separate runs.

The traces are those of the samples, under the folders that LTTng makes; what each holds is known
from opening it alone.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.samples import SAMPLES

import roslens as rl
from roslens.cli import main
from roslens.collectors.reader import open_trace
from roslens.collectors.resolving import find_runs

TRACES = [min(SAMPLES.glob(f"{name}/*/trace")) for name in ("two_process", "demo", "lifecycle")]


def run(*arguments: object, codes: Sequence[int | None] = (None, 0, 3)) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    assert ended.value.code in codes


def names(folder: Path) -> list[str]:
    return [run.path.relative_to(folder).as_posix() for run in find_runs(folder)]


def rename_host(trace: Path, name: str) -> None:
    """Replace the host name by one of equal length, as metadata packets have known sizes."""
    for metadata in trace.rglob("metadata"):
        text = metadata.read_bytes()
        assert b'hostname = "host"' in text
        metadata.write_bytes(text.replace(b'hostname = "host"', f'hostname = "{name}"'.encode()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Make three sessions from three times."""
    tracing = tmp_path / "tracing"
    for number, trace in enumerate(TRACES):
        shutil.copytree(trace, tracing / f"session-{number}")
    return tracing


def test_sessions_beside_recordings_are_runs(folder: Path) -> None:
    shutil.copytree(TRACES[1].parent, folder / "recorded")
    assert names(folder) == ["recorded", "session-0", "session-1", "session-2"]


def test_sessions_of_different_times_are_runs(folder: Path, capsys) -> None:
    assert names(folder) == ["session-0", "session-1", "session-2"]
    events = [open_trace(trace).info().events for trace in TRACES]
    run("info", folder, "--json")
    recordings = json.loads(capsys.readouterr().out)["recordings"]
    assert [recording["events"] for recording in recordings] == events
    run("info", folder)
    assert "3 sessions found, 3 runs" in capsys.readouterr().out
    run("collect", folder)
    assert "3 sessions found, 3 runs" in capsys.readouterr().out
    archive = folder.with_suffix(".tar.zst")
    run("pack", folder, "-o", archive)
    capsys.readouterr()
    run("info", archive)
    assert capsys.readouterr().out.startswith(f"{archive}: 3 sessions found, 3 runs")
    opened = rl.open(folder)
    assert [run.name for run in opened.runs] == ["session-0", "session-1", "session-2"]
    assert opened.table("messages").collect()["run"].n_unique() == 3


def test_sessions_of_one_system_are_runs_of_one_cell(folder: Path, tmp_path: Path) -> None:
    """The sessions of `folder` are of three systems, the demo's runs with one executor of one."""
    systems = rl.open(folder)
    assert [run.cell for run in systems.runs] == [{"recording": run.name} for run in systems.runs]
    same = tmp_path / "same"
    for number, trace in enumerate(sorted(SAMPLES.glob("demo/*Events/trace"))):
        shutil.copytree(trace, same / f"session-2026112114{number}512")
    opened = rl.open(same)
    assert [run.cell for run in opened.runs] == [{}] * 3
    estimate = opened.latency.estimates(full=True).filter(metric="latency_p50").row(0, named=True)
    assert estimate["runs"] == 3
    assert estimate["low"] < estimate["value"] < estimate["high"]
    # Names that differ in more than numbers are different settings.
    for name in ("fast-1", "fast-2"):
        (same / f"session-2026112114{name[-1]}512").rename(same / name)
    cells = [run.cell["recording"] for run in rl.open(same).runs]
    assert cells == ["fast-1", "fast-1", "session-20261121140512"]


def test_each_side_of_a_comparison_has_its_runs(tmp_path: Path) -> None:
    for name in ("base", "new"):
        for trace in sorted(SAMPLES.glob("demo/*/trace"))[:4]:
            shutil.copytree(trace, tmp_path / name / trace.parent.name)
    figures = tmp_path / "figures.json"
    run(
        "compare", tmp_path / "base", tmp_path / "new", "--metric", "latency_p50", "--json", figures
    )
    (row,) = (
        row
        for row in json.loads(figures.read_text())["comparisons"]
        if row["cell"] == {"topic": "/samples"}
    )
    assert (row["base"]["runs"], row["new"]["runs"]) == (4, 4)
    assert row["low"] <= row["ratio"] <= row["high"]


def test_hosts_that_were_recorded_at_the_same_time_are_one(tmp_path: Path) -> None:
    for host in ("hosa", "hosb"):
        shutil.copytree(TRACES[0], tmp_path / "both" / host)
        rename_host(tmp_path / "both" / host, host)
    assert names(tmp_path / "both") == ["."]
    # Beside another run the two hosts are still one.
    shutil.copytree(TRACES[1], tmp_path / "later")
    assert names(tmp_path) == ["both", "later"]


def test_copies_of_a_session_count_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        shutil.copytree(TRACES[0], tmp_path / name)
    assert names(tmp_path) == ["a", "b"]
    assert len(rl.open(tmp_path).runs) == 1


def test_what_lttng_makes_in_a_session_is_part_of_it(tmp_path: Path) -> None:
    """Rotations follow each other in time, as the parts of a dual session do."""
    for number, part in enumerate(("archives/0", "archives/1", "runtime")):
        shutil.copytree(TRACES[number] / "ust", tmp_path / "session" / part / "ust")
    shutil.copytree(TRACES[0] / "ust", tmp_path / "session/snapshot/snapshot-1-20260101-0/ust")
    assert names(tmp_path) == ["."]


def test_what_people_named_like_parts_of_a_session_holds_separate_runs(tmp_path: Path) -> None:
    """The two sessions are of different times."""
    for number in (0, 1):
        shutil.copytree(TRACES[number] / "ust", tmp_path / f"kernel/session-{number}/ust")
    assert names(tmp_path) == ["kernel/session-0", "kernel/session-1"]


def test_sessions_with_names_that_are_no_text_are_runs(tmp_path: Path) -> None:
    """The two sessions are of different times."""
    for number in (0, 1):
        name = os.fsdecode(b"caf\xe9-%d" % number)
        shutil.copytree(TRACES[number] / "ust", tmp_path / name / "ust")
    assert names(tmp_path) == [os.fsdecode(b"caf\xe9-%d" % number) for number in (0, 1)]


def test_a_single_session_is_the_path_that_was_given(tmp_path: Path) -> None:
    shutil.copytree(TRACES[0], tmp_path / "only")
    assert names(tmp_path) == ["."]


def cut(metadata: Path) -> None:
    metadata.write_bytes(metadata.read_bytes()[:1000])


def test_sessions_that_cannot_be_read_leave_the_others_usable(folder: Path, capsys) -> None:
    """A session that LTTng has just begun has empty metadata, and its neighbours are whole."""
    cut(next((folder / "session-1").rglob("metadata")))
    next((folder / "session-2").rglob("metadata")).write_bytes(b"")
    opened = rl.open(folder)
    assert [run.name for run in opened.runs] == ["session-0"]
    assert "1 run in 1 cell" in repr(opened)
    assert "; 2 could not be read" in repr(opened)
    first, second = capsys.readouterr().err.splitlines()
    assert str(folder / "session-1") in first
    assert "the metadata ends inside" in first
    assert f"{folder / 'session-2'} is still being recorded" in second
    for verb in ((), ("info",), ("estimates",), ("why",)):
        run(*verb, folder)
        captured = capsys.readouterr()
        assert len(captured.err.splitlines()) == 2, verb
        if verb in ((), ("info",)):
            assert "1 run" in captured.out
            assert "; 2 could not be read" in " ".join(captured.out.split())
    run("info", folder, "--json")
    listing = json.loads(capsys.readouterr().out)
    assert len(listing["recordings"]) == 1
    assert [Path(entry["path"]).name for entry in listing["not_read"]] == ["session-1", "session-2"]
    budgets = folder.with_name("budgets.yaml")
    budgets.write_text("budgets: ['latency_p50 < 10 s']")
    run("check", budgets, folder)
    assert "2 of 3 runs failed or cannot be read, and are left out" in capsys.readouterr().out


def test_what_is_named_itself_must_be_readable(folder: Path, capsys) -> None:
    next((folder / "session-2").rglob("metadata")).write_bytes(b"")
    for paths in ((folder / "session-2",), (folder / "session-0", folder / "session-2")):
        with pytest.raises(rl.UsageError, match="is still being recorded"):
            rl.open(paths)
    assert not capsys.readouterr().err
    run("info", folder / "session-2", codes=[2])
    assert "is still being recorded" in capsys.readouterr().err
    run("collect", folder, codes=[2])
    assert "session-2 is still being recorded" in " ".join(capsys.readouterr().out.split())
    for number in (0, 1):
        cut(next((folder / f"session-{number}").rglob("metadata")))
    run(folder, codes=[2])
    assert "(and 2 more of 3)" in capsys.readouterr().err


def test_a_run_without_a_usable_manifest_leaves_the_others_usable(tmp_path: Path, capsys) -> None:
    for number, trace in enumerate(sorted(SAMPLES.glob("demo/*Events/trace"))[:2]):
        shutil.copytree(trace.parent, tmp_path / f"{number}")
    (tmp_path / "1/manifest.json").write_text("{")
    assert [run.name for run in rl.open(tmp_path).runs] == ["0"]
    assert "manifest.json: not JSON" in capsys.readouterr().err
