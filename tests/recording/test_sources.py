"""Test pinned sources: from an archive, from a repository, and of another commit."""

import hashlib
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.programs import git

from roslens.recording import RunFailedError, UsageError
from roslens.tracing import sources
from roslens.tracing.sources import Source, obtain, pinned, tree_digest

FILES = {"a/one.cpp": b"int one;\n", "a/two.hpp": b"#pragma once\n", "run": b"#!/bin/sh\n"}


def written(folder: Path) -> Path:
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder / "run").chmod(0o755)
    (folder / "link").symlink_to("a/one.cpp")
    return folder


def by_hand() -> str:
    """Compute the digest as the code's docstring says, without the code."""
    lines = [
        f"file {hashlib.sha256(FILES['a/one.cpp']).hexdigest()} a/one.cpp\n",
        f"file {hashlib.sha256(FILES['a/two.hpp']).hexdigest()} a/two.hpp\n",
        f"link {hashlib.sha256(b'a/one.cpp').hexdigest()} link\n",
        f"program {hashlib.sha256(FILES['run']).hexdigest()} run\n",
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Source]:
    """Make a table with one source, and a cache of our own."""
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv(sources.VARIABLE, raising=False)
    table = {"own": Source("own", "roslens/own", "0" * 40, "MIT", by_hand())}
    monkeypatch.setattr(sources, "pinned", lambda: table)
    return table


@pytest.fixture
def folder(table: dict[str, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the folder of archives, which the variable names."""
    assert table
    (archives := tmp_path / "archives").mkdir()
    monkeypatch.setenv(sources.VARIABLE, str(archives))
    return archives


def test_the_digest_is_of_names_kinds_and_contents(tmp_path: Path) -> None:
    tree = written(tmp_path)
    assert tree_digest(tree) == by_hand()
    assert tree_digest(tree, ["a", "link", "run"]) == by_hand()
    (tree / "run").chmod(0o644)
    assert tree_digest(tree) != by_hand()


@pytest.mark.parametrize("suffix", [".tar.gz", ".tar"])
def test_a_folder_of_archives(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    with tarfile.open(folder / f"own{suffix}", "w:gz" if suffix == ".tar.gz" else "w") as tar:
        tar.add(written(tmp_path / "tree"), "own")
    place = obtain("own")
    assert place.name == "own"
    assert (place / "a" / "one.cpp").read_bytes() == FILES["a/one.cpp"]
    # The source is copied once, and then available without the folder.
    monkeypatch.setenv(sources.VARIABLE, str(tmp_path / "none"))
    assert obtain("own") == place
    with pytest.raises(UsageError, match="none: no such folder of sources"):
        sources.archives_folder()


def test_what_is_not_the_pinned_commit_is_refused_and_not_kept(
    folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=r"archives: has no own\.tar\.zst"):
        obtain("own")
    written(tmp_path / "tree")
    (tmp_path / "tree" / "a" / "one.cpp").write_bytes(b"int two;\n")
    with tarfile.open(folder / "own.tar", "w") as tar:
        tar.add(tmp_path / "tree", "own")
    with pytest.raises(UsageError, match=r"own\.tar: is not roslens/own at 000000000000"):
        obtain("own")
    (folder / "own.tar").write_bytes((folder / "own.tar").read_bytes()[:700])
    with pytest.raises(UsageError, match=r"own\.tar: (damaged|is not|has no)"):
        obtain("own")
    left = tmp_path / "cache" / "sources"
    assert [path.name for path in left.iterdir() if path.is_dir()] == []


def test_a_repository_is_cloned_at_the_commit(
    table: dict[str, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = written(tmp_path / "hub" / "roslens" / "own")
    git(tree, "init", "-q")
    git(tree, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "one")
    commit = git(tree, "rev-parse", "HEAD")
    # This is a later commit, which is not the pinned one.
    (tree / "a" / "one.cpp").write_bytes(b"int later;\n")
    git(tree, "commit", "-qam", "two")
    monkeypatch.setattr(sources, "HOST", (tmp_path / "hub").as_uri())
    table["own"] = replace(table["own"], commit=commit)
    notes: list[str] = []
    place = obtain("own", note=notes.append)
    assert tree_digest(place) == by_hand()
    assert notes == [f"cloning {(tmp_path / 'hub').as_uri()}/roslens/own at {commit[:12]}"]


def test_offline_it_says_what_to_do(
    table: dict[str, Source], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "HOST", (tmp_path / "no hub").as_uri())
    with pytest.raises(RunFailedError, match=r"cannot be cloned \(.*set ROSLENS_SOURCES to a"):
        obtain("own")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunFailedError, match="there is no git; install it"):
        obtain("own")
    assert table


def test_the_archives_at_hand_are_the_pinned_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = os.environ.get(sources.VARIABLE)
    if folder is None:
        pytest.skip(f"{sources.VARIABLE} names no folder of sources")
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path))
    at_hand = {
        name: source for name, source in pinned().items() if [*Path(folder).glob(f"{name}.tar*")]
    }
    assert "rclcpp" in at_hand
    for name, source in at_hand.items():
        assert tree_digest(obtain(name), source.folders) == source.sha256
