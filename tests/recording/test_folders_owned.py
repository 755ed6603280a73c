"""Of two verbs that write into one folder at once exactly one goes on; the other says why not."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roslens.recording import UsageError
from roslens.recording.scratch import held
from roslens.tracing.archive import pack

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"
RUN = next((SAMPLES / "two_process").rglob("manifest.json")).parent
VERBS = {
    "unpack": ("unpack", "x.tar.zst", "new"),
    "record": ("record", "--tracer", "native", "-o", "new", "--", "sleep", "1"),
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("verb", VERBS)
def test_two_at_once(tmp_path: Path, verb: str) -> None:
    if verb == "unpack":
        pack([RUN], tmp_path / "x.tar.zst")
    before = set(tmp_path.iterdir())
    command = [sys.executable, "-m", "roslens", *VERBS[verb]]
    both = [
        subprocess.Popen(
            command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    said = [process.communicate()[1] for process in both]
    codes = [process.returncode for process in both]
    assert sorted(codes) == [0, 2], said
    assert "new" in said[codes.index(2)].splitlines()[-1]
    assert set(tmp_path.iterdir()) - before == {tmp_path / "new"}


@pytest.mark.parametrize("verb", [("merge", "0", "1"), ("report", "latency", "0")])
def test_what_may_be_written_again_waits_for_the_end(tmp_path: Path, verb: tuple[str, ...]) -> None:
    for name in ("0", "1"):
        shutil.copytree(RUN, tmp_path / name, ignore=shutil.ignore_patterns("events", "tables"))
    with held(tmp_path / "new"):
        done = subprocess.run(
            [sys.executable, "-m", "roslens", *verb, "-o", "new"],
            capture_output=True, text=True, check=False, cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 2
        assert "new: another roslens writes there" in done.stderr.splitlines()[-1]
        assert list((tmp_path / "new").iterdir()) == []


def test_a_folder_is_held_by_one(tmp_path: Path) -> None:
    with (
        held(tmp_path / "a" / "b"),
        pytest.raises(UsageError, match="b: another roslens writes there"),
        held(tmp_path / "a" / "b"),
    ):
        pass
    with held(tmp_path / "a" / "b"):
        pass
