"""Sample the call stacks of a run's threads, on CPUs or waiting off them, with perf.

``perf record`` samples threads and their descendants by the clock of the CPU, which needs no
hardware counters. It copies the registers and the top of each stack; ``perf script`` unwinds these
by DWARF after the run, and names the functions. Frame pointers cannot be used, because the
libraries of distributions are compiled without them. See ``man perf-record`` and
``perf.data-file-format.txt`` of the kernel's sources.
"""

from __future__ import annotations

import mmap
import os
import re
import select
import signal
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from roslens.recording.manifest import Sampler as SamplerFacts
from roslens.recording.schema import CPU_SAMPLES, WAITS

if TYPE_CHECKING:
    import polars as pl

HZ = 199
"""Samples per second and CPU: a prime, to avoid beating with timers."""
MOST_HZ = 10_000
STACK_BYTES = 8192
"""Bytes that are copied of each stack; callers further below are not seen."""
_BUFFER_PAGES = 128
"""Pages of the buffer of each CPU; the limit of memory that any user may lock."""
_READY_SECONDS = 10.0
_END_SECONDS = 30.0
_ENDS = ("rb", "wb")
_HOST = "h0"
_UNKNOWN = "[unknown]"
_NO_STACK = {"host": _HOST, "whole": False, "path": _UNKNOWN}
_SWITCHES = 1
"""Period of the event of a thread leaving a CPU, by which its stacks are recognised."""
_SWITCH_EVENTS = ("-e", f"context-switches/period={_SWITCHES}/", "--switch-events")
_NO_WAITS = (
    "waits: no stack of any was permitted; set /proc/sys/kernel/perf_event_paranoid to 1 or less"
)
MISSING = (
    "no stacks: perf is not installed (apt-get install linux-perf, on Ubuntu linux-tools-generic)"
)
PYTHON_NAMES = ("PYTHONPERFSUPPORT", "PYTHON_PERF_JIT_SUPPORT")
"""Variables that make Python name its functions for perf: since 3.12 and, whole stacks, 3.13."""
_NAMES_FOLDER = Path("/tmp")  # noqa: S108  (Python's own choice)
_HEADER = struct.Struct("<24xQ8x2Q")
"""Offset of the attributes in the file; offset and size of the records."""
_RECORD = struct.Struct("<IHH")
_MMAP, _LOST, _COMM, _FORK, _MMAP2, _LOST_SAMPLES = 1, 2, 3, 7, 10, 13
_BEHIND_TIME = (1 << 6, 1 << 9, 1 << 7, 1 << 16)
"""Parts of the trailer of a record, 8 bytes each: id, stream, CPU, identifier."""
_NOBODY = (1 << 31) - 2
"""The id of no process."""
_EXEC = 1 << 13
"""In a COMM: caused by exec. In a FORK: the child starts without the parent's memory map."""
_SAMPLE = re.compile(r"\s*(\d+)/(\d+)\s+(\d+)\.(\d{9}):\s+(\d+)\s*$")
_SWITCH = re.compile(r"\s*(\d+)/(\d+)\s+(\d+)\.(\d{9}): PERF_RECORD_SWITCH (OUT|IN)\s*(preempt)?")
_FRAME = re.compile(r"\s+[0-9a-f]+ (.+?) \(((?:[/\[]|inlined\)).*)\)$")
_FIRST = re.compile(r"(_start|__libc_start|start_thread|_*clone3?$)")
"""Functions without a caller: a stack that ends in one of them is complete."""
_OUTERMOST = 3
_MOST_NAMED = 3


