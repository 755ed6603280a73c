"""Convert a file of trace-cmd (``trace.dat``, versions 6 and 7) to a CTF trace.

The format is described in trace-cmd's ``trace-cmd.dat.v6`` and ``v7``.
"""

from __future__ import annotations

import mmap
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path

from roslens.recording import UsageError
from roslens.recording.zstd import ZstdFile
from roslens.tracing.ftrace.ctf import Converted, write_ctf
from roslens.tracing.ftrace.formats import parse_formats, parse_header_page
from roslens.tracing.ftrace.parts import Limit, Reader, mapped
from roslens.tracing.ftrace.raw import Clock, RawTrace
from roslens.tracing.ftrace.recorder import lost_of
from roslens.tracing.ftrace.tsdl import clock_of_other_trace

MAGIC = b"\x17\x08\x44tracing"
_PIECE = 4 << 20
_BYTES_OF_CPU = 4 + 8 + 8
_MONOTONIC = "mono"
# Numbers of the options and sections of version 7 that are read.
_DONE, _CPUSTAT, _BUFFER, _CLOCK, _UNAME = 0, 2, 3, 4, 5
_HEADER_INFO, _EVENT_FORMATS = 16, 18


@dataclass
class _Content:
    """The headers of a file, as far as they are read."""

    header_page: str = ""
    formats: list[tuple[str, str]] = field(default_factory=list)
    cpus: dict[int, tuple[int, int]] = field(default_factory=dict)
    clock: str = "local"
    stats: list[str] = field(default_factory=list)
    uname: list[str] = field(default_factory=list)
    compression: str | None = None


def convert_trace_dat(path: Path, folder: Path, *, beside: Path, max_bytes: int) -> Converted:
    """Convert a file of trace-cmd to a CTF trace.

    Parameters
    ----------
    path
        The file.
    folder
        The new trace.
    beside
        A folder that may hold traces of programs, whose clock is then used.
    max_bytes
        The maximum number of bytes of pages to read.

    Raises
    ------
    UsageError
        The file is damaged or of another byte order, or its clock cannot be joined with other
        traces.
    OSError
        Something cannot be read or written.
    """
    with mapped(path) as data:
        headers = _read(Reader(data, str(path)))
        if not headers.cpus:
            raise UsageError(f"{path}: holds no events (only raw recordings of trace-cmd do)")
        if sum(size for _, size in headers.cpus.values()) > len(data):
            raise UsageError(f"{path}: damaged: pages of several CPUs in one place")
        limit = Limit(max_bytes)
        name = "monotonic" if headers.clock == _MONOTONIC else f"kernel_{headers.clock}"
        own_clock = Clock(name=re.sub(r"\W", "_", name))
        joined = clock_of_other_trace(beside, own_clock)
        if joined is not None and headers.clock != _MONOTONIC:
            raise UsageError(
                f"{path}: its clock is '{headers.clock}', that of the trace beside it another; "
                "record with 'trace-cmd record -C mono'"
            )
        trace = RawTrace(
            header=parse_header_page(headers.header_page, str(path)),
            formats=parse_formats(headers.formats),
            cpus={
                cpu: partial(_pages, data, place, headers.compression, str(path), limit)
                for cpu, place in headers.cpus.items()
            },
            overruns=dict(map(_overrun, headers.stats)),
            hostname=headers.uname[1] if len(headers.uname) > 2 else None,
            release=headers.uname[2] if len(headers.uname) > 2 else None,
        )
        return write_ctf(trace, folder, joined or own_clock)


def formats_of_perf(content: bytes, where: str) -> list[tuple[str, str]]:
    """Return the event descriptions, each with its place, that perf keeps with tracepoints.

    Raises
    ------
    UsageError
        The content is damaged or of another byte order.
    """
    reader, headers = Reader(content, where), _Content()
    if reader.bytes(len(MAGIC)) != MAGIC:
        raise UsageError(f"{where}: damaged: no descriptions of events")
    reader.text(16)
    if reader.number(1):
        raise UsageError(f"{where}: of a big-endian machine, which is not read")
    reader.bytes(5)
    _head_of_formats(reader, headers)
    return headers.formats


def _read(reader: Reader) -> _Content:
    if reader.bytes(len(MAGIC)) != MAGIC:
        raise UsageError(f"{reader.where}: not written by trace-cmd")
    version = reader.text(16)
    big_endian, _, _ = reader.number(1), reader.number(1), reader.number(4)
    if big_endian:
        raise UsageError(f"{reader.where}: of a big-endian machine, which is not read")
    if version == "6":
        return _version_6(reader)
    if version == "7":
        return _version_7(reader)
    raise UsageError(f"{reader.where}: version {version!r} of trace-cmd's format; 6 and 7 are read")


def _header_page(reader: Reader, headers: _Content) -> None:
    if reader.text(32) != "header_page":
        raise UsageError(f"{reader.where}: damaged: no description of pages")
    headers.header_page = reader.sized(8)


def _event_formats(reader: Reader, headers: _Content) -> None:
    for _ in range(reader.number(4)):
        system = reader.text()
        for _ in range(reader.number(4)):
            headers.formats.append((f"{reader.where}: {system}", reader.sized(8)))


def _head_of_formats(reader: Reader, headers: _Content) -> None:
    """Read the common beginning: descriptions of pages, of ftrace's own events, of all others."""
    _header_page(reader, headers)
    reader.text(32)
    reader.sized(8)
    for _ in range(reader.number(4)):
        reader.sized(8)
    _event_formats(reader, headers)


