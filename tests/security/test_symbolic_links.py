"""Test that links in a recording are followed, but never in circles, and never upwards."""

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.programs import roslens
from tests.samples import SAMPLES

from roslens.fleet.trees import LocalTree
from roslens.recording import find_recordings, read_manifest
from roslens.recording.layout import find_traces

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Make a run of the smallest sample beside another run."""
    source = next((SAMPLES / "two_process").rglob("manifest.json")).parent
    for name in ("run", "other"):
        shutil.copytree(source, tmp_path / "campaign" / name)
    return tmp_path / "campaign" / "run"


def test_links_that_go_round_are_walked_once(run: Path) -> None:
    """The run has the same traces as before the links were made."""
    before = find_traces(run)
    assert before
    for name, target in {"a": ".", "b": ".", "self": ".", "up": "../..", "top": "/"}.items():
        (run / "trace" / name).symlink_to(target)
    (run / "trace" / "nowhere").symlink_to("nothing")
    assert find_traces(run) == before
    assert [recording.path for recording in find_recordings(run)] == [run]
    assert len(list(LocalTree(run.parent).places())) == 2


def test_info_and_collect_of_such_a_recording_end(run: Path) -> None:
    for name in ("a", "b"):
        (run / "trace" / name).symlink_to(".")
    for verb in ("info", "collect"):
        done = roslens(verb, run)
        assert done.returncode == 0, done.stderr


def test_a_trace_behind_a_link_is_read(run: Path, tmp_path: Path) -> None:
    elsewhere = (run / "trace").rename(tmp_path / "elsewhere")
    (run / "trace").symlink_to(elsewhere)
    (recording,) = find_recordings(run)
    assert find_traces(recording.trace_root)
    bare = tmp_path / "bare"
    bare.mkdir()
    (bare / "link").symlink_to(elsewhere)
    traces = [trace.relative_to(bare / "link") for trace in find_traces(bare)]
    assert traces == [trace.relative_to(elsewhere) for trace in find_traces(elsewhere)]


def test_folders_nested_deeper_than_python_recurses_are_walked(tmp_path: Path) -> None:
    """1,500 folders lie within each other, with short names that stay below the longest path."""
    deepest = tmp_path / "root"
    deepest.mkdir()
    for _ in range(1500):
        deepest = deepest / "d"
        deepest.mkdir()
    (deepest / "metadata").write_bytes(b"")
    assert find_traces(tmp_path / "root") == [deepest]
    # pytest removes its folders by recursion.
    subprocess.run(["rm", "-rf", str(tmp_path / "root")], check=True)


def test_linked_runs_keep_their_manifests_and_are_found_once(run: Path, tmp_path: Path) -> None:
    links = tmp_path / "links"
    links.mkdir()
    for name in ("run", "other"):
        (links / name).symlink_to(run.parent / name)
    (links / "again").symlink_to(run)
    # A run includes what it links to.
    (run / "trace" / "other").symlink_to(run.parent / "other")
    recordings = find_recordings(links)
    assert [recording.path for recording in recordings] == [links / "again", links / "other"]
    for recording in recordings:
        assert recording.manifest == read_manifest(recording.path.resolve() / "manifest.json")
        assert recording.samples
