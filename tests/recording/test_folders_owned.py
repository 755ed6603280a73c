"""Test that of two verbs writing into one folder, one goes on and the other says why not."""

import subprocess
from pathlib import Path

import pytest
from tests.programs import roslens, roslens_command
from tests.samples import RUN, uncollected
from tests.security.kills import VERBS as KILLED
from tests.security.kills import prepared

from roslens.collectors.reader import open_trace
from roslens.recording import UsageError
from roslens.recording.scratch import locked_folder
from roslens.tracing.archive import pack

SUITE = """
name: new
workload: {command: [sleep, "1"], ros: none}
factors: {n: [1]}
repetitions: 1
expect: {ros2_events: false}
"""
VERBS = {
    "unpack": ("unpack", "x.tar.zst", "new"),
    "record": ("record", "--tracer", "native", "-o", "new", "--", "sleep", "1"),
    "suite": ("record", "--suite", "x.yaml", "--name", "one", "-o", "."),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("verb", VERBS)
def test_two_at_once(tmp_path: Path, verb: str) -> None:
    if verb == "unpack":
        pack([RUN], tmp_path / "x.tar.zst")
    (tmp_path / "x.yaml").write_text(SUITE)
    before = set(tmp_path.iterdir())
    two_at_once(tmp_path, *VERBS[verb])
    assert set(tmp_path.iterdir()) - before == {tmp_path / "new"}


@pytest.mark.live
def test_two_snapshots_at_once() -> None:
    with prepared(KILLED["snapshot"]) as place:
        before = set(place.folder.iterdir())
        two_at_once(place.folder, "snapshot", "flight", "-o", "new")
        assert set(place.folder.iterdir()) - before == {place.folder / "new"}
        assert open_trace(place.folder / "new").info().events > 0


def two_at_once(folder: Path, *words: str) -> None:
    """Run a verb twice at once: one does its work, the other names the folder."""
    processes = [
        subprocess.Popen(
            roslens_command(*words),
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    errors = [process.communicate()[1] for process in processes]
    codes = [process.returncode for process in processes]
    assert sorted(codes) == [0, 2], errors
    assert "new" in errors[codes.index(2)].splitlines()[-1]


@pytest.mark.parametrize("verb", [("merge", "0", "1"), ("report", "latency", "0")])
def test_what_may_be_written_again_waits_for_the_end(tmp_path: Path, verb: tuple[str, ...]) -> None:
    for name in ("0", "1"):
        uncollected(RUN, tmp_path / name)
    with locked_folder(tmp_path / "new"):
        done = roslens(*verb, "-o", "new", cwd=tmp_path)
        assert done.returncode == 2
        assert "new: another roslens writes there" in done.stderr.splitlines()[-1]
        assert list((tmp_path / "new").iterdir()) == []


def test_a_folder_is_held_by_one(tmp_path: Path) -> None:
    with (
        locked_folder(tmp_path / "a" / "b"),
        pytest.raises(UsageError, match="b: another roslens writes there"),
        locked_folder(tmp_path / "a" / "b"),
    ):
        pass
    with locked_folder(tmp_path / "a" / "b"):
        pass
