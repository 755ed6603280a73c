"""Sample the resource use of a run's processes into ``resources.parquet``.

Sources, per process: CPU time from its CPU clock (clock_getcpuclockid(3): nanoseconds, ended
threads included); page faults and threads from ``stat``; RSS, PSS and USS from ``smaps_rollup``,
which counts pages (``statm`` and ``status`` lag behind by up to 64 pages per thread, see proc(5));
context switches from ``task/*/status``, without those of ended threads.

The last two sources take milliseconds, and counting pages locks the process's memory map, for
which the measured program may wait: they have their own rate, and are null in other samples.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from roslens.recording.schema import RESOURCES
from roslens.tracing.proc import STARTED, namespace_id, number_after, process_name, read, stat
from roslens.tracing.processes import process_ids
from roslens.tracing.sampling.periodic import TableSampler
from roslens.tracing.sampling.rates import SamplerRates

if TYPE_CHECKING:
    import polars as pl

HOST = "h0"
_SCHEDULER_CLOCK = 2  # CPUCLOCK_SCHED of the kernel: nanoseconds, of the whole process

# Fields of /proc/<pid>/stat after the name.
_PARENT, _MINOR_FAULTS, _MAJOR_FAULTS, _THREADS = 1, 7, 9, 17
_EAGER_SECONDS = 3.0  # new processes are sought in each round, later each second
_MAPS_EVERY = 5  # samples between two looks at the libraries of a process


@dataclass(frozen=True)
class Sample:
    """The cumulative resource use of a process at one moment; the columns of `RESOURCES`."""

    time_ns: int
    vpid: int
    process: str
    cpu_time_ns: int | None
    rss_bytes: int | None
    pss_bytes: int | None
    uss_bytes: int | None
    heap_bytes: int | None
    minor_faults: int
    major_faults: int
    threads: int | None
    voluntary_switches: int | None
    involuntary_switches: int | None
    host: str = HOST


class ProcessReader:
    """A reader of one process's resource use.

    Parameters
    ----------
    pid
        The process id in our namespace; samples contain the id in the process's own PID namespace.
    heap
        Returns the bytes that malloc has in use in a process.
    memory_seconds
        Seconds between readings of memory and context switches; 0: read in each sample.
    """

    def __init__(
        self,
        pid: int,
        heap: Callable[[int], int | None] = lambda _: None,
        memory_seconds: float = 0.0,
    ) -> None:
        self.pid = pid
        self._heap = heap
        self.started = stat(pid)[STARTED]
        self._memory_seconds = memory_seconds
        self._memory_due = 0.0
        self.vpid = namespace_id(pid)

    def sample(self) -> Sample:
        """Read the process now.

        Raises
        ------
        OSError
            The process has ended (even if another process has its id now).
        """
        fields = stat(self.pid)
        ended = fields[0] in {b"Z", b"X"} and int(fields[_THREADS]) < 2
        if ended or fields[STARTED] != self.started:
            raise ProcessLookupError(self.pid)
        rss = pss = uss = voluntary = involuntary = None
        due = self._memory_seconds < math.inf and time.monotonic() >= self._memory_due
        if due:
            rss, pss, uss = memory(self.pid)
            voluntary, involuntary = switches(self.pid)
        # Counting takes longer the more memory there is, and memory gained meanwhile is counted:
        # with a time from before it, a growing process would seem to grow faster than it does.
        now = time.time_ns()
        if due:
            self._memory_due = time.monotonic() + self._memory_seconds
        return Sample(
            time_ns=now,
            vpid=self.vpid,
            process=process_name(self.pid),
            cpu_time_ns=cpu_time_ns(self.pid),
            rss_bytes=rss,
            pss_bytes=pss,
            uss_bytes=uss,
            heap_bytes=self._heap(self.pid),
            minor_faults=int(fields[_MINOR_FAULTS]),
            major_faults=int(fields[_MAJOR_FAULTS]),
            threads=int(fields[_THREADS]),
            voluntary_switches=voluntary,
            involuntary_switches=involuntary,
        )


def cpu_time_ns(pid: int) -> int | None:
    """Return user and system CPU time of a process since its start in ns, with ended threads."""
    with suppress(OSError):
        return time.clock_gettime_ns((~pid << 3) | _SCHEDULER_CLOCK)
    return None


def memory(pid: int) -> tuple[int | None, int | None, int | None]:
    """Return RSS, PSS and USS of a process in bytes from ``smaps_rollup``; None if unreadable."""
    text = read(f"/proc/{pid}/smaps_rollup")
    if not text:
        return None, None, None
    private = (b"\nPrivate_Clean:", b"\nPrivate_Dirty:", b"\nPrivate_Hugetlb:")
    uss = sum(number_after(text, name) for name in private)
    return number_after(text, b"\nRss:") * 1024, number_after(text, b"\nPss:") * 1024, uss * 1024


def switches(pid: int) -> tuple[int, int]:
    """Return voluntary and involuntary context switches of a process's current threads.

    Raises
    ------
    OSError
        The process does not exist.
    """
    voluntary = involuntary = 0
    for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (names are enough)
        status = read(f"/proc/{pid}/task/{task}/status")
        voluntary += number_after(status, b"\nvoluntary_ctxt_switches:")
        involuntary += number_after(status, b"\nnonvoluntary_ctxt_switches:")
    return voluntary, involuntary


class Sampler(TableSampler):
    """A sampler of a process and all its descendants, in a thread, until it is stopped.

    A process stays known when its parent ends. The thread runs on CPUs that no sampled process may
    use, if there are any.

    Parameters
    ----------
    pid
        The first process.
    hz
        Samples per second.
    watch_for
        Part of a library's name; `seen` states whether any process has loaded such a library.
    belongs
        Returns whether a process belongs to the first one by marks other than its parent, which a
        program may leave at once; called twice for each new process of the machine, because a
        process that is just executing another program has no marks.
    heap
        Returns the bytes that malloc has in use in a process.
    memory_hz
        Readings of memory and context switches per second; 0: never.
    gives_way
        As for `Periodic`.
    """

    table, thread_name = RESOURCES, "sampler"

    def __init__(
        self,
        pid: int,
        hz: float = 10.0,
        *,
        watch_for: str | None = None,
        belongs: Callable[[int], bool] = lambda _: False,
        heap: Callable[[int], int | None] = lambda _: None,
        memory_hz: float = SamplerRates().memory,
        gives_way: bool = True,
    ) -> None:
        super().__init__(hz, gives_way=gives_way)
        self.seen = False
        self._heap = heap
        self._watch_for = watch_for
        self._belongs = belongs
        self._memory_seconds = 1 / memory_hz if memory_hz else math.inf
        self._known: dict[int, ProcessReader] = {}
        self._seen_before: set[int] = set()
        self._seen_twice: set[int] = set()
        self._cpus = self._free_cpus = os.sched_getaffinity(0)
        self._add(pid)

    def processes(self) -> list[int]:
        """Return the known processes that existed in the last round."""
        return list(self._known)

    def frame(self) -> pl.DataFrame:
        """Return the samples as the table `RESOURCES`."""
        return RESOURCES.of_rows(self.rows)

    def _add(self, pid: int) -> None:
        if pid not in self._known:
            with suppress(OSError):
                self._known[pid] = ProcessReader(pid, self._heap, self._memory_seconds)
                self._free_cpus = self._free_cpus - os.sched_getaffinity(pid)

    def _discover(self) -> None:
        second = max(1, round(self.hz))
        if self.rounds > _EAGER_SECONDS * second and self.rounds % second:
            return
        pids = set(process_ids())
        new = sorted(pids - self._seen_twice)
        self._seen_twice, self._seen_before = pids & self._seen_before, pids
        count = 0
        # A child may have a lower process id than its parent.
        while count < len(self._known):
            count = len(self._known)
            for pid in new:
                if pid not in self._known and (self._is_child(pid) or self._belongs(pid)):
                    self._add(pid)
        with suppress(OSError):
            os.sched_setaffinity(0, self._free_cpus or self._cpus)

    def _is_child(self, pid: int) -> bool:
        with suppress(OSError):
            return int(stat(pid)[_PARENT]) in self._known
        return False

    def _round(self) -> None:
        self._discover()
        for pid, reader in list(self._known.items()):
            try:
                sample = reader.sample()
            except OSError:
                del self._known[pid]
            else:
                self.rows.append(sample)
        if self._watch_for and not self.seen and self.rounds % _MAPS_EVERY == 0:
            self.seen = has_loaded(self._known, self._watch_for)


def has_loaded(pids: Iterable[int], library: str) -> bool:
    """Return whether any of the processes has loaded a library with `library` in its name."""
    wanted = library.encode()
    for pid in pids:
        with suppress(OSError):
            if wanted in Path(f"/proc/{pid}/maps").read_bytes():
                return True
    return False