def _version_6(reader: Reader) -> _Content:
    headers = _Content()
    _head_of_formats(reader, headers)
    for size in (4, 4, 8):
        # Symbols, printk formats and process names are skipped.
        reader.sized(size)
    cpus = reader.number(4)
    kind = reader.bytes(10)
    if kind == b"options  \0":
        _options(reader, headers, version=6)
        kind = reader.bytes(10)
    if kind == b"flyrecord\0":
        for cpu in range(cpus):
            headers.cpus[cpu] = reader.number(8), reader.number(8)
        if (text := reader.data[reader.at : reader.at + 8]) and reader.at + 8 <= len(reader.data):
            # A list of the available clocks, with the clock in use in brackets.
            length = int.from_bytes(text, "little")
            if 0 < length < 1 << 12:
                _clock(reader.sized(8), headers)
    return headers


def _version_7(reader: Reader) -> _Content:
    headers = _Content()
    headers.compression = reader.text(64)
    reader.text(64)
    following = reader.number(8)
    seen: set[int] = set()
    while following and following not in seen:
        seen.add(following)
        following = _options(
            _section(reader, following, 0, headers), headers, version=7, whole=reader
        )
    return headers


def _section(reader: Reader, at: int, kind: int, headers: _Content) -> Reader:
    """Return the content of a section of version 7, decompressed if needed."""
    section = Reader(reader.data, reader.where, at)
    number, flags, _, size = map(section.number, (2, 2, 4, 8))
    if number != kind:
        raise UsageError(f"{reader.where}: damaged: section {number} where {kind} should be")
    if not flags & 1:
        return Reader(section.bytes(size), reader.where)
    packed, unpacked = section.number(4), section.number(4)
    return Reader(_unpacked(section.bytes(packed), unpacked, headers.compression, reader.where),
                   reader.where)  # fmt: skip


def _options(
    reader: Reader, headers: _Content, *, version: int, whole: Reader | None = None
) -> int:
    """Read options; return the offset of the next ones, or 0 if there are none."""
    while True:
        kind = reader.number(2)
        if version == 6 and kind == _DONE:
            return 0
        option = Reader(reader.bytes(reader.number(4)), reader.where)
        if kind == _DONE:
            return option.number(8)
        if kind == _CPUSTAT:
            headers.stats.append(option.bytes(len(option.data)).decode(errors="replace"))
        elif kind == _CLOCK:
            _clock(option.bytes(len(option.data)).decode(errors="replace"), headers)
        elif kind == _UNAME:
            headers.uname = (
                option.bytes(len(option.data)).decode(errors="replace").rstrip("\0").split()
            )
        elif whole is not None and kind == _BUFFER:
            _buffer(option, headers)
        elif whole is not None and kind == _HEADER_INFO:
            _header_page(_section(whole, option.number(8), kind, headers), headers)
        elif whole is not None and kind == _EVENT_FORMATS:
            _event_formats(_section(whole, option.number(8), kind, headers), headers)


def _buffer(reader: Reader, headers: _Content) -> None:
    """Read where the pages lie, from the first buffer that has any."""
    reader.number(8)
    reader.text()
    clock = reader.text()
    if (len(reader.data) - reader.at) % _BYTES_OF_CPU == 8:
        # Since trace-cmd 3.1, the page size is stored here.
        reader.number(4)
    places = {}
    for _ in range(reader.number(4)):
        cpu, at, size = reader.number(4), reader.number(8), reader.number(8)
        if size:
            places[cpu] = at, size
    if places and not headers.cpus:
        headers.cpus = places
        _clock(clock, headers)


def _clock(text: str, headers: _Content) -> None:
    used = re.search(r"\[([\w-]+)\]", text)
    name = used[1] if used else text.strip("\0 \n")
    if re.fullmatch(r"[\w-]{1,32}", name):
        headers.clock = name


def _overrun(stats: str) -> tuple[int, int]:
    """Return a CPU and how many events it lost, from the text of ``per_cpu/cpu<n>/stats``."""
    cpu = re.search(r"^CPU: (\d{1,5})$", stats, re.MULTILINE)
    return int(cpu[1]) if cpu else -1, lost_of(stats)


def _pages(
    data: mmap.mmap, place: tuple[int, int], compression: str | None, where: str, limit: Limit
) -> Iterator[bytes]:
    at, size = place
    if at < 0 or size < 0 or at + size > len(data):
        raise UsageError(f"{where}: damaged: pages beyond its end")
    if compression in (None, "none"):
        limit.take(size, where)
        for start in range(at, at + size, _PIECE):
            yield data[start : min(start + _PIECE, at + size)]
        return
    reader = Reader(data, where, at)
    for _ in range(reader.number(4)):
        packed, unpacked = reader.number(4), reader.number(4)
        limit.take(unpacked, where)
        yield _unpacked(reader.bytes(packed), unpacked, compression, where)


def _unpacked(content: bytes, size: int, compression: str | None, where: str) -> bytes:
    if compression == "zlib":
        decompressed = zlib.decompressobj().decompress(content, size)
    elif compression == "zstd":
        with ZstdFile(BytesIO(content)) as stream:
            decompressed = stream.read(size)
    else:
        raise UsageError(f"{where}: compressed by {compression!r}, which is not read")
    if len(decompressed) != size:
        raise UsageError(f"{where}: damaged: decompresses to another size")
    return decompressed
