"""Test full disks: files are whole, and errors name them; kills.py does it at random."""

import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from tests.programs import roslens
from tests.samples import RUN, uncollected

from roslens.collectors.collection import collect
from roslens.recording import Recording
from roslens.recording.files import replaced_whole, write_atomically

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a collected run."""
    run = uncollected(RUN, tmp_path_factory.mktemp("full") / "run")
    collect(Recording.at(run))
    return run


def limited(size: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a verb whose files may not exceed `size` bytes, as on a disk that is full there."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return roslens(*arguments, preexec_fn=limit)


@pytest.mark.parametrize("option", ["--json", "--plot"])
def test_a_missing_right_to_write_is_a_wrong_use(run: Path, option: str) -> None:
    """A full disk, in contrast, is no wrong use."""
    done = roslens("compare", run, run, option, "/proc/out.svg")
    assert done.returncode == 2, done.stderr


def test_folders_on_a_full_disk(run: Path, tmp_path: Path) -> None:
    """Neither an archive taken apart by another process nor a merge leaves anything."""
    archive, out = tmp_path / "x.tar.zst", tmp_path / "out"
    assert limited(resource.RLIM_INFINITY, "pack", run, "-o", archive).returncode == 0
    shutil.copytree(run, tmp_path / "other")
    before = set(tmp_path.iterdir())
    for verb in (("unpack", archive, out), ("merge", run, tmp_path / "other", "-o", out)):
        done = limited(2000, *verb)
        assert done.returncode == 4, done.stderr
        assert done.stderr.splitlines()[-1].startswith(f"roslens: error: {out}: cannot be written")
        if verb[0] == "unpack":
            assert list(out.iterdir()) == []
            out.rmdir()
        assert set(tmp_path.iterdir()) == before


def test_a_catalog_does_not_keep_what_a_full_disk_made_of_a_recording(tmp_path: Path) -> None:
    uncollected(RUN, tmp_path / "run")
    done = limited(2000, "catalog", tmp_path, "--collect")
    assert done.returncode == 4, done.stderr
    assert "catalog.parquet: cannot be written: File too large" in done.stderr
    assert not (tmp_path / "catalog.parquet").exists()
    # There is room for the catalog, but not for the tables.
    done = limited(20_000, "catalog", tmp_path, "--collect", "--json")
    assert "File too large" in json.loads(done.stdout)["problem"]
    assert done.returncode == 4
    assert "1 of 1 recordings have no tables" in done.stderr
    done = limited(resource.RLIM_INFINITY, "catalog", tmp_path, "--collect", "--json")
    row = json.loads(done.stdout)
    assert (row["problem"], row["collected"]) == (None, True)


def test_one_function_writes_files(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, "old")
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), replaced_whole(path) as part:  # noqa: PT012
            part.write_text("half")
            raise error
    with pytest.raises(OSError) as caught, replaced_whole(path):  # noqa: PT011
        raise OSError(28, os.strerror(28))
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    link = tmp_path / "link"
    link.symlink_to("file")
    write_atomically(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    write_atomically(Path("/dev/null"), "x")
    assert Path("/dev/null").is_char_device()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "link"]
