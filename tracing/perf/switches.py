"""Write the records of perf_event_open about own threads as ``sched_switch`` events of a CTF trace.

Only the own side of each switch is known: the other thread has the number -1.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.recording.arrays import np
from roslens.tracing.ftrace.ctf import write_ctf
from roslens.tracing.ftrace.formats import format_of
from roslens.tracing.ftrace.raw import RawTrace, Records
from roslens.tracing.ftrace.recorder import KERNEL_NAME, KernelRecording, monotonic_clock
from roslens.tracing.perf.buffers import PerfBuffers

RAW_NAME = "perf"
"""Folder of the records next to the trace, until they are converted when the recording ends."""
UNKNOWN = -1
"""Replaces the id of the thread that ran before or runs next."""
_LOST, _COMM, _FORK, _SWITCH = 2, 3, 7, 14
_OUT, _PREEMPTED = 1 << 13, 1 << 14
_ASLEEP = 1
_NAME_BYTES = 16
_HEAD = struct.Struct("<IHH")
"""Kind, flags, size in bytes."""
_TAIL = struct.Struct("<4xIQ8x")
"""Trailer of each record: process, thread, time, CPU."""
_FORKED = struct.Struct("<4I8x")
"""Content of a fork record: new and old process, new and old thread, time."""
_NUMBER = 1
_EVENT = [
    ("type", "<u2"), ("flags", "u1"), ("preempt", "u1"), ("pid", "<i4"),
    ("prev_comm", f"S{_NAME_BYTES}"), ("prev_tid", "<i4"), ("prev_state", "<i8"),
    ("next_comm", f"S{_NAME_BYTES}"), ("next_tid", "<i4"),
]  # fmt: skip


@contextmanager
def perf_recording(output: Path, *, buffer_bytes: int) -> Iterator[KernelRecording]:
    """Record when the calling thread and its descendants run, for as long as the context lasts.

    Parameters
    ----------
    output
        The folder of the run's traces; the trace becomes ``<output>/kernel``.
    buffer_bytes
        Size of the buffer of each CPU, limited to what any user may lock.

    Raises
    ------
    RunFailedError
        The kernel refuses, or the folder cannot be written.
    """
    recording = KernelRecording(kind="perf", events=["sched_switch"])
    raw = output.parent / RAW_NAME
    try:
        raw.mkdir(parents=True)
        buffers = PerfBuffers(raw, buffer_bytes, range(os.cpu_count() or 1))
    except OSError as error:
        shutil.rmtree(raw, ignore_errors=True)
        raise RunFailedError(f"the kernel cannot be recorded: {error}") from error
    try:
        yield recording
    finally:
        buffers.end()
        if buffers.trouble:
            recording.troubles.append(buffers.trouble)
        try:
            recording.lost = convert(raw, output / KERNEL_NAME, beside=output)
            shutil.rmtree(raw, ignore_errors=True)
        except OSError as error:
            recording.troubles.append(f"the kernel's trace stays raw in {raw.name}: {error}")


def convert(raw: Path, folder: Path, *, beside: Path) -> int:
    """Convert the records in a folder, one file for each CPU, to a CTF trace.

    Parameters
    ----------
    raw
        The folder that a recorder left.
    folder
        The new trace.
    beside
        The folder of the programs' traces, whose clock is used.

    Returns
    -------
    int
        The number of missing records.

    Raises
    ------
    OSError
        A file cannot be read or written.
    """
    cpus = {int(path.name.removeprefix("cpu")): path for path in raw.glob("cpu*")}
    names = _names(path.read_bytes() for path in cpus.values())
    trace = RawTrace(
        formats={_NUMBER: format_of(_NUMBER, "sched_switch", np.dtype(_EVENT))},
        records={cpu: partial(_switches, path, names) for cpu, path in cpus.items()},
        hostname=os.uname().nodename,
        release=os.uname().release,
        tracer="perf_event_open",
    )
    return write_ctf(trace, folder, monotonic_clock(beside)).missing


def records_of(data: bytes) -> Iterator[tuple[int, int, bytes, int, int]]:
    """Yield kind, flags, content, thread and time of each record, up to the first invalid one."""
    at = 0
    while at + _HEAD.size + _TAIL.size <= len(data):
        kind, misc, size = _HEAD.unpack_from(data, at)
        tail = at + size - _TAIL.size
        if tail < at + _HEAD.size or at + size > len(data):
            return
        tid, moment = _TAIL.unpack_from(data, tail)
        yield kind, misc, data[at + _HEAD.size : tail], tid, moment
        at += size


def _names(pieces: Iterable[bytes]) -> dict[int, bytes]:
    """Return the last name of each thread, or the name of its creator if it was never named."""
    names: dict[int, bytes] = {
        threading.get_native_id(): Path("/proc/thread-self/comm").read_bytes()
    }
    forks: list[tuple[int, int, int]] = []
    named: list[tuple[int, int, bytes]] = []
    for data in pieces:
        for kind, _, body, tid, moment in records_of(data):
            if kind == _COMM:
                named.append((moment, tid, body[8:]))
            elif kind == _FORK:
                _, _, child, parent = _FORKED.unpack_from(body)
                forks.append((moment, child, parent))
    # A thread may be named on different CPUs: the time tells which name is the last.
    names.update((tid, name) for _, tid, name in sorted(named))
    for _, child, parent in sorted(forks):
        names.setdefault(child, names.get(parent, b""))
    return {tid: re.split(rb"[\n\0]", name)[0][: _NAME_BYTES - 1] for tid, name in names.items()}


def _switches(path: Path, names: dict[int, bytes]) -> Iterator[Records]:
    """Yield the switches of a CPU, split where records were lost."""
    rows: list[tuple[object, ...]] = []
    times: list[int] = []
    lost = 0
    for kind, misc, body, tid, moment in records_of(path.read_bytes()):
        if kind == _LOST:
            yield _records(rows, times, lost)
            rows, times, lost = [], [], int.from_bytes(body[8:16], "little")
        elif kind == _SWITCH:
            name, state = names.get(tid, b""), 0 if misc & _PREEMPTED else _ASLEEP
            out = (name, tid, state, b"", UNKNOWN)
            rows.append(
                (_NUMBER, 0, 0, tid, *(out if misc & _OUT else (b"", UNKNOWN, 0, name, tid)))
            )
            times.append(moment)
    yield _records(rows, times, lost)


def _records(rows: list[tuple[object, ...]], times: list[int], lost: int) -> Records:
    table = np.array(rows, dtype=_EVENT)
    begin = np.arange(len(rows), dtype=np.int64) * table.itemsize
    size = np.full(len(rows), table.itemsize, dtype=np.int64)
    data = np.frombuffer(table.tobytes(), dtype=np.uint8)
    return Records(data, begin, size, np.array(times, dtype=np.int64), lost)
