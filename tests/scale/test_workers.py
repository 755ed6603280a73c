"""Test work by several processes: same files; a bad recording or dead worker costs only itself."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.programs import roslens, roslens_command
from tests.samples import SAMPLES, uncollected

from roslens.fleet.cluster import Workers, each
from roslens.recording import RoslensError, RunFailedError, UsageError

ROOT = Path(__file__).resolve().parents[2]


def task(item: tuple[str, str]) -> str:
    """End the worker, always or until a marker file exists; otherwise return the name."""
    name, marker = item
    if name == "refuses":
        raise UsageError("this one is damaged")
    if name == "fails":
        raise ValueError("nobody foresaw\nthis")
    if name == "kills" or (name == "kills once" and not Path(marker).exists()):
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return name


def test_dead_workers_and_errors_cost_themselves(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    names = ["a", "kills once", "b", "refuses", "c", "fails", "kills", "d", "e"]
    items = [(name, str(tmp_path / f"{n}")) for n, name in enumerate(names)]
    results = dict(each(task, items, Workers(2)))
    assert sorted(results) == list(range(len(names)))
    errors = {names[n]: result for n, result in results.items() if isinstance(result, RoslensError)}
    assert {names[n] for n, word in results.items() if word == names[n]} == set(names) - set(errors)
    assert sorted(errors) == ["fails", "kills", "refuses"]
    assert isinstance(errors["refuses"], UsageError)
    assert str(errors["fails"]) == "ValueError: nobody foresaw this"
    assert isinstance(errors["kills"], RunFailedError)
    assert "died" in str(errors["kills"])
    assert [str(warning.message) for warning in recwarn] == []


def test_wrong_use() -> None:
    with pytest.raises(UsageError, match="--workers -1"):
        Workers(-1)
    with pytest.raises(UsageError, match="not both"):
        Workers(2, "tcp://127.0.0.1:1")
    assert not Workers(1).wanted(1000)
    assert not Workers().wanted(3)
    assert Workers(0).wanted(3)


@pytest.mark.recording
def test_files_are_those_of_one_process(tmp_path: Path) -> None:
    """Six recordings, one without metadata, give five alike, one line, and exit code 2."""
    runs = [p.parent for p in sorted(SAMPLES.glob("*/*/manifest.json"))]
    digests = []
    for name, options in (("one", ["--workers", "1"]), ("two", ["--workers", "2"])):
        for number, run in enumerate(runs[:6]):
            uncollected(run, tmp_path / name / f"{number}")
        next((tmp_path / name / "3").rglob("metadata")).write_bytes(b"")
        done = roslens("collect", tmp_path / name, *options)
        assert done.returncode == 2, done.stdout + done.stderr
        assert done.stdout.count("failed:") == 1
        assert done.stderr.count("roslens: error:") == 1
        assert "Traceback" not in done.stderr
        digests.append(
            {
                path.relative_to(tmp_path / name): hashlib.sha256(path.read_bytes()).hexdigest()
                for path in (tmp_path / name).rglob("*.parquet")
            }
        )
    assert digests[0] == digests[1]
    assert len({path.parts[0] for path in digests[0] if "tables" in path.parts}) == 5


@pytest.mark.recording
def test_ctrl_c_leaves_nothing_half_made(tmp_path: Path) -> None:
    run = next(SAMPLES.glob("two_process/*/manifest.json")).parent
    collecting = roslens_command("collect", run, "--workers", "2", "-o", tmp_path)
    with subprocess.Popen(
        ["env", "--default-signal=INT", *collecting], stderr=subprocess.PIPE, start_new_session=True
    ) as collector:
        while not (events := list(tmp_path.glob(".*/events/*"))):
            assert collector.poll() is None
            time.sleep(0.002)
        os.killpg(collector.pid, signal.SIGINT)
        assert b"Traceback" not in collector.communicate(timeout=60)[1]
    assert collector.returncode == 130
    assert events
    assert not list(tmp_path.iterdir())


@pytest.mark.timeout(600)
def test_verbs_on_many_recordings_and_processes() -> None:
    driver = Path(__file__).with_name("many.py")
    command = [sys.executable, str(driver), "--recordings", "20", "--processes", "200"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 11
