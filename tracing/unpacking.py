"""Unpack archives of recordings defensively: our own, and common formats of public traces.

Our own format is a tar archive compressed by Zstandard, with checksums; foreign ``tar.zst``,
``tar.gz``, ``tar.xz`` and ``zip`` archives and files of other kernel recorders are handled by the
same rules. They are read in a process with limited memory and time; the output is limited here.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import json
import lzma
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Self

from roslens.recording import RunFailedError, UsageError
from roslens.recording.errors import TooLargeError, cannot_be_written, writing
from roslens.recording.foreign import SECONDS, read_foreign
from roslens.recording.layout import find_traces
from roslens.recording.scratch import scratch_folder
from roslens.recording.zstd import ZstdFile
from roslens.tracing.archive_names import FORMAT, HEAD, SUMS, bare_name
from roslens.tracing.ftrace.recorder import ABOUT_NAME, KERNEL_NAME, convert
from roslens.tracing.kernel_files import reader_of

_SMALL = 256 << 20
_HIGHEST_RATIO = 500
"""Traces of many equal events shrink to a 50th; growth by more than 500 times indicates a bomb."""
_MOST_ENTRIES = 1_000_000
_FEW_ENTRIES = 10_000
_BYTES_OF_ENTRY = 32
"""Minimum size of an entry: in our own archives, each file's checksum alone takes this much."""
_DEEPEST, _LONGEST_NAME = 32, 1024
_LARGEST_HEADER = 64 << 10
_BLOCK = 1 << 20
_SCRATCH = ".unpack-"
Read = Callable[[int], bytes]
_Entry = tuple[str, IO[bytes]]
"""A file of an archive: its name and its content."""


