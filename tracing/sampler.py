"""What the processes of a run use, sampled beside it into ``resources.parquet``.

Sources, per process: CPU time from its CPU clock (clock_getcpuclockid(3): nanoseconds, ended
threads included); RSS and PSS from ``smaps_rollup``, which counts pages (``statm`` and ``status``
lag behind by up to 64 pages per thread, see proc(5)); threads and context switches from
``task/*/status``, so those of ended threads are missing. Reading ``smaps_rollup`` takes a
millisecond and holds the process's memory map meanwhile, so it is read only when page faults or
the rough size say that something changed, and once a second for what others share.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tracing.recording.manifest import Sampler as SamplerFacts
from tracing.recording.schema import RESOURCES

HOST = "h0"
_SCHEDULER_CLOCK = 2  # CPUCLOCK_SCHED of the kernel: nanoseconds, of the whole process
MEMORY_SECONDS = 1.0
"""How old RSS and PSS may be of a process that had no page fault and unmapped nothing since."""

# Fields of /proc/<pid>/stat after the name.
_MINOR_FAULTS, _MAJOR_FAULTS, _STARTED, _RESIDENT = 7, 9, 19, 21
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
    threads: int | None
    voluntary_switches: int | None
    involuntary_switches: int | None


class ProcessReader:
    """Reads one process.

    Parameters
    ----------
    pid
        Its id here; its id in its own PID namespace is what samples carry.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.folder = f"/proc/{pid}"
        self.started = _stat(pid)[_STARTED]
        self._memory_state: tuple[bytes, ...] = ()
        self._memory: tuple[int | None, int | None] = (None, None)
        self._memory_due = 0.0
        self.vpid = pid
        namespaces = _read(f"{self.folder}/status").partition(b"\nNSpid:")[2]
        if namespaces:
            self.vpid = int(namespaces.partition(b"\n")[0].split()[-1])

    def sample(self) -> Sample:
        """Read it now.

        Raises
        ------
        OSError
            It has ended (also when another process has its id by now).
        """
        now = time.time_ns()
        cpu = cpu_time_ns(self.pid)
        stat = _stat(self.pid)
        if stat[_STARTED] != self.started:
            raise ProcessLookupError(self.pid)
        # Only page faults and unmapping change what is resident; counting it takes 100 times
        # longer than to see that there were none.
        state = (stat[_MINOR_FAULTS], stat[_MAJOR_FAULTS], stat[_RESIDENT])
        if state != self._memory_state or time.monotonic() >= self._memory_due:
            self._memory, self._memory_state = memory(self.pid), state
            self._memory_due = time.monotonic() + MEMORY_SECONDS
        rss, pss = self._memory
        name, threads, voluntary, involuntary = b"", 0, 0, 0
        for task in os.listdir(f"{self.folder}/task"):  # noqa: PTH208 (names are enough)
            status = _read(f"{self.folder}/task/{task}/status")
            if not status:
                continue
            threads += 1
            voluntary += _number_after(status, b"\nvoluntary_ctxt_switches:")
            involuntary += _number_after(status, b"\nnonvoluntary_ctxt_switches:")
            if int(task) == self.pid:
                name = status.partition(b"\n")[0].partition(b"\t")[2]
        return Sample(
            time_ns=now,
            vpid=self.vpid,
            process=name.decode(errors="replace"),
            cpu_time_ns=cpu,
            rss_bytes=rss,
            pss_bytes=pss,
            threads=threads,
            voluntary_switches=voluntary,
            involuntary_switches=involuntary,
        )


def cpu_time_ns(pid: int) -> int | None:
    """User and system CPU time of a process since its start, with its ended threads."""
    with suppress(OSError):
        return time.clock_gettime_ns((~pid << 3) | _SCHEDULER_CLOCK)
    return None


def memory(pid: int) -> tuple[int | None, int | None]:
    """Resident and proportional set of a process in bytes; None where it may not be read."""
    text = _read(f"/proc/{pid}/smaps_rollup")
    if not text:
        return None, None
    return _number_after(text, b"\nRss:") * 1024, _number_after(text, b"\nPss:") * 1024


def children(pid: int) -> list[int]:
    """The running children of a process, of all its threads."""
    found: list[int] = []
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            found += map(int, _read(f"/proc/{pid}/task/{task}/children").split())
    return found


class Sampler:
    """Samples a process and all that it starts, in a thread, until it is stopped.

    A process stays known when its parent ends. A sampling that begins late by a whole period or
    more leaves samples out, never piles them up; how many is in `facts`.

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
    """

    def __init__(
        self,
        pid: int,
        hz: float = 10.0,
        *,
        watch_for: str | None = None,
        search: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self.hz = hz
        self.seen = False
        self.overruns = 0
        self.samples: list[Sample] = []
        self.rounds = 0
        self._watch_for = watch_for
        self._search = search
        self._known: dict[int, ProcessReader] = {}
        self._own_cpu_ns = 0
        self._elapsed_ns = 0
        self._stop = threading.Event()
        self._add(pid)
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> Sampler:
        """Begin."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def facts(self) -> SamplerFacts:
        """How it went, for the manifest."""
        share = self._own_cpu_ns / self._elapsed_ns if self._elapsed_ns else 0.0
        return SamplerFacts(
            hz=self.hz, rounds=self.rounds, overruns=self.overruns, cpu_fraction=round(share, 5)
        )

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
        self.frame().write_parquet(path)

    def _add(self, pid: int) -> None:
        if pid not in self._known:
            with suppress(OSError):
                self._known[pid] = ProcessReader(pid)

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
        self.rounds += 1

    def _run(self) -> None:
        period = 1.0 / self.hz
        begun = due = time.monotonic()
        while not self._stop.is_set():
            self._round()
            due += period
            late = time.monotonic() - due
            if late >= 0:
                missed = int(late / period) + 1
                self.overruns += missed
                due += missed * period
            self._stop.wait(max(0.0, due - time.monotonic()))
        # What short programs used at last is seen no other way.
        self._round()
        self._own_cpu_ns = time.thread_time_ns()
        self._elapsed_ns = int((time.monotonic() - begun) * 1e9)


def has_loaded(pids: Iterable[int], library: str) -> bool:
    """Whether one of the processes has loaded a library with `library` in its name."""
    wanted = library.encode()
    for pid in pids:
        with suppress(OSError):
            if wanted in Path(f"/proc/{pid}/maps").read_bytes():
                return True
    return False


def _read(path: str) -> bytes:
    """A file of ``/proc``, which fits one read; nothing if it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def _stat(pid: int) -> list[bytes]:
    """The fields of ``/proc/<pid>/stat`` from the state on.

    Raises
    ------
    OSError
        There is no such process.
    """
    fields = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if not fields:
        raise ProcessLookupError(f"no process {pid}")
    return fields


def _number_after(text: bytes, name: bytes) -> int:
    """The number that follows `name`; 0 if it is not there."""
    rest = text.partition(name)[2].split(None, 1)
    return int(rest[0]) if rest else 0