class StackSampler:
    """A perf process next to a run. Failures of perf go to `troubles`, and cause no other failure.

    Parameters
    ----------
    folder
        The folder of perf's file, which is removed after the run.
    hz
        Samples per second on each CPU that runs the run's threads.
    pids
        Processes that already run. None given: descendants of the calling thread are sampled.
    waits
        Whether to record also where, and how long, threads wait.
    """

    def __init__(
        self, folder: Path, hz: float, pids: Sequence[int] = (), *, waits: bool = False
    ) -> None:
        self._pids = pids
        self._waits = waits
        self.hz = hz
        self.troubles: list[str] = []
        self._raw = folder / "perf.data"
        self._perf: subprocess.Popen[bytes] | None = None
        self._pipes = ExitStack()
        self._cpu_fraction = 0.0
        self._begun = 0.0
        self._rounds = self._lost = 0

    def __enter__(self) -> None:
        """Start sampling."""
        with ExitStack() as stack:
            (control, ask), (answer, reply) = (
                [
                    stack.enter_context(os.fdopen(end, mode, 0))
                    for end, mode in zip(os.pipe(), _ENDS, strict=True)
                ]
                for _ in range(2)
            )
            theirs = control.fileno(), reply.fileno()
            whom = ("-t", str(threading.get_native_id()))
            if self._pids:
                whom = ("-p", ",".join(map(str, self._pids)))
            command = [
                "perf", "record", "-q", "-o", str(self._raw), "-e", "cpu-clock",
                "-F", f"{self.hz:g}", "-k", "CLOCK_MONOTONIC",
                "--call-graph", f"dwarf,{STACK_BYTES}", "-m", str(_BUFFER_PAGES),
                *(_SWITCH_EVENTS if self._waits else ()),
                "--no-buildid", *whom, "--inherit",
                "-D", "-1", "--control", f"fd:{theirs[0]},{theirs[1]}",
            ]  # fmt: skip
            try:
                self._perf = subprocess.Popen(
                    command, pass_fds=theirs, stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
                )  # fmt: skip
            except FileNotFoundError:
                self.troubles.append(MISSING)
                return
            except OSError as error:
                self.troubles.append(f"no stacks: perf cannot be run: {error.strerror}")
                return
            control.close()
            reply.close()
            self._begun = time.monotonic()
            self._ask = ask
            self.sample(on=True)
            # perf ends when the pipe is closed.
            self._pipes = stack.pop_all()
            if not select.select([answer], [], [], _READY_SECONDS)[0] or not answer.read(16):
                self.troubles.append(f"no stacks: {_reason(self._end())}")

    def sample(self, *, on: bool) -> None:
        """Start or stop taking samples."""
        with suppress(BrokenPipeError):
            self._ask.write(b"enable\n" if on else b"disable\n")

    def __exit__(self, *_: object) -> None:
        if self._perf is not None and (complaint := self._end()):
            self.troubles.append(f"stacks: perf said: {complaint}")

    def _end(self) -> str:
        """End perf, and return its complaints on one line."""
        perf, self._perf = self._perf, None
        assert perf is not None
        assert perf.stderr is not None
        # Popen's own signalling may reap perf, and its resource usage would be lost.
        os.kill(perf.pid, signal.SIGINT)
        late = threading.Timer(_END_SECONDS, os.kill, (perf.pid, signal.SIGKILL))
        late.start()
        with perf.stderr:
            complaint = perf.stderr.read().decode(errors="replace")
        late.cancel()
        _, status, usage = os.wait4(perf.pid, 0)
        perf.returncode = os.waitstatus_to_exitcode(status)
        if perf.returncode == -signal.SIGKILL:
            self.troubles.append("stacks: perf was killed, and what it sampled cannot be read")
        self._pipes.close()
        seconds = time.monotonic() - self._begun
        self._cpu_fraction = (usage.ru_utime + usage.ru_stime) / seconds if self._begun else 0.0
        return " ".join(complaint.split())

    def close(self) -> None:
        """Remove perf's file."""
        self._raw.unlink(missing_ok=True)

    @property
    def facts(self) -> SamplerFacts:
        """Return facts about the sampling: a round is a sample, an overrun is a lost sample."""
        return SamplerFacts(
            hz=self.hz, rounds=self._rounds, overruns=self._lost,
            cpu_fraction=round(self._cpu_fraction, 5),
        )  # fmt: skip

    def write(self, path: Path, offset_ns: int) -> list[str]:
        """Write the table `CPU_SAMPLES` and, next to it, `WAITS`.

        Parameters
        ----------
        path
            The table's file.
        offset_ns
            Nanoseconds from the monotonic clock to the times of the trace.

        Returns
        -------
        What the samples do not show, as one sentence each.

        Raises
        ------
        OSError
            A table cannot be written.
        """
        if not self._raw.is_file() or not self._raw.stat().st_size:
            return self.troubles
        self._lost, pids = forget_old_maps(self._raw)
        with _python_names(self._raw, pids, ours=not self._pids) as raw:
            samples, waits = self._read(raw, offset_ns)
        if self.troubles and not samples.height:
            # Whether there was anything to sample is not known.
            return self.troubles
        self._rounds = samples.height
        CPU_SAMPLES.write(samples, path)
        if self._waits:
            WAITS.write(waits, path.with_stem(WAITS.name))
            if waits.height and (waits["path"] == _UNKNOWN).all():
                self.troubles.append(_NO_WAITS)
        if self._lost:
            self.troubles.append(
                f"stacks: perf lost {self._lost:,} samples: record with a lower rate"
                + (" or without waits" if self._waits else "")
            )
        return [*self.troubles, *unseen(samples)]

    def _read(self, raw: Path, offset_ns: int) -> tuple[pl.DataFrame, pl.DataFrame]:
        command = [
            "perf", "script", "-f", "-i", str(raw), "--no-inline", "--ns",
            "--show-switch-events", "-F", "pid,tid,time,period,ip,sym,dso",
        ]  # fmt: skip
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace"
        ) as script:
            assert script.stdout is not None
            tables = tables_of(script.stdout, offset_ns)
        if script.returncode:
            self.troubles.append(f"stacks: perf script ended with status {script.returncode}")
        return tables


