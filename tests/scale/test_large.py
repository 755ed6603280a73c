"""Test collections that are interrupted, killed, out of space or started twice.

The next collection is always whole.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest
from tests.samples import RUN

from roslens.collectors import store
from roslens.collectors.collected import Collected
from roslens.collectors.collection import collect
from roslens.collectors.ros2.one_pass import Rows
from roslens.recording import Recording, RunFailedError

pytestmark = pytest.mark.recording


@pytest.fixture
def whole(tmp_path: Path) -> Collected:
    """Collect the sample at once."""
    return collect(Recording.at(RUN, tmp_path / "whole"))


def assert_same(collected: Collected, whole: Collected) -> None:
    assert collected.rows == whole.rows
    assert collected.events_by_name == whole.events_by_name
    assert collected.warnings == whole.warnings
    folder, whole_folder = collected.recording.output, whole.recording.output
    names = {path.relative_to(whole_folder) for path in whole_folder.rglob("*.parquet")}
    assert {path.relative_to(folder) for path in folder.rglob("*.parquet")} == names
    for name in names:
        assert pl.read_parquet(folder / name).equals(pl.read_parquet(whole_folder / name)), name
    assert not store.leftovers(collected.recording)


def stop_after(steps: int, stop: Callable[[], object]) -> Callable[[str], None]:
    seen: list[str] = []

    def tell(step: str) -> None:
        seen.append(step)
        if len(seen) > steps:
            stop()

    return tell


def test_an_interrupted_one_leaves_nothing(tmp_path: Path, whole: Collected) -> None:
    recording = Recording.at(RUN, tmp_path / "parts")

    def interrupt() -> None:
        raise KeyboardInterrupt

    for steps in (0, 1, 2):
        with pytest.raises(KeyboardInterrupt):
            collect(recording, progress=stop_after(steps, interrupt))
        assert not store.leftovers(recording)
    assert_same(collect(recording), whole)


def test_what_a_killed_one_left_goes_with_the_next(tmp_path: Path, whole: Collected) -> None:
    output = tmp_path / "parts"
    code = f"""
import os, signal, sys
from pathlib import Path
from roslens.collectors.collection import collect
from roslens.recording import Recording
steps = []
def tell(step):
    steps.append(step)
    if len(steps) > int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
collect(Recording.at(Path({str(RUN)!r}), Path({str(output)!r})), progress=tell)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for steps in (0, 1, 2):
        command = [sys.executable, "-c", code, str(steps)]
        ended = subprocess.run(command, env=environment, check=False)
        assert ended.returncode == -signal.SIGKILL
    left = store.leftovers(Recording.at(RUN, output))
    assert len(left) == 1
    assert not (output / "tables").exists()
    assert_same(collect(Recording.at(RUN, output)), whole)


def test_one_interrupted_while_it_was_put_in_place_begins_again(
    tmp_path: Path, whole: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events are in place, the tables are not."""
    recording = Recording.at(RUN, tmp_path / "parts")

    def interrupted(built: Recording, recording: Recording) -> None:
        (built.output / "events").rename(recording.output / "events")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store, "put_in_place", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collect(recording)
    assert_same(collect(recording), whole)


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, whole: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording.at(RUN, tmp_path / "parts")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Rows, "write", full)
        with pytest.raises(RunFailedError, match="No space left"):
            collect(recording)
    assert not store.leftovers(recording)
    assert_same(collect(recording), whole)


def test_two_collectors_at_once(tmp_path: Path, whole: Collected) -> None:
    """One collects, the other waits for it; neither removes what the other makes."""
    recording = Recording.at(RUN, tmp_path / "parts")
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(collect, [recording, recording]))
    assert sorted(result.rebuilt for result in results) == [False, True]
    assert_same(results[0], whole)
