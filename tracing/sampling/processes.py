"""What the processes of a run use, sampled beside it into ``resources.parquet``.

Sources, per process: CPU time from its CPU clock (clock_getcpuclockid(3): nanoseconds, ended
threads included); RSS, PSS and USS from ``smaps_rollup``, which counts pages (``statm`` and
``status`` lag behind by up to 64 pages per thread, see proc(5)); page faults from ``stat``;
threads and context switches from ``task/*/status``, so those of ended threads are missing.
Reading ``smaps_rollup`` takes a millisecond and holds the process's memory map meanwhile, so it
is read only when page faults or the rough size say that something changed, and once a second for
what others share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from roslens.tracing.recording.files import replaced_whole
from roslens.tracing.recording.schema import RESOURCES
from roslens.tracing.sampling.periodic import Periodic
from roslens.tracing.sampling.proc import STARTED, namespace_id, number_after, read, stat

HOST = "h0"
_SCHEDULER_CLOCK = 2  # CPUCLOCK_SCHED of the kernel: nanoseconds, of the whole process
MEMORY_SECONDS = 1.0
"""How old RSS and PSS may be of a process that had no page fault and unmapped nothing since."""

# Fields of /proc/<pid>/stat after the name.
_MINOR_FAULTS, _MAJOR_FAULTS, _RESIDENT = 7, 9, 21
_MAPS_EVERY = 5  # samples between two looks at the libraries of a process


@dataclass(frozen=True)
class Sample:
    """What one process used up to one moment; the columns of `RESOURCES`."""

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


class ProcessReader:
    """Reads one process.

    Parameters
    ----------
    pid
        Its id here; its id in its own PID namespace is what samples carry.
    heap
        Gives the bytes that malloc has in use in a process.
    """

    def __init__(self, pid: int, heap: Callable[[int], int | None] = lambda _: None) -> None:
        self.pid = pid
        self._heap = heap
        self.folder = f"/proc/{pid}"
        self.started = stat(pid)[STARTED]
        self._memory_state: tuple[bytes, ...] = ()
        self._memory = Memory()
        self._memory_due = 0.0
        self.vpid = namespace_id(pid)

    def sample(self) -> Sample:
        """Read it now.

        Raises
        ------
        OSError
            It has ended (also when another process has its id by now).
        """
        fields = stat(self.pid)
        if fields[STARTED] != self.started:
            raise ProcessLookupError(self.pid)
        # Only page faults and unmapping change what is resident; counting it takes 100 times
        # longer than to see that there were none.
        state = (fields[_MINOR_FAULTS], fields[_MAJOR_FAULTS], fields[_RESIDENT])
        if state != self._memory_state or time.monotonic() >= self._memory_due:
            self._memory, self._memory_state = memory(self.pid), state
            self._memory_due = time.monotonic() + MEMORY_SECONDS
        # Counting takes longer the more there is, and what a process gains meanwhile is counted:
        # a time from before it would make a growing process grow faster than it does.
        now = time.time_ns()
        cpu = cpu_time_ns(self.pid)
        name, threads, voluntary, involuntary = b"", 0, 0, 0
        for task in os.listdir(f"{self.folder}/task"):  # noqa: PTH208 (names are enough)
            status = read(f"{self.folder}/task/{task}/status")
            if not status:
                continue
            threads += 1
            voluntary += number_after(status, b"\nvoluntary_ctxt_switches:")
            involuntary += number_after(status, b"\nnonvoluntary_ctxt_switches:")
            if int(task) == self.pid:
                name = status.partition(b"\n")[0].partition(b"\t")[2]
        return Sample(
            time_ns=now,
            vpid=self.vpid,
            process=name.decode(errors="replace"),
            cpu_time_ns=cpu,
            rss_bytes=self._memory.rss_bytes,
            pss_bytes=self._memory.pss_bytes,
            uss_bytes=self._memory.uss_bytes,
            heap_bytes=self._heap(self.pid),
            minor_faults=int(fields[_MINOR_FAULTS]),
            major_faults=int(fields[_MAJOR_FAULTS]),
            threads=threads,
            voluntary_switches=voluntary,
            involuntary_switches=involuntary,
        )


def cpu_time_ns(pid: int) -> int | None:
    """User and system CPU time of a process since its start, with its ended threads."""
    with suppress(OSError):
        return time.clock_gettime_ns((~pid << 3) | _SCHEDULER_CLOCK)
    return None


@dataclass(frozen=True)
class Memory:
    """Resident, proportional and unique set of a process in bytes; None where not to be read."""

    rss_bytes: int | None = None
    pss_bytes: int | None = None
    uss_bytes: int | None = None


def memory(pid: int) -> Memory:
    """What of a process is in memory now, by ``smaps_rollup``."""
    text = read(f"/proc/{pid}/smaps_rollup")
    if not text:
        return Memory()
    private = (b"\nPrivate_Clean:", b"\nPrivate_Dirty:", b"\nPrivate_Hugetlb:")
    return Memory(
        rss_bytes=number_after(text, b"\nRss:") * 1024,
        pss_bytes=number_after(text, b"\nPss:") * 1024,
        uss_bytes=sum(number_after(text, name) for name in private) * 1024,
    )


def children(pid: int) -> list[int]:
    """The running children of a process, of all its threads."""
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            found += map(int, read(f"/proc/{pid}/task/{task}/children").split())
    return found


class Sampler(Periodic):
    """Samples a process and all that it starts, in a thread, until it is stopped.

    A process stays known when its parent ends.

    Parameters
    ----------
    pid
        The first process.
    hz
        Samples per second.
    watch_for
        Part of the name of a library; `seen` tells whether any process has loaded it.
    search
        Gives the processes that belong to the first one by other marks than being its children;
        asked once a second, for a program may leave its parent at once.
    heap
        Gives the bytes that malloc has in use in a process.
    """

    def __init__(
        self,
        pid: int,
        hz: float = 10.0,
        *,
        watch_for: str | None = None,
        search: Callable[[], Iterable[int]] = tuple,
        heap: Callable[[int], int | None] = lambda _: None,
    ) -> None:
        super().__init__("sampler", hz)
        self.seen = False
        self.samples: list[Sample] = []
        self._heap = heap
        self._watch_for = watch_for
        self._search = search
        self._known: dict[int, ProcessReader] = {}
        self._add(pid)

    def processes(self) -> list[int]:
        """The processes that are known and were there in the last round."""
        return list(self._known)

    def frame(self) -> pl.DataFrame:
        """The samples as the table `RESOURCES`."""
        if not self.samples:
            return RESOURCES.empty()
        return RESOURCES.conform(
            pl.DataFrame(self.samples, infer_schema_length=None).with_columns(
                pl.lit(HOST).alias("host")
            )
        )

    def write(self, path: Path) -> None:
        """Write the samples.

        Raises
        ------
        OSError
            They cannot be written.
        """
        with replaced_whole(path) as part:
            self.frame().write_parquet(part)

    def _add(self, pid: int) -> None:
        if pid not in self._known:
            with suppress(OSError):
                self._known[pid] = ProcessReader(pid, self._heap)

    def _discover(self) -> None:
        if self.rounds % max(1, round(self.hz)) == 0:
            for pid in self._search():
                self._add(pid)
        waiting = list(self._known)
        while waiting:
            for pid in children(waiting.pop()):
                if pid not in self._known:
                    self._add(pid)
                    waiting.append(pid)

    def _round(self) -> None:
        self._discover()
        for pid, reader in list(self._known.items()):
            try:
                sample = reader.sample()
            except OSError:
                del self._known[pid]
            else:
                if sample.threads and sample.rss_bytes != 0:  # else a zombie
                    self.samples.append(sample)
        if self._watch_for and not self.seen and self.rounds % _MAPS_EVERY == 0:
            self.seen = has_loaded(self._known, self._watch_for)


def has_loaded(pids: Iterable[int], library: str) -> bool:
    """Whether one of the processes has loaded a library with `library` in its name."""
    wanted = library.encode()
    for pid in pids:
        with suppress(OSError):
            if wanted in Path(f"/proc/{pid}/maps").read_bytes():
                return True
    return False
