"""Record with perf_event_open when own threads run and stop, in a buffer for each CPU.

Without root (``perf_event_paranoid`` at most 2), the kernel reports on the calling thread and its
descendants, but not which other threads run instead. See ``man 2 perf_event_open``.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import threading
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

from roslens.recording.arrays import why_no_numpy

HOW = "set /proc/sys/kernel/perf_event_paranoid to 2 or less"
_CALLS = {"x86_64": 298, "aarch64": 241}
_SOFTWARE, _DUMMY = 1, 9
_THREAD_TIME_CPU = 1 << 1 | 1 << 2 | 1 << 7
_FLAGS = sum(
    1 << bit
    for bit in (
        1,  # inherit
        5,  # exclude_kernel
        6,  # exclude_hv
        9,  # comm
        13,  # task
        18,  # sample_id_all
        25,  # use_clockid
        26,  # context_switch
    )
)
_MONOTONIC = 1
_CLOSE_ON_EXEC = 8
_HEAD_AT, _TAIL_AT = 1024, 1032
_MOST_PAGES = 64
"""With one more page for its head, a buffer then fits the memory that any user may lock."""
_PERIOD_SECONDS = 0.05


class _Attributes(ctypes.Structure):
    """Version 5 of ``struct perf_event_attr``."""

    _fields_ = (
        *((name, ctypes.c_uint32) for name in ("type", "size")),
        *(
            (name, ctypes.c_uint64)
            for name in ("config", "sample_period", "sample_type", "read_format", "flags")
        ),
        *((name, ctypes.c_uint32) for name in ("wakeup_events", "bp_type")),
        *(
            (name, ctypes.c_uint64)
            for name in ("config1", "config2", "branch_sample_type", "sample_regs_user")
        ),
        ("sample_stack_user", ctypes.c_uint32),
        ("clockid", ctypes.c_int32),
        ("sample_regs_intr", ctypes.c_uint64),
        *((name, ctypes.c_uint32) for name in ("aux_watermark", "reserved")),
    )


def why_no_perf() -> str | None:
    """Return in one line why switches of own programs cannot be recorded, or None if they can."""
    try:
        os.close(_opened(min(os.sched_getaffinity(0))))
    except PermissionError:
        return f"no kernel trace by perf_event_open: it is not permitted; {HOW}"
    except OSError as error:
        return f"no kernel trace by perf_event_open: {error.strerror}"
    lacking = why_no_numpy()
    return lacking and f"no kernel trace by perf_event_open: {lacking}"


def _opened(cpu: int) -> int:
    """Open an event for the calling thread and its descendants on a CPU."""
    number = _CALLS.get(platform.machine())
    if number is None:
        raise OSError(0, f"not on {platform.machine()}")
    attributes = _Attributes(
        type=_SOFTWARE, size=ctypes.sizeof(_Attributes), config=_DUMMY,
        sample_type=_THREAD_TIME_CPU, flags=_FLAGS, clockid=_MONOTONIC,
    )  # fmt: skip
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.syscall(number, ctypes.byref(attributes), 0, cpu, -1, _CLOSE_ON_EXEC))
    if descriptor < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return descriptor


def _visit_cpus() -> None:
    """Run on each CPU once, because a loss is reported with the next record, which this causes."""
    allowed = os.sched_getaffinity(0)
    for cpu in allowed:
        with suppress(OSError):
            os.sched_setaffinity(0, {cpu})
            time.sleep(1e-6)
    with suppress(OSError):
        os.sched_setaffinity(0, allowed)


class _Buffer:
    """The buffer of one CPU, and the file for its records."""

    def __init__(self, cpu: int, pages: int, path: Path, stack: ExitStack) -> None:
        event = _opened(cpu)
        stack.callback(os.close, event)
        page = mmap.PAGESIZE
        self._size = pages * page
        self._memory = mmap.mmap(event, page + self._size)
        stack.callback(self._memory.close)
        self._head = ctypes.c_uint64.from_buffer(self._memory, _HEAD_AT)
        self._tail = ctypes.c_uint64.from_buffer(self._memory, _TAIL_AT)
        # These references would prevent the memory from being closed.
        stack.callback(self.__dict__.pop, "_head")
        stack.callback(self.__dict__.pop, "_tail")
        self._file = stack.enter_context(path.open("xb"))

    def move(self) -> None:
        """Append the new records to the file."""
        head, tail = self._head.value, self._tail.value
        # Reacquiring the interpreter lock orders the reads on every architecture.
        time.sleep(0)
        first = mmap.PAGESIZE + tail % self._size
        last = first + head - tail
        end = mmap.PAGESIZE + self._size
        self._file.write(self._memory[first : min(last, end)])
        if last > end:
            self._file.write(self._memory[mmap.PAGESIZE : last - self._size])
        self._file.flush()
        self._tail.value = head


class PerfBuffers:
    """A recorder of the calling thread and its descendants, into ``cpu<number>`` files of a folder.

    Raises
    ------
    OSError
        The kernel refuses, or the folder cannot be written.
    """

    def __init__(self, folder: Path, buffer_bytes: int, cpus: Iterable[int]) -> None:
        pages = 1
        while 2 * pages <= min(_MOST_PAGES, buffer_bytes // mmap.PAGESIZE):
            pages *= 2
        self._stop = threading.Event()
        self.trouble: str | None = None
        with ExitStack() as stack:
            self._buffers = [_Buffer(cpu, pages, folder / f"cpu{cpu}", stack) for cpu in cpus]
            self._open = stack.pop_all()
        self._thread = threading.Thread(target=self._run, name="roslens-perf", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Move the remaining records and close everything; called by the recorded thread."""
        self._stop.set()
        self._thread.join()
        with self._open:
            self._move()
            _visit_cpus()
            self._move()

    def _run(self) -> None:
        while not self._stop.wait(_PERIOD_SECONDS):
            self._move()

    def _move(self) -> None:
        if self.trouble is not None:
            return
        try:
            for buffer in self._buffers:
                buffer.move()
        except OSError as error:
            self.trouble = f"the kernel's trace is not whole: {error.strerror}"
