"""Obtain public sources for compiling on demand: pinned, verified commits, which are never shipped.

They are cloned from their public repositories, or unpacked from the folder ``ROSLENS_SOURCES`` if
set, which holds an archive ``NAME.tar.zst`` (or ``.tar.gz``, ``.tar``) with ``NAME/...`` of each.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, cast

import yaml

from roslens.recording import RunFailedError, UsageError
from roslens.recording.files import shipped
from roslens.recording.zstd import ZstdError, ZstdFile
from roslens.tracing.ros.cache import cache_folder, locked, private_folder, trusted

VARIABLE = "ROSLENS_SOURCES"
TABLE = shipped("tracing", "sources", "pinned.yaml")
HOST = "https://github.com"
_CLONE_SECONDS = 300
_SUFFIXES = (".tar.zst", ".tar.gz", ".tar")


@dataclass(frozen=True)
class Source:
    """A pinned source.

    Attributes
    ----------
    name
        The name of the archive and of the folder.
    repository
        ``owner/name`` on GitHub.
    commit
        The commit whose files are used.
    licence
        The licence as an SPDX expression.
    sha256
        The `tree_digest` of the files used.
    folders
        The only paths below the root that are used; empty: all.
    """

    name: str
    repository: str
    commit: str
    licence: str
    sha256: str
    folders: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        """Return the URL that git clones."""
        return f"{HOST}/{self.repository}"


@cache
def pinned() -> dict[str, Source]:
    """Return the table of pinned sources, by name."""
    table = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return {
        name: Source(name, **{**row, "folders": tuple(row.get("folders", ()))})
        for name, row in table.items()
    }


def archives_folder() -> Path | None:
    """Return the folder of archives, ``$ROSLENS_SOURCES``, or None if it is not set.

    Raises
    ------
    UsageError
        The path is no folder.
    """
    configured = os.environ.get(VARIABLE)
    if not configured:
        return None
    folder = Path(configured)
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder of sources ({VARIABLE}, --sources)")
    return folder


def obtain(name: str, note: Callable[[str], None] = lambda _: None) -> Path:
    """Return a pinned source's verified files in the cache; without `archives_folder`, clone it.

    Parameters
    ----------
    name
        The name in the table.
    note
        Called with a line if the source is cloned.

    Raises
    ------
    UsageError
        The folder has no archive of the source, or the archive differs from the pinned commit.
    RunFailedError
        The source cannot be cloned.
    """
    folder = cached(name)
    if folder is not None:
        return folder
    source = pinned()[name]
    place = _place_of(source)
    archives = archives_folder()
    with locked(place.with_name(place.name + ".lock")):
        if not place.is_dir():
            with tempfile.TemporaryDirectory(dir=place.parent, prefix=f".{name}.") as scratch:
                unpacked = Path(scratch) / "made"
                private_folder(unpacked)
                if archives is None:
                    note(f"cloning {source.url} at {source.commit[:12]}")
                    where = _clone(source, unpacked)
                else:
                    where = _unpack(source, archives, unpacked)
                _verify(source, unpacked / name, where)
                unpacked.rename(place)
    return place / name


def cached(name: str) -> Path | None:
    """Return the files that `obtain` has cached, or None."""
    place = _place_of(pinned()[name])
    return trusted(place) / name if place.is_dir() else None


def _place_of(source: Source) -> Path:
    return cache_folder() / "sources" / f"{source.name}-{source.commit[:12]}"


def tree_digest(folder: Path, entries: Sequence[str] = ()) -> str:
    """Return a SHA-256 over names, kinds and contents of files, in the order of their paths.

    Parameters
    ----------
    folder
        The root of the files.
    entries
        The only paths below the root that are included; empty: all.
    """
    digest = hashlib.sha256()
    roots = [folder / entry for entry in entries] or [folder]
    files = {path for root in roots for path in (root, *root.rglob("*"))}
    for path in sorted(files, key=lambda path: path.relative_to(folder).as_posix()):
        state = path.lstat()
        if stat.S_ISLNK(state.st_mode):
            kind, content = "link", os.fsencode(path.readlink())
        elif stat.S_ISREG(state.st_mode):
            kind = "program" if state.st_mode & stat.S_IXUSR else "file"
            content = path.read_bytes()
        else:
            continue
        name = path.relative_to(folder).as_posix()
        digest.update(f"{kind} {hashlib.sha256(content).hexdigest()} {name}\n".encode())
    return digest.hexdigest()


def _verify(source: Source, folder: Path, where: str) -> None:
    missing = [path for path in source.folders if not (folder / path).exists()]
    if missing or not folder.is_dir():
        raise UsageError(f"{where}: has no {source.name}/{missing[0] if missing else ''}")
    if tree_digest(folder, source.folders) != source.sha256:
        raise UsageError(
            f"{where}: is not {source.repository} at {source.commit[:12]}: its files differ from "
            "the pinned ones; give an unchanged archive of that commit"
        )


def _unpack(source: Source, archives: Path, folder: Path) -> str:
    names = [source.name + suffix for suffix in _SUFFIXES]
    archive = next((archives / name for name in names if (archives / name).is_file()), None)
    if archive is None:
        raise UsageError(
            f"{archives}: has no {names[0]} ({source.repository} at {source.commit[:12]}); "
            f"without {VARIABLE} it is cloned"
        )
    try:
        with _opened(archive) as stream, tarfile.open(fileobj=stream, mode="r|") as tar:
            tar.extractall(folder, filter="data")
    except (OSError, EOFError, ZstdError, tarfile.TarError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"{archive}: damaged or no archive: {reason}") from error
    return str(archive)


def _opened(archive: Path) -> IO[bytes]:
    if archive.name.endswith(".zst"):
        return cast("IO[bytes]", ZstdFile(archive))
    if archive.name.endswith(".gz"):
        return cast("IO[bytes]", gzip.open(archive))
    return archive.open("rb")


def _clone(source: Source, folder: Path) -> str:
    git = shutil.which("git")
    if git is None:
        raise RunFailedError(
            f"{source.repository} cannot be cloned: there is no git; install it, or set "
            f"{VARIABLE} to a folder with {source.name}.tar.zst"
        )
    repository = folder / ".git-of-it"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"GIT_TERMINAL_PROMPT": "0"}

    def run(*arguments: str) -> None:
        done = subprocess.run(
            [git, *arguments],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_CLONE_SECONDS,
        )
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.strip()] or [
                "git says nothing"
            ]
            raise RunFailedError(
                f"{source.url}: cannot be cloned ({lines[0].strip()}); set {VARIABLE} to a folder "
                f"with {source.name}.tar.zst of commit {source.commit[:12]}"
            )

    try:
        run("init", "--quiet", "--bare", str(repository))
        at = ("-C", str(repository))
        run(*at, "fetch", "--quiet", "--depth", "1", source.url, source.commit)
        archive = folder / "archive.tar"
        run(
            *(*at, "archive", f"--prefix={source.name}/", f"--output={archive}"),
            *("FETCH_HEAD", "--", *source.folders),
        )
    except subprocess.TimeoutExpired as error:
        raise RunFailedError(
            f"{source.url}: not cloned within {_CLONE_SECONDS} s; set {VARIABLE} to a folder with "
            f"{source.name}.tar.zst of commit {source.commit[:12]}"
        ) from error
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    archive.unlink()
    shutil.rmtree(repository)
    return source.url