@contextmanager
def _python_names(raw: Path, pids: set[int], *, ours: bool) -> Iterator[Path]:
    """Yield the file with the names that Python wrote; remove what our programs wrote."""
    written = ["jitted-{}-*.so", *(["perf-{}.map", "jit-{}.dump"] if ours else [])]
    named = raw.with_suffix(".named")
    try:
        if any((_NAMES_FOLDER / f"jit-{pid}.dump").exists() for pid in pids):
            command = ["perf", "inject", "-f", "--jit", "-i", str(raw), "-o", str(named)]
            done = subprocess.run(command, capture_output=True, check=False)
            yield raw if done.returncode else named
        else:
            yield raw
    finally:
        named.unlink(missing_ok=True)
        for pid in pids:
            for pattern in written:
                for left in _NAMES_FOLDER.glob(pattern.format(pid)):
                    with suppress(OSError):
                        left.unlink()


def _reason(complaint: str) -> str:
    """Explain from perf's output why it does not record, and what to do about it."""
    if re.search(r"permi(tted|ssion)|paranoid|access to performance", complaint, re.IGNORECASE):
        return "perf is not permitted; set /proc/sys/kernel/perf_event_paranoid to 2 or less"
    return f"perf does not record: {complaint[:200] or 'it said nothing'}"


def forget_old_maps(path: Path) -> tuple[int, set[int]]:
    """Make perf script discard the old memory map of each process that executed another program.

    Versions up to at least 6.1 keep the mappings from before the exec, of the process or its
    parent, and find libraries at their old addresses: stacks then end in the library.

    Returns
    -------
    The number of samples that the kernel could not pass to perf, and the processes.
    """
    lost = Counter[int]()
    # The file is ordered by CPU, so the order of events follows from times, not positions.
    became: dict[int, int] = {}
    forks: dict[int, list[int]] = {}
    maps: list[tuple[int, int, int]] = []
    with path.open("r+b") as stream, mmap.mmap(stream.fileno(), 0) as data:
        attributes, at, size = _HEADER.unpack_from(data, 0)
        (parts,) = struct.unpack_from("<24xQ", data, attributes)
        from_end = 8 * (1 + sum(bool(parts & part) for part in _BEHIND_TIME))
        end = min(at + size, len(data))
        while at + _RECORD.size <= end:
            kind, misc, size = _RECORD.unpack_from(data, at)
            if size < _RECORD.size or at + size > end:
                break
            # Records of perf's own kinds may be shorter, but none of them is the last record.
            pid, parent = struct.unpack_from("<II", data, min(at + 8, end - 8))
            (moment,) = struct.unpack_from("<Q", data, at + size - from_end)
            if kind == _FORK and pid != parent:
                forks.setdefault(pid, []).append(at)
            elif kind == _COMM and misc & _EXEC:
                became[pid] = max(moment, became.get(pid, 0))
            elif kind in (_MMAP, _MMAP2):
                maps.append((pid, moment, at))
            elif kind in (_LOST, _LOST_SAMPLES):
                lost[kind] += struct.unpack_from("<Q", data, at + (16 if kind == _LOST else 8))[0]
            at += size
        for fork in (offset for pid in became for offset in forks.get(pid, ())):
            _, flags, _ = _RECORD.unpack_from(data, fork)
            struct.pack_into("<H", data, fork + 4, flags | _EXEC)
        for pid, moment, mapped in maps:
            if moment < became.get(pid, 0):
                struct.pack_into("<II", data, mapped + 8, _NOBODY, _NOBODY)
    # The kernel counts losses when they occur; since 6.0 it also states the total at the end.
    return max(lost.values(), default=0), {pid for pid, _, _ in maps} | set(forks)


