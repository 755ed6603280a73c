"""Archives of recordings taken apart with distrust: ours, and how public traces come.

Ours is a tar archive compressed by Zstandard with checksums; ``tar.zst`` of others, ``tar.gz``,
``tar.xz`` and ``zip`` are taken by the same rules. What an archive may ask for is bounded before
it is read: its entries, how deep and how long their names are, the size of their headers, and what
all of it takes.
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
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Literal, cast

import pyarrow as pa

from roslens.recording import RunFailedError, UsageError
from roslens.recording.files import text_path
from roslens.recording.layout import find_traces
from roslens.recording.scratch import scratch_folder
from roslens.tracing.archive import FORMAT, HEAD, SUMS
from roslens.tracing.archive_names import bare_name
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
_LARGEST_DIRECTORY = 16 << 20
_LARGEST_DICTIONARY = 256 << 20
"""Memory that an xz file may ask for; ``xz -9`` takes 65 MiB."""
_IN_64_BITS = 0xFFFFFFFF
_BLOCK = 1 << 20
_SCRATCH = ".unpack-"
_FILES, _FOLDERS = (b"0", b"\0"), (b"5",)
_LONG_NAME, _LONG_LINK, _PAX, _PAX_OF_ALL = b"L", b"K", b"x", b"g"
_DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    ValueError,
    pa.ArrowException,
)

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
        The folder cannot be written.
    """
    raw = (archive / ABOUT_NAME).is_file()
    if not archive.is_file() and not raw:
        raise UsageError(f"{archive}: no such file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with scratch_folder(folder, _SCRATCH) as scratch:
            if raw:
                convert(archive, scratch / KERNEL_NAME, beside=folder)
                return _move(scratch, folder)
            limit = _limit(archive, folder, max_bytes)
            if (convert_file := reader_of(archive)) is not None:
                made = scratch / bare_name(archive) / KERNEL_NAME
                done = convert_file(archive, made, beside=folder, max_bytes=limit)
                for line in filter(None, [*done.notes, done.complaint]):
                    note(line)
                return _move(scratch, folder)
            fitting = max(_FEW_ENTRIES, archive.stat().st_size // _BYTES_OF_ENTRY)
            most = _MOST_ENTRIES if max_bytes is not None else min(fitting, _MOST_ENTRIES)
            return _move(_Unpacked(archive, scratch, limit, most).all(), folder)
    except OSError as error:
        if isinstance(error, pa.ArrowException) or error.errno is None:
            raise UsageError(f"{archive}: damaged: {_first_line(error)}") from error
        reason = (error.strerror or str(error)).lower()
        raise RunFailedError(f"{folder}: cannot be written: {reason}") from error


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
    OSError
        The folder cannot be written.
    """
    folder.mkdir(parents=True)
    _Unpacked(Path(name), folder, sys.maxsize, _MOST_ENTRIES).regular(read)


def _limit(archive: Path, folder: Path, max_bytes: int | None) -> int:
    if max_bytes is not None:
        return max_bytes
    wanted = max(_SMALL, _HIGHEST_RATIO * archive.stat().st_size)
    return min(wanted, shutil.disk_usage(folder).free * 9 // 10)


class _Unpacked:
    """An archive that is being written below a folder."""

    def __init__(self, archive: Path, scratch: Path, limit: int, most: int) -> None:
        self._archive, self._scratch = archive, scratch
        self._limit = self._left = limit
        self._most = most
        self._entries = 0
        self._folders: set[Path] = set()
        self._digests: dict[str, str] = {}

    def all(self) -> Path:
        """Write everything; return the folder whose entries are what was packed."""
        with self._archive.open("rb") as stream:
            magic = stream.read(6)
        try:
            if magic[:4] == b"\x28\xb5\x2f\xfd":
                with pa.CompressedInputStream(text_path(self._archive), "zstd") as opened:
                    entries = self._tar(cast("IO[bytes]", opened).read)
                    first = list(itertools.islice(entries, 1))
                    entries = itertools.chain(first, entries)
                    if not first or first[0].name != HEAD:
                        return self._foreign(entries)
                    self._ours(entries)
                return self._scratch
            if magic == b"\xfd7zXZ\0":
                with self._archive.open("rb") as packed:
                    return self._foreign(self._tar(_Xz(packed).read))
            if magic[:2] == b"\x1f\x8b":
                with gzip.open(self._archive) as unzipped:
                    return self._foreign(self._tar(unzipped.read))
            if magic[:4] == b"PK\x03\x04":
                return self._foreign(self._zip())
        except _DAMAGE as error:
            text = _first_line(error)
            raise UsageError(f"{self._archive}: damaged or no archive: {text}") from error
        known = "neither tar.zst, tar.gz, tar.xz, zip nor a kernel trace"
        raise UsageError(f"{self._archive}: damaged or no archive: {known}")

    def regular(self, read: Read) -> None:
        """Write the regular files of a tar as it comes, and nothing else of it."""
        try:
            for entry in self._tar(read, others="left out"):
                self._save(entry, self._scratch)
        except _DAMAGE as error:
            raise UsageError(f"{self._archive}: no whole archive: {_first_line(error)}") from error

    def _ours(self, entries: Iterator[_Entry]) -> None:
        named: dict[str, str] = {}
        first = True
        for entry in entries:
            if first != (entry.name == HEAD):
                break
            if first:
                _check_head(self._archive, entry.read(_LARGEST_HEADER))
                first = False
            elif entry.name == SUMS:
                named = dict(_sums(self._archive, entry))
            else:
                self._save(entry, self._scratch)
        else:
            if not first:
                self._check(named)
                return
        raise UsageError(f"{self._archive}: not packed by 'roslens pack'")

    def _foreign(self, entries: Iterator[_Entry]) -> Path:
        folder = self._scratch / (bare_name(self._archive) or "unpacked")
        for entry in entries:
            self._save(entry, folder)
        if not folder.is_dir() or not find_traces(folder):
            raise UsageError(f"{self._archive}: holds no CTF trace (no file named 'metadata')")
        return self._scratch

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
            raise UsageError(f"{self._archive}: unpacks to more than {self._limit:,} B{trust}")
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
        if (size := _directory_size(self._archive)) > _LARGEST_DIRECTORY:
            raise UsageError(f"{self._archive}: a directory of {size:,} B; refused")
        with zipfile.ZipFile(self._archive) as found:
            for info in found.infolist():
                self._count(info.file_size)
                if info.is_dir():
                    continue
                kind = stat.S_IFMT(info.external_attr >> 16)
                if kind not in {0, stat.S_IFREG}:
                    raise self._refused(info.filename, "is no regular file; refused")
                if info.flag_bits & 1:
                    raise self._refused(info.filename, "is encrypted; refused")
                if info.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
                    raise self._refused(info.filename, "is compressed by a rare method; refused")
                with found.open(info) as stream:
                    limited = _Limited(stream.read, info.file_size + 1)
                    yield _Entry(self._safe(info.filename), info.file_size, limited.read)


class _Xz:
    """What an xz file holds, one stream after the other; not by lzma.open: it bounds no memory."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed, self._ahead = packed, b""
        self._stream: lzma.LZMADecompressor | None = None

    def read(self, size: int) -> bytes:
        """At most so many bytes; nothing at the end."""
        while True:
            if self._stream is None:
                # Streams may be padded with zeros.
                while not (ahead := self._ahead.lstrip(b"\0")):
                    if not (ahead := self._packed.read(_BLOCK)):
                        return b""
                    self._ahead = ahead
                self._ahead = ahead
                self._stream = lzma.LZMADecompressor(lzma.FORMAT_XZ, _LARGEST_DICTIONARY)
            elif self._stream.needs_input and not self._ahead:
                self._ahead = self._packed.read(_BLOCK)
                if not self._ahead:
                    raise EOFError("ends early")
            block, self._ahead = self._stream.decompress(self._ahead, size), b""
            if self._stream.eof:
                self._ahead, self._stream = self._stream.unused_data, None
            if block:
                return block


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


def _directory_size(archive: Path) -> int:
    """Bytes of a zip file's directory, as its end tells (APPNOTE.TXT 4.3.14 to 4.3.16)."""
    with archive.open("rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(max(0, end - (1 << 16) - 22 - 76))
        tail = stream.read()
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or len(tail) < at + 22:
            raise zipfile.BadZipFile("no directory at its end")
        (size,) = struct.unpack_from("<I", tail, at + 12)
        locator = tail.rfind(b"PK\x06\x07", 0, at)
        if locator < 0:
            return int(size)
        # Directly before its locator, where zipfile looks for it.
        record = locator - 56
        if record < 0 or tail[record : record + 4] != b"PK\x06\x06":
            raise zipfile.BadZipFile("no 64-bit directory where it should be")
        (large,) = struct.unpack_from("<Q", tail, record + 40)
        return max(int(size) if size != _IN_64_BITS else 0, int(large))


def _check_head(archive: Path, text: bytes) -> None:
    try:
        found = json.loads(text)["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{archive}: not packed by 'roslens pack'") from error
    if found != FORMAT:
        raise UsageError(f"{archive}: format {found!r}, this roslens reads {FORMAT}")


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


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]
