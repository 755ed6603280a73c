"""Archives of recordings taken apart with distrust: ours, and how public traces come.

Ours is a tar archive compressed by Zstandard with checksums; ``tar.zst`` of others, ``tar.gz``,
``tar.xz`` and ``zip`` are taken by the same rules, and files of other recorders of the kernel. They
are read in a process whose memory and time are limited; what it may write is bounded here.
"""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from roslens.recording import RunFailedError, UsageError
from roslens.recording.errors import TooLargeError, cannot_be_written
from roslens.recording.foreign import SECONDS, read_foreign
from roslens.recording.layout import find_traces
from roslens.recording.scratch import scratch_folder
from roslens.recording.zstd import ZstdFile
from roslens.tracing.archive_names import FORMAT, HEAD, SUMS, bare_name
from roslens.tracing.ftrace.recorder import ABOUT_NAME, KERNEL_NAME, convert
from roslens.tracing.kernel_files import reader_of

_SMALL = 256 << 20
_HIGHEST_RATIO = 500
"""Traces of many equal events shrink to a 50th; what grows more than 500 times is a bomb."""
_MOST_ENTRIES = 1_000_000
_FEW_ENTRIES = 10_000
_BYTES_OF_ENTRY = 32
"""Each file's checksum alone takes so much in an archive of ours."""
_DEEPEST, _LONGEST_NAME = 32, 1024
_LARGEST_HEADER = 64 << 10
_BLOCK = 1 << 20
_SCRATCH = ".unpack-"
_FILES, _FOLDERS = (b"0", b"\0"), (b"5",)
_LONG_NAME, _LONG_LINK, _PAX, _PAX_OF_ALL = b"L", b"K", b"x", b"g"
Read = Callable[[int], bytes]


@dataclass(frozen=True)
class _Entry:
    """One file of an archive: its name, its size, and what reads its next bytes."""

    name: str
    size: int
    read: Read


