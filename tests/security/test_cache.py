"""Test that files to load into programs are refused if another user could have put them there."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from roslens.recording import UsageError
from roslens.tracing.ros import tracetools
from roslens.tracing.ros.cache import cache_folder, cached_file

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="giving files away needs root")


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Compile a library into a new cache."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path / "cache"))
    before = os.umask(0o002)
    try:
        return tracetools.build_stub("libroslens_nothing.so.0")
    finally:
        os.umask(before)


def test_a_new_cache_is_its_owners_alone(library: Path) -> None:
    for folder in (library.parent, library.parents[1], cache_folder()):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert tracetools.build_stub(library.name) == library


def test_what_others_may_write_is_refused(library: Path) -> None:
    for path in (library, library.parent, library.parents[1]):
        path.chmod(0o777)
        with pytest.raises(UsageError, match="can be written by others"):
            tracetools.build_stub(library.name)
        path.chmod(0o700)
    cache_folder().chmod(0o770)
    with pytest.raises(UsageError, match="can be written by others"):
        cache_folder()


def test_a_link_is_refused(library: Path, tmp_path: Path) -> None:
    library.rename(tmp_path / "other.so")
    library.symlink_to(tmp_path / "other.so")
    with pytest.raises(UsageError, match="is a link"):
        cached_file(library)


@root_only
def test_what_belongs_to_others_is_refused(library: Path) -> None:
    os.chown(library, 65534, 65534)
    with pytest.raises(UsageError, match="belongs to user 65534"):
        tracetools.build_stub(library.name)


INTRUDER = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
done = []
for act in (lambda p: open(p, "wb"), lambda p: os.rename(p, p + "x"), lambda p: open(p, "rb"),
            lambda p: os.listdir(os.path.dirname(p))):
    try:
        act(sys.argv[1])
        done.append("done")
    except OSError:
        pass
print(done)
"""


@root_only
def test_another_user_can_do_nothing_to_it(library: Path) -> None:
    # The folders above are pytest's own, which let nobody in; here the cache stands alone.
    for folder in library.parents[3:-2]:
        folder.chmod(folder.stat().st_mode | 0o055)
    command = [sys.executable, "-I", "-S", "-c", INTRUDER, str(library)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert done.stdout == "[]\n", done.stderr