def tables_of(lines: Iterable[str], offset_ns: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the tables `CPU_SAMPLES` and `WAITS` from ``perf script``, without this process."""
    rows: tuple[list[dict[str, object]], ...] = ([], [])
    for row in _rows(lines, offset_ns):
        if row["vpid"] != os.getpid():
            rows["wait_ns" in row].append(row)
    samples, waits = (
        table.of_rows(records).sort("time_ns")
        for table, records in zip((CPU_SAMPLES, WAITS), rows, strict=True)
    )
    return samples, waits


def _rows(lines: Iterable[str], offset_ns: int) -> Iterator[dict[str, object]]:
    """Yield samples with ``cpu_ns`` and waits with ``wait_ns``; preempted threads do not wait."""
    about: tuple[int, ...] | None = None
    frames: list[str] = []
    leaves: dict[int, dict[str, object]] = {}
    """The stack with which a thread will leave its CPU next."""
    began: dict[int, tuple[int, dict[str, object]]] = {}
    """When a thread began to wait, until it is seen running again."""
    for line in lines:
        if frame := _FRAME.match(line):
            frames.append(_name(frame[1], frame[2]))
        elif (head := _SAMPLE.match(line)) is not None:
            about = tuple(map(int, head.groups()))
        elif (switch := _SWITCH.match(line)) is not None:
            pid, tid, seconds, nanoseconds = map(int, switch.groups()[:4])
            now = seconds * 1_000_000_000 + nanoseconds + offset_ns
            since, wait = began.pop(tid, (0, None))
            if switch[5] == "IN" and wait is not None:
                yield {**wait, "time_ns": since, "wait_ns": now - since}
            left = leaves.pop(tid, {"vpid": pid, "vtid": tid, **_NO_STACK})
            if switch[5] == "OUT" and not switch[6]:
                began[tid] = now, left
        elif not line.strip():
            if about is not None:
                pid, tid, seconds, nanoseconds, period = about
                # The thread runs, so it no longer waits: the event of its return was lost.
                began.pop(tid, None)
                row = {
                    "host": _HOST,
                    "vpid": pid,
                    "vtid": tid,
                    "whole": any(_FIRST.match(function) for function in frames[-_OUTERMOST:]),
                    "path": sys.intern("\n".join(frames)) or _UNKNOWN,
                }
                if period == _SWITCHES:
                    leaves[tid] = row
                else:
                    now = seconds * 1_000_000_000 + nanoseconds + offset_ns
                    yield {**row, "time_ns": now, "cpu_ns": period}
            about, frames = None, []


def _name(function: str, module: str) -> str:
    """Return a function's name, or its module in brackets if it has no symbol."""
    # Parts that depend on folders are dropped, because they belong to this machine.
    if function == "[unknown]":
        return f"[{module.strip('[]').rpartition('/')[2] or 'unknown'}]"
    if module.startswith("[kernel"):
        return f"{function} [kernel]"
    if function.startswith("py::"):
        return re.sub(r":/.*/", ":", function)
    return re.sub(r"@@?[A-Z]+_[\d.]+$", "", function)


def unseen(samples: pl.DataFrame) -> list[str]:
    """Describe which samples have no names or incomplete stacks, as one sentence each."""
    if not samples.height:
        return ["stacks: no sample was taken: no thread of the run was on a CPU for long enough"]
    sentences = []
    cut = samples.height - int(samples["whole"].sum())
    if cut:
        sentences.append(
            f"stacks: {cut:,} of {samples.height:,} samples do not reach the first function of "
            f"their thread (deeper than {STACK_BYTES:,} bytes, or code without unwind tables)"
        )
    nameless = Counter(
        function for path in samples["path"] if (function := path.partition("\n")[0])[:1] == "["
    )
    if nameless:
        most = ", ".join(name.strip("[]") for name, _ in nameless.most_common(_MOST_NAMED))
        sentences.append(
            f"stacks: {nameless.total():,} of {samples.height:,} samples are in functions without "
            f"symbols, most in {most}: compile without strip, or install its debug symbols"
        )
    interpreted = samples["path"].str.contains("_PyEval_EvalFrameDefault", literal=True)
    python = int((interpreted & ~samples["path"].str.contains("py::", literal=True)).sum())
    if python:
        sentences.append(
            f"stacks: {python:,} of {samples.height:,} samples are in Python code whose functions "
            "have no names (before Python 3.12, and while it starts): native frames only"
        )
    return sentences
