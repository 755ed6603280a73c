"""Pack recordings into one file for sharing; `roslens.tracing.unpacking` unpacks it.

The file is a tar archive compressed by Zstandard: ``roslens-pack.json`` is its first file, the
files of the recordings follow, and ``checksums.sha256`` is its last. Host names, user names and
absolute paths are replaced in text files and in CTF metadata; event payloads are not changed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import secrets
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from roslens.recording import UsageError, find_recordings
from roslens.recording.errors import writing
from roslens.recording.files import replaced_whole
from roslens.recording.zstd import ZstdFile
from roslens.tracing.archive_names import FORMAT, HEAD, SUMS
from roslens.tracing.plan import PLAN_NAME
from roslens.tracing.scrub import text_scrubber

_REBUILT = ("events", "tables")
_LARGEST_TEXT = 64 << 20
_NO_NAME = {"host", "localhost"}
_HOSTNAME = re.compile(rb'(hostname = ")([^"]*)(")')


@dataclass
class Packed:
    """The result of packing.

    Attributes
    ----------
    path
        The archive.
    files, bytes_unpacked
        The number of files in the archive and their total size before compression.
    left_out
        Names of links and special files, which are not packed.
    """

    path: Path
    files: int = 0
    bytes_unpacked: int = 0
    left_out: list[str] = field(default_factory=list)


def pack(
    paths: Sequence[Path],
    output: Path,
    *,
    keep_names: bool = False,
    with_tables: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Packed:
    """Pack recordings, or all recordings in some folders.

    Parameters
    ----------
    paths
        Recordings or campaigns.
    output
        The new archive.
    keep_names
        Leave host names, user names and paths unchanged.
    with_tables
        Also pack the events and tables that ``roslens collect`` made and can make again.
    progress
        Called with the name of each file.

    Raises
    ------
    UsageError
        A path holds no recording, or `output` already exists or cannot be written.
    RunFailedError
        The disk is full.
    """
    if output.exists():
        raise UsageError(f"{output}: is there already; give another name")
    members = _members(paths, with_tables)
    packed = Packed(output)
    with (
        writing(output),
        replaced_whole(output) as temporary,
        ZstdFile(temporary, "wb") as stream,
    ):
        _write(stream, members, packed, _Anonymiser(members, keep_names), progress)
    return packed


def _write(
    stream: Any,
    members: dict[str, Path],
    packed: Packed,
    anonymiser: _Anonymiser,
    progress: Callable[[str], None],
) -> None:
    sums = []
    with tarfile.open(fileobj=cast("IO[bytes]", stream), mode="w|") as tar:
        head = {"format": FORMAT, "anonymised": not anonymiser.keep}
        _add(tar, HEAD, json.dumps(head).encode())
        for name, path in members.items():
            if path.is_symlink() or not path.is_file():
                packed.left_out.append(name)
                continue
            progress(name)
            changed = anonymiser.changed(path)
            if changed is None:
                digest, size = _add_file(tar, name, path)
            else:
                _add(tar, name, changed)
                digest, size = hashlib.sha256(changed).hexdigest(), len(changed)
            sums.append(f"{digest}  {name}\n")
            packed.files += 1
            packed.bytes_unpacked += size
        _add(tar, SUMS, os.fsencode("".join(sums)))


def _members(paths: Sequence[Path], with_tables: bool) -> dict[str, Path]:
    """Return the files to pack by their names in the archive."""
    members: dict[str, Path] = {}
    for path in paths:
        root = path.resolve()
        for recording in find_recordings(path):
            if recording.is_excerpt and not with_tables:
                raise UsageError(
                    f"{recording.path}: an excerpt holds nothing but tables: pack the recording "
                    "that it is of, or give --with-tables"
                )
            run = recording.path.resolve()
            if not run.is_relative_to(root):
                raise UsageError(f"{recording.path}: a link to a run elsewhere; name {run} itself")
            plan = run.parent / PLAN_NAME
            # Names begin at the suite for our own campaigns, otherwise at the given folder.
            base = run.parents[2] if plan.is_file() and len(run.parents) > 2 else root.parent
            files = [plan] if plan.is_file() else []
            files += sorted(
                entry for entry in run.rglob("*") if not entry.is_dir() or entry.is_symlink()
            )
            skip = (
                set() if with_tables else {recording.output.resolve() / name for name in _REBUILT}
            )
            for file in files:
                if skip.isdisjoint(file.parents) and file.name != ".reserve":
                    members[file.relative_to(base).as_posix()] = file
    return members


class _Anonymiser:
    """A replacer of names in text files and CTF metadata; equal host names get equal labels."""

    def __init__(self, members: dict[str, Path], keep: bool) -> None:
        self.keep = keep
        self._salt = secrets.token_bytes(16)
        hosts: set[bytes] = set()
        if not keep:
            for path in members.values():
                if path.name == "metadata" and path.is_file():
                    hosts |= {groups[1] for groups in _HOSTNAME.findall(path.read_bytes())}
        self._hosts = sorted(hosts, key=len, reverse=True)
        self._scrubbers: dict[Path, Callable[[str], str]] = {}

    def changed(self, path: Path) -> bytes | None:
        """Return the file's content with names replaced, or None to pack the file unchanged."""
        if self.keep:
            return None
        if path.name == "metadata":
            # The label has the length of the host name, because the text lies in packets.
            return _HOSTNAME.sub(
                lambda m: m.group(1) + self._label(m.group(2)) + m.group(3), path.read_bytes()
            )
        if path.stat().st_size > _LARGEST_TEXT:
            return None
        content = path.read_bytes()
        if b"\0" in content[:8192]:
            return None
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return None
        run = next(
            (folder for folder in path.parents if (folder / "manifest.json").is_file()), path.parent
        )
        scrub = self._scrubbers.setdefault(run, text_scrubber(run))
        text = scrub(text)
        words = [
            word for host in self._hosts if (word := host.decode(errors="replace")) not in _NO_NAME
        ]
        for word in (w for w in words if len(w) > 3):
            name = re.compile(rf"(?<!\w){re.escape(word)}(?!\w)")
            # A field's name is never replaced, even if it equals a host name.
            text = _in_values(text, name) if path.suffix == ".json" else name.sub("<host>", text)
        return text.encode()

    def _label(self, host: bytes) -> bytes:
        digest = hashlib.sha256(self._salt + host).hexdigest().encode()
        return (b"h" + digest * (1 + len(host) // 64))[: len(host)]


def _in_values(text: str, name: re.Pattern[str]) -> str:
    """Replace a host name in the string values of JSON, or anywhere in any other text."""

    def replaced(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: replaced(item) for key, item in value.items()}
        if isinstance(value, list):
            return [replaced(item) for item in value]
        return name.sub("<host>", value) if isinstance(value, str) else value

    if not name.search(text):
        return text
    try:
        return json.dumps(replaced(json.loads(text)), indent=1) + "\n"
    except (ValueError, RecursionError):
        return name.sub("<host>", text)


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    tar.addfile(_entry(name, len(content)), io.BytesIO(content))


def _add_file(tar: tarfile.TarFile, name: str, path: Path) -> tuple[str, int]:
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        digest = hashlib.file_digest(stream, "sha256")
        stream.seek(0)
        tar.addfile(_entry(name, size), stream)
    return digest.hexdigest(), size


def _entry(name: str, size: int) -> tarfile.TarInfo:
    # Owner and time are left out: they tell who packed the archive, and where.
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o644, 0
    return entry
