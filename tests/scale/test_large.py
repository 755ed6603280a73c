"""Long collections: in parts the same as at once, interrupted or not."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from roslens.collectors import collection as module
from roslens.collectors import parts, store, work
from roslens.collectors.collected import Collected
from roslens.collectors.collection import collect
from roslens.collectors.reader import Trace, TraceInfo, open_trace
from roslens.collectors.ros2.one_pass import Rows
from roslens.recording import Recording, RunFailedError

SAMPLE = Path(__file__).resolve().parents[2] / "data/samples/two_process/000_r0_fastrtps"
SMALL = """
from roslens.collectors import collection as module, parts, work
module._LONG_BYTES, parts.PART_BYTES = 0, 200_000
work.KEEP_SECONDS = 0.0
"""
pytestmark = pytest.mark.recording


@pytest.fixture
def whole(tmp_path: Path) -> Collected:
    """The sample, collected at once."""
    return collect(Recording.at(SAMPLE, tmp_path / "whole"))


@pytest.fixture
def as_if_large(whole: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every recording is a large one from here on, and kept after each step."""
    assert whole.rebuilt
    monkeypatch.setattr(module, "_LONG_BYTES", 0)
    monkeypatch.setattr(parts, "PART_BYTES", 200_000)
    monkeypatch.setattr(work, "KEEP_SECONDS", 0.0)


def assert_same(found: Collected, whole: Collected) -> None:
    assert found.rows == whole.rows
    assert found.events_by_name == whole.events_by_name
    assert found.warnings == whole.warnings
    one, other = found.recording.output, whole.recording.output
    names = {path.relative_to(other) for path in other.rglob("*.parquet")}
    assert {path.relative_to(one) for path in one.rglob("*.parquet")} == names
    for name in names:
        assert pl.read_parquet(one / name).equals(pl.read_parquet(other / name)), name
    assert not store.leftovers(found.recording)


def stop_after(steps: int, stop: Callable[[], object], seen: list[str]) -> Callable[[str], None]:
    def tell(step: str) -> None:
        seen.append(step)
        if len(seen) > steps:
            stop()

    return tell


@pytest.mark.usefixtures("as_if_large")
def test_in_parts(tmp_path: Path, whole: Collected, monkeypatch: pytest.MonkeyPatch) -> None:
    """The trace is decoded once."""
    monkeypatch.delattr(Trace, "info")
    steps: list[str] = []
    found = collect(Recording.at(SAMPLE, tmp_path / "parts"), progress=steps.append)
    assert found.rebuilt
    assert "reading 1/2" in steps
    assert steps[-2:] == ["model", "tables"]
    assert_same(found, whole)
    assert not collect(Recording.at(SAMPLE, tmp_path / "parts")).rebuilt


def test_what_is_known_of_parts(tmp_path: Path) -> None:
    """As of all at once."""
    trace = open_trace(Recording.at(SAMPLE).trace_root)
    spans = trace.windows(size=200_000)
    assert len(spans) > 1
    found = [trace.write_events(tmp_path, begin_ns=begin, end_ns=end) for begin, end in spans]
    together = TraceInfo.together(found)
    assert together == trace.info()
    assert together.loss_rows == trace.info().loss_rows


@pytest.mark.usefixtures("as_if_large")
def test_an_interrupted_one_goes_on(tmp_path: Path, whole: Collected) -> None:
    recording = Recording.at(SAMPLE, tmp_path / "parts")

    def interrupt() -> None:
        raise KeyboardInterrupt

    done: set[str] = set()
    for steps in (2, 3, 2):
        seen: list[str] = []
        with pytest.raises(KeyboardInterrupt):
            collect(recording, progress=stop_after(steps, interrupt, seen))
        assert len(store.leftovers(recording)) == 1
        begun = {step for step in seen[:-1] if "/" in step}
        # What was finished before is not begun again.
        assert not begun & done
        done |= begun
    assert_same(collect(recording), whole)


@pytest.mark.usefixtures("as_if_large")
def test_a_killed_one_goes_on(tmp_path: Path, whole: Collected) -> None:
    output = tmp_path / "parts"
    code = f"""{SMALL}
import os, signal, sys
from pathlib import Path
from roslens.recording import Recording
steps = []
def tell(step):
    steps.append(step)
    if len(steps) > int(sys.argv[1]):
        os.kill(os.getpid(), signal.SIGKILL)
module.collect(Recording.at(Path({str(SAMPLE)!r}), Path({str(output)!r})), progress=tell)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for steps in (2, 3, 2):
        command = [sys.executable, "-c", code, str(steps)]
        ended = subprocess.run(command, env=environment, check=False)
        assert ended.returncode == -signal.SIGKILL
    left = store.leftovers(Recording.at(SAMPLE, output))
    assert len(left) == 1
    assert not (output / "tables").exists()
    assert_same(collect(Recording.at(SAMPLE, output)), whole)


@pytest.mark.usefixtures("as_if_large")
def test_what_another_version_left_is_not_gone_on_with(
    tmp_path: Path, whole: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording.at(SAMPLE, tmp_path / "parts")

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(recording, progress=stop_after(2, interrupt, []))
    (left,) = store.leftovers(recording)
    monkeypatch.setattr(module, "collector_version", lambda: "another")
    seen: list[str] = []
    found = collect(recording, progress=seen.append)
    assert "reading 0/2" in seen
    assert not left.exists()
    assert_same(found, whole)


@pytest.mark.usefixtures("as_if_large")
def test_one_interrupted_while_it_was_put_in_place_begins_again(
    tmp_path: Path, whole: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The events are in place, the tables are not."""
    recording = Recording.at(SAMPLE, tmp_path / "parts")

    def interrupted(made: Recording, recording: Recording) -> None:
        (made.output / "events").rename(recording.output / "events")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store, "put_in_place", interrupted)
        with pytest.raises(KeyboardInterrupt):
            collect(recording)
    assert_same(collect(recording), whole)


@pytest.mark.usefixtures("as_if_large")
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, whole: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = Recording.at(SAMPLE, tmp_path / "parts")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Rows, "write", full)
        with pytest.raises(RunFailedError, match="No space left"):
            collect(recording)
    assert not store.leftovers(recording)
    assert_same(collect(recording), whole)


@pytest.mark.usefixtures("as_if_large")
def test_two_collectors_at_once(tmp_path: Path, whole: Collected) -> None:
    """One does it, the other one waits for it; neither removes what the other one makes."""
    recording = Recording.at(SAMPLE, tmp_path / "parts")
    with ThreadPoolExecutor(2) as both:
        found = list(both.map(collect, [recording, recording]))
    assert sorted(one.rebuilt for one in found) == [False, True]
    assert_same(found[0], whole)


@pytest.mark.usefixtures("as_if_large")
def test_a_truncated_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read is told as when it is read at once."""
    run = tmp_path / "run"
    shutil.copytree(SAMPLE, run)
    stream = max((run / "trace").rglob("*_[0-9]"), key=lambda path: path.stat().st_size)
    with stream.open("r+b") as file:
        file.truncate(stream.stat().st_size * 2 // 3)
    parts = collect(Recording.at(run, tmp_path / "parts"))
    monkeypatch.setattr(module, "_LONG_BYTES", 1 << 40)
    at_once = collect(Recording.at(run, tmp_path / "at_once"))
    assert at_once.warnings
    assert_same(parts, at_once)