def unpack(
    archive: Path,
    folder: Path,
    *,
    max_bytes: int | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> list[Path]:
    """Unpack an archive: all of it, with correct checksums, or nothing.

    Parameters
    ----------
    archive
        An archive made by `roslens.tracing.archive.pack`, another archive that holds traces, a file
        of trace-cmd, perf or Perfetto, or a folder with raw pages of ftrace; the last two become a
        kernel trace with the clock of the traces in `folder`.
    folder
        The target folder, created if missing. Its existing files are not changed. Foreign archives
        get a folder in it with the name of the archive.
    max_bytes
        The limit of the unpacked bytes; default: 500 times the archive's size, at least 256 MiB, at
        most nine tenths of the free space.
    note
        Called with notes about a kernel trace, one line each.

    Returns
    -------
    list of Path
        The top-most entries created in `folder`.

    Raises
    ------
    UsageError
        The file is no such archive, is damaged or hostile, or its content already exists.
    RunFailedError
        The disk is full.
    """
    if not archive.is_file() and not (archive / ABOUT_NAME).is_file():
        raise UsageError(f"{archive}: no such file")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_folder(folder, _SCRATCH) as scratch:
            notes = read_foreign(
                "roslens.tracing.unpacking:unpack_into",
                archive,
                "an archive or a kernel trace",
                options={"scratch": str(scratch), "folder": str(folder), "max_bytes": max_bytes},
                seconds=SECONDS + (archive.stat().st_size >> 20),
            )
            for line in notes:
                note(line)
            return _move(scratch, folder)


def unpack_into(archive: Path, *, scratch: str, folder: str, max_bytes: int | None) -> list[str]:
    """Write the contents of an archive or kernel trace to a scratch folder, for `unpack`.

    Return notes for the user.
    """
    target, destination = Path(scratch), Path(folder)
    room = _room(destination)
    wanted = (
        max(_SMALL, _HIGHEST_RATIO * archive.stat().st_size) if max_bytes is None else max_bytes
    )
    limit = wanted if max_bytes is not None else min(wanted, room)
    try:
        if archive.is_dir():
            convert(archive, target / KERNEL_NAME, beside=destination)
            return []
        if (convert_file := reader_of(archive)) is not None:
            kernel = target / bare_name(archive) / KERNEL_NAME
            done = convert_file(archive, kernel, beside=destination, max_bytes=limit)
            return [*done.notes, *filter(None, [done.complaint])]
        fitting = max(_FEW_ENTRIES, archive.stat().st_size // _BYTES_OF_ENTRY)
        most = _MOST_ENTRIES if max_bytes is not None else min(fitting, _MOST_ENTRIES)
        _Unpacked(archive, target, limit, most).all()
    except TooLargeError as error:
        if limit == wanted:
            raise
        raise _no_room(destination, archive, room) from error
    except OSError as error:
        # Errors of decompression have no number.
        if error.errno is None or error.filename == str(archive):
            raise
        raise cannot_be_written(destination, error) from error
    return []


def _room(folder: Path) -> int:
    """Return how many bytes may be written to a folder: nine tenths of the free space."""
    return shutil.disk_usage(folder).free * 9 // 10


def _no_room(folder: Path, archive: Path, room: int) -> RunFailedError:
    return RunFailedError(
        f"{folder}: cannot be written: no space left on device: {archive} holds more than the "
        f"{room:,} B for which there is room"
    )


def unpack_stream(read: Read, folder: Path, name: str) -> None:
    """Write the regular files of an uncompressed tar stream; links and devices are left out.

    Parameters
    ----------
    read
        Returns the next bytes of the stream, at most as many as requested.
    folder
        A new folder for all output. Files written before an error are kept.
    name
        The name of the stream in errors.

    Raises
    ------
    UsageError
        The stream is damaged, incomplete or hostile.
    RunFailedError
        The stream holds more than nine tenths of the free space.
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
    """A writer of an archive's files below a folder."""

    def __init__(self, archive: Path, scratch: Path, limit: int, most: int) -> None:
        self._archive, self._scratch = archive, scratch
        self._limit = self._left = limit
        self._most = most
        self._entries = 0
        self._folders: set[Path] = set()
        self._digests: dict[str, str] = {}

    def all(self) -> None:
        """Write all files."""
        with self._archive.open("rb") as stream:
            magic = stream.read(6)
        if magic[:4] == b"\x28\xb5\x2f\xfd":
            with ZstdFile(self._archive) as unzipped:
                entries = self._tar(unzipped.read)
                first = next(entries, None)
                if first is not None and first[0] == HEAD:
                    self._ours(first[1], entries)
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
        """Write the regular files of a tar stream, and nothing else."""
        try:
            for entry in self._tar(read, leave_out_others=True):
                self._save(*entry, self._scratch)
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise UsageError(f"{self._archive}: no whole archive: {error}") from error

    def _ours(self, head: IO[bytes], entries: Iterator[_Entry]) -> None:
        if (version := json.loads(head.read(_LARGEST_HEADER))["format"]) != FORMAT:
            raise UsageError(f"{self._archive}: format {version!r}, this roslens reads {FORMAT}")
        named: dict[str, str] = {}
        for name, content in entries:
            if name == SUMS:
                named = dict(_sums(self._archive, content))
            else:
                self._save(name, content, self._scratch)
        self._check(named)

    def _foreign(self, entries: Iterator[_Entry]) -> None:
        folder = self._scratch / (bare_name(self._archive) or "unpacked")
        for entry in entries:
            self._save(*entry, folder)
        if not folder.is_dir() or not find_traces(folder):
            raise UsageError(f"{self._archive}: holds no CTF trace (no file named 'metadata')")

    def _save(self, name: str, content: IO[bytes], folder: Path) -> None:
        if name in self._digests:
            raise self._refused(name, "is in it twice")
        path = folder / name
        if path.parent not in self._folders:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(path.parent)
        digest = hashlib.sha256()
        with path.open("xb") as stream:
            while block := content.read(_BLOCK):
                digest.update(block)
                stream.write(block)
        self._digests[name] = digest.hexdigest()

    def _check(self, named: dict[str, str]) -> None:
        digests = self._digests
        wrong = sorted(name for name in {*digests, *named} if digests.get(name) != named.get(name))
        if wrong:
            more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
            raise self._refused(f"{wrong[0]}{more}", "missing or with a wrong checksum")

    def _refused(self, name: str, why: str) -> UsageError:
        return UsageError(f"{self._archive}: {name[:_LONGEST_NAME]!r}: {why}")

    def _count(self, size: int = 0) -> None:
        """Count a header, and the size that it states."""
        self._entries += 1
        self._left -= size
        trust = "; if you trust it, give --max-size"
        if self._left < 0:
            raise TooLargeError(f"{self._archive}: unpacks to more than {self._limit:,} B{trust}")
        if self._entries > self._most:
            more = trust if self._most < _MOST_ENTRIES else ""
            raise UsageError(f"{self._archive}: holds more than {self._most:,} entries{more}")

    def _safe_name(self, name: str) -> str:
        name = name.removeprefix("./")
        path = PurePosixPath(name)
        parts = path.parts
        bad = path.is_absolute() or not parts or any(part in {"..", "."} for part in parts)
        if bad or "\\" in name or "\0" in name or str(path) != name:
            raise self._refused(name, "would lie outside of the folder; refused")
        if len(parts) > _DEEPEST or len(os.fsencode(name)) > _LONGEST_NAME:
            raise self._refused(
                name, f"deeper than {_DEEPEST} folders or longer than {_LONGEST_NAME} B; refused"
            )
        return name

    def _tar(self, read: Read, *, leave_out_others: bool = False) -> Iterator[_Entry]:
        stream = _Bounded(read, self._archive)
        with tarfile.open(
            fileobj=stream,
            mode="r|",
            tarinfo=_Header,
            encoding="utf-8",
            errors="surrogateescape",
        ) as tar:
            while (info := tar.next()) is not None:
                # Otherwise tarfile would keep all entries and the global headers.
                tar.members = []  # type: ignore[attr-defined]
                tar.pax_headers = {}
                if info.size < 0:
                    raise self._refused(info.name, "has a negative size; refused")
                self._count(info.size)
                if leave_out_others and (info.islnk() or info.issym() or info.isdev()):
                    pass
                elif info.isreg() and not info.issparse():
                    stream.allowed += info.size
                    content = tar.extractfile(info)
                    assert content is not None
                    yield self._safe_name(info.name), content
                elif not info.isdir():
                    raise self._refused(info.name, "is no regular file; refused")
                stream.allowed = _Bounded.allowed
        # The checksums of the compression come last.
        rest = read(_BLOCK)
        while block := read(_BLOCK - len(rest)):
            rest += block
        if len(rest) == _BLOCK:
            raise UsageError(f"{self._archive}: more lies behind its end; refused")

    def _zip(self) -> Iterator[_Entry]:
        with zipfile.ZipFile(self._archive) as zipped:
            for info in zipped.infolist():
                self._count(info.file_size)
                if info.is_dir():
                    continue
                kind = stat.S_IFMT(info.external_attr >> 16)
                if kind not in {0, stat.S_IFREG}:
                    raise self._refused(info.filename, "is no regular file; refused")
                with zipped.open(info) as content:
                    yield self._safe_name(info.filename), content


class _Bounded(io.RawIOBase):
    """A stream that limits how much `tarfile` reads, whatever size a header claims."""

    allowed = _LARGEST_HEADER + 2 * tarfile.RECORDSIZE

    def __init__(self, read: Read, archive: Path) -> None:
        self._read, self._archive = read, archive

    def read(self, size: int = -1) -> bytes:
        """Read at most `size` bytes; nothing at the end."""
        if self.allowed <= 0:
            text = f"{self._archive}: a header of more than {_LARGEST_HEADER:,} B; refused"
            raise UsageError(text)
        block = self._read(size)
        self.allowed -= len(block)
        return block


class _Header(tarfile.TarInfo):
    """A tar header that, if damaged or missing, `tarfile` does not mistake for the end."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Parse the header in one block."""
        if not buf:
            raise EOFError("ends early")
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if any(buf):
                raise tarfile.ReadError(str(error)) from error
            raise


def _sums(archive: Path, content: IO[bytes]) -> Iterator[tuple[str, str]]:
    text = content.read(_SMALL)
    for line in os.fsdecode(text).split("\n"):
        digest, blanks, name = line.partition("  ")
        if blanks:
            yield name, digest
        elif line:
            raise UsageError(f"{archive}: {SUMS}: not a list of checksums")


def _move(scratch: Path, folder: Path) -> list[Path]:
    """Move the unpacked files to their place, merging them into existing folders."""
    targets: list[Path] = []
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
        targets.append(target)
    return sorted(targets)