def unpack(
    archive: Path,
    folder: Path,
    *,
    max_bytes: int | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Unpack an archive; all of it, with right checksums, or nothing.

    Parameters
    ----------
    archive
        What `roslens.tracing.archive.pack` wrote, another archive that holds traces, or what
        trace-cmd, perf or Perfetto wrote, or a folder with raw pages of ftrace: the kernel trace
        that becomes of these gets the clock of the traces in `folder`.
    folder
        Where to; made if missing. What lies there already is not touched. What others packed
        gets a folder there with the name of the archive.
    max_bytes
        More than this unpacked is refused; default: 500 times the archive's size, at least
        256 MiB, at most nine tenths of the free space.
    note
        Gets what the user should know of a kernel trace, one line each.

    Returns
    -------
    list of Path
        What was made in `folder`, the top-most entries.

    Raises
    ------
    UsageError
        It is no such archive, is damaged or hostile, or its content is there already.
    RunFailedError
        The disk is full.
    """
    if not archive.is_file() and not (archive / ABOUT_NAME).is_file():
        raise UsageError(f"{archive}: no such file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_folder(folder, _SCRATCH) as scratch:
            notes = read_foreign(
                "roslens.tracing.unpacking:take_apart",
                archive,
                "an archive or a kernel trace",
                options={"scratch": str(scratch), "folder": str(folder), "max_bytes": max_bytes},
                seconds=SECONDS + (archive.stat().st_size >> 20),
            )
            for line in notes:
                note(line)
            return _move(scratch, folder)
    except OSError as error:
        raise cannot_be_written(folder, error) from error


def take_apart(archive: Path, *, scratch: str, folder: str, max_bytes: int | None) -> list[str]:
    """Write what an archive or kernel trace holds to a scratch folder, as `unpack` wants it.

    Returns what the user should know.
    """
    made, beside = Path(scratch), Path(folder)
    room = _room(beside)
    wanted = (
        max(_SMALL, _HIGHEST_RATIO * archive.stat().st_size) if max_bytes is None else max_bytes
    )
    limit = wanted if max_bytes is not None else min(wanted, room)
    try:
        if archive.is_dir():
            convert(archive, made / KERNEL_NAME, beside=beside)
            return []
        if (convert_file := reader_of(archive)) is not None:
            kernel = made / bare_name(archive) / KERNEL_NAME
            done = convert_file(archive, kernel, beside=beside, max_bytes=limit)
            return [*done.notes, *filter(None, [done.complaint])]
        fitting = max(_FEW_ENTRIES, archive.stat().st_size // _BYTES_OF_ENTRY)
        most = _MOST_ENTRIES if max_bytes is not None else min(fitting, _MOST_ENTRIES)
        _Unpacked(archive, made, limit, most).all()
    except TooLargeError as error:
        if limit == wanted:
            raise
        raise _no_room(beside, archive, room) from error
    except OSError as error:
        # Decompression that fails is one of no number.
        if error.errno is None or error.filename == str(archive):
            raise
        raise cannot_be_written(beside, error) from error
    return []


def _room(folder: Path) -> int:
    """How much may be written there: not the last of the disk."""
    return shutil.disk_usage(folder).free * 9 // 10


def _no_room(folder: Path, archive: Path, room: int) -> RunFailedError:
    return RunFailedError(
        f"{folder}: cannot be written: no space left on device: {archive} holds more than the "
        f"{room:,} B for which there is room"
    )


def unpack_stream(read: Read, folder: Path, name: str) -> None:
    """Write the regular files of a tar, uncompressed, as it comes; links and devices are left out.

    Parameters
    ----------
    read
        Its next bytes, at most as many as asked for.
    folder
        A new one; all that is written lies below it. What was written before an error stays.
    name
        Of the stream, for errors.

    Raises
    ------
    UsageError
        It is damaged, not whole or hostile.
    RunFailedError
        It holds more than nine tenths of the free space.
    OSError
        The folder cannot be written.
    """
    folder.mkdir(parents=True)
    room = _room(folder)
    try:
        _Unpacked(Path(name), folder, room, _MOST_ENTRIES).regular(read)
    except TooLargeError as error:
        raise _no_room(folder, Path(name), room) from error


class _Unpacked:
    """An archive that is being written below a folder."""

    def __init__(self, archive: Path, scratch: Path, limit: int, most: int) -> None:
        self._archive, self._scratch = archive, scratch
        self._limit = self._left = limit
        self._most = most
        self._entries = 0
        self._folders: set[Path] = set()
        self._digests: dict[str, str] = {}

    def all(self) -> None:
        """Write everything."""
        with self._archive.open("rb") as stream:
            magic = stream.read(6)
        if magic[:4] == b"\x28\xb5\x2f\xfd":
            with ZstdFile(self._archive) as unzipped:
                entries = self._tar(unzipped.read)
                first = next(entries, None)
                if first is not None and first.name == HEAD:
                    self._ours(first, entries)
                else:
                    self._foreign(itertools.chain(filter(None, [first]), entries))
        elif magic == b"\xfd7zXZ\0":
            with lzma.open(self._archive) as unzipped:
                self._foreign(self._tar(unzipped.read))
        elif magic[:2] == b"\x1f\x8b":
            with gzip.open(self._archive) as unzipped:
                self._foreign(self._tar(unzipped.read))
        elif magic[:4] == b"PK\x03\x04":
            self._foreign(self._zip())
        else:
            raise UsageError(
                f"{self._archive}: neither tar.zst, tar.gz, tar.xz, zip nor a kernel trace"
            )

    def regular(self, read: Read) -> None:
        """Write the regular files of a tar as it comes, and nothing else of it."""
        try:
            for entry in self._tar(read, others="left out"):
                self._save(entry, self._scratch)
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise UsageError(f"{self._archive}: no whole archive: {error}") from error

    def _ours(self, head: _Entry, entries: Iterator[_Entry]) -> None:
        if (found := json.loads(head.read(_LARGEST_HEADER))["format"]) != FORMAT:
            raise UsageError(f"{self._archive}: format {found!r}, this roslens reads {FORMAT}")
        named: dict[str, str] = {}
        for entry in entries:
            if entry.name == SUMS:
                named = dict(_sums(self._archive, entry))
            else:
                self._save(entry, self._scratch)
        self._check(named)

    def _foreign(self, entries: Iterator[_Entry]) -> None:
        folder = self._scratch / (bare_name(self._archive) or "unpacked")
        for entry in entries:
            self._save(entry, folder)
        if not folder.is_dir() or not find_traces(folder):
            raise UsageError(f"{self._archive}: holds no CTF trace (no file named 'metadata')")

    def _save(self, entry: _Entry, folder: Path) -> None:
        if entry.name in self._digests:
            raise self._refused(entry.name, "is in it twice")
        path = folder / entry.name
        if path.parent not in self._folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(path.parent)
        digest = hashlib.sha256()
        with path.open("xb") as stream:
            while block := entry.read(_BLOCK):
                digest.update(block)
                stream.write(block)
            if stream.tell() != entry.size:
                raise EOFError(f"{entry.name!r} ends early")
        self._digests[entry.name] = digest.hexdigest()

    def _check(self, named: dict[str, str]) -> None:
        found = self._digests
        wrong = sorted(x for x in {*found, *named} if found.get(x) != named.get(x))
        if wrong:
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            raise self._refused(f"{wrong[0]}{more}", "missing or with a wrong checksum")

    def _refused(self, name: str, why: str) -> UsageError:
        return UsageError(f"{self._archive}: {name[:_LONGEST_NAME]!r}: {why}")

    def _count(self, size: int = 0) -> None:
        """Count a header, and the bytes that it tells of."""
        self._entries += 1
        self._left -= size
        trust = "; if you trust it, give --max-size"
        if self._left < 0:
            raise TooLargeError(f"{self._archive}: unpacks to more than {self._limit:,} B{trust}")
        if self._entries > self._most:
            more = trust if self._most < _MOST_ENTRIES else ""
            raise UsageError(f"{self._archive}: holds more than {self._most:,} entries{more}")

    def _safe(self, name: str) -> str:
        name = name.removeprefix("./")
        path = PurePosixPath(name)
        parts = path.parts
        bad = path.is_absolute() or not parts or any(x in {"..", "."} for x in parts)
        if bad or "\\" in name or "\0" in name or str(path) != name:
            raise self._refused(name, "would lie outside of the folder; refused")
        if len(parts) > _DEEPEST or len(os.fsencode(name)) > _LONGEST_NAME:
            raise self._refused(
                name, f"deeper than {_DEEPEST} folders or longer than {_LONGEST_NAME} B; refused"
            )
        return name

    # ---------------------------------------------------------------- tar

    def _tar(
        self, read: Read, others: Literal["refused", "left out"] = "refused"
    ) -> Iterator[_Entry]:
        # Not by tarfile: it reads headers of any size into memory, and one within the other.
        name: str | None = None
        size: int | None = None
        while (header := _exactly(read, tarfile.BLOCKSIZE)).strip(b"\0"):
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
            if info.type in {_LONG_NAME, _LONG_LINK, _PAX, _PAX_OF_ALL}:
                self._count()
                if not 0 <= info.size <= _LARGEST_HEADER:
                    raise self._refused(info.name, f"a header of {info.size:,} B; refused")
                content = _exactly(read, _padded(info.size))[: info.size]
                if info.type == _LONG_NAME:
                    name = os.fsdecode(content.rstrip(b"\0"))
                elif info.type == _PAX:
                    name, size = _from_pax(content, name)
                continue
            length = info.size if size is None else size
            told = info.name if name is None else name
            name = size = None
            self._count(length)
            if info.type in _FOLDERS:
                continue
            if info.type not in _FILES and length >= 0 and others == "left out":
                _Limited(read, _padded(length)).skip(0)
                continue
            if info.type not in _FILES or length < 0:
                raise self._refused(told, "is no regular file; refused")
            limited = _Limited(read, length)
            yield _Entry(self._safe(told), length, limited.read)
            limited.skip(_padded(length) - length)
        # Checksums of the compression come last.
        if len(_up_to(read, _BLOCK)) == _BLOCK:
            raise UsageError(f"{self._archive}: more lies behind its end; refused")

    # ---------------------------------------------------------------- zip

    def _zip(self) -> Iterator[_Entry]:
        with zipfile.ZipFile(self._archive) as found:
            for info in found.infolist():
                self._count(info.file_size)
                if info.is_dir():
                    continue
                kind = stat.S_IFMT(info.external_attr >> 16)
                if kind not in {0, stat.S_IFREG}:
                    raise self._refused(info.filename, "is no regular file; refused")
                with found.open(info) as stream:
                    limited = _Limited(stream.read, info.file_size + 1)
                    yield _Entry(self._safe(info.filename), info.file_size, limited.read)


class _Limited:
    """The next bytes of a stream and no more."""

    def __init__(self, read: Read, size: int) -> None:
        self._read, self._left = read, size

    def read(self, size: int) -> bytes:
        """At most so many bytes; nothing at the end."""
        block = self._read(min(size, self._left)) if self._left else b""
        self._left -= len(block)
        return block

    def skip(self, more: int) -> None:
        """Pass over what was not read, and the bytes behind it."""
        self._left += more
        while self._left:
            if not self.read(_BLOCK):
                raise EOFError("ends early")


def _up_to(read: Read, size: int) -> bytes:
    content = bytearray()
    while len(content) < size and (block := read(size - len(content))):
        content += block
    return bytes(content)


def _exactly(read: Read, size: int) -> bytes:
    content = _up_to(read, size)
    if len(content) < size:
        raise EOFError("ends early")
    return content


def _padded(size: int) -> int:
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _from_pax(content: bytes, name: str | None) -> tuple[str | None, int | None]:
    """Name and size in an extended header: lines ``LENGTH KEY=VALUE`` (POSIX.1-2001, pax)."""
    size = None
    while content:
        digits, blank, _ = content.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 9 else 0
        record = content[len(digits) + 1 : length - 1]
        key, equals, value = record.partition(b"=")
        if not blank or not equals or content[length - 1 : length] != b"\n":
            raise ValueError("an extended header that cannot be understood")
        if key.startswith(b"GNU.sparse"):
            raise ValueError("a sparse file")
        if key == b"path":
            name = os.fsdecode(value)
        elif key == b"size":
            size = int(value)
        content = content[length:]
    return name, size


def _sums(archive: Path, entry: _Entry) -> Iterator[tuple[str, str]]:
    text = _up_to(entry.read, _SMALL)
    for line in os.fsdecode(text).split("\n"):
        digest, blanks, name = line.partition("  ")
        if blanks:
            yield name, digest
        elif line:
            raise UsageError(f"{archive}: {SUMS}: not a list of checksums")


def _move(scratch: Path, folder: Path) -> list[Path]:
    """Move what was unpacked to its place, folder by folder where some are there already."""
    made: list[Path] = []
    pairs = [(entry, folder / entry.name) for entry in sorted(scratch.iterdir())]
    moves: list[tuple[Path, Path]] = []
    while pairs:
        source, target = pairs.pop()
        if target.is_symlink() or (target.exists() and not (source.is_dir() and target.is_dir())):
            raise UsageError(f"{target}: is there already; unpack elsewhere")
        if target.exists():
            if (target / "manifest.json").exists():
                raise UsageError(f"{target}: is there already; unpack elsewhere")
            pairs += [(entry, target / entry.name) for entry in source.iterdir()]
        else:
            moves.append((source, target))
    for source, target in moves:
        source.rename(target)
        made.append(target)
    return sorted(made)
