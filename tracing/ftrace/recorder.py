"""Record with an ftrace instance of our own, and write a CTF trace next to the programs' one."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from uuid import UUID

from pydantic import Field, ValidationError

from roslens.recording import RunFailedError, UsageError
from roslens.recording.arrays import Bytes, Ints, np
from roslens.recording.files import shipped, write_atomically
from roslens.recording.models import Frozen
from roslens.tracing.ftrace.ctf import Converted, blocks_of, write_ctf
from roslens.tracing.ftrace.formats import (
    FTRACE_NAMES,
    Format,
    parse_formats,
    parse_header_page,
    program_format,
)
from roslens.tracing.ftrace.names import (
    NEW_NAME,
    NEW_THREAD,
    FoundHandle,
    GraphEndpoint,
    Names,
    with_new_threads,
)
from roslens.tracing.ftrace.pages import LATEST
from roslens.tracing.ftrace.raw import Clock, RawTrace, Thread, pages_of
from roslens.tracing.ftrace.switches import RUNTIME
from roslens.tracing.ftrace.tracefs import PROBES, new_name, remove, tracefs, write
from roslens.tracing.ftrace.tsdl import clock_of_other_trace
from roslens.tracing.guard import guarded

RAW_NAME = "ftrace"
"""Folder of raw pages next to the trace, until they are converted when the recording ends."""
FUNCTIONS_NAME = "functions"
"""Folder of the raw pages of probed functions."""
KERNEL_NAME = "kernel"
ATTACHED_NAME = "attached"
"""Name of the trace of programs that were attached to, next to the kernel's trace."""
ABOUT_NAME = "about.json"
PAUSES_NAME = "pauses"
"""File next to the pages with the begin and end of each pause of probes, one time per line."""
_PERIOD_SECONDS, _ATTACHED_SECONDS = 0.05, 0.25
_ROUNDS_OF_PAGES = 2
_PIPE_BYTES = 1 << 20
_BLOCK = 64 << 10
_REMOVE = (
    "import sys; sys.path.insert(0, sys.argv[1]); "
    "from roslens.tracing.ftrace.tracefs import remove_by_name; remove_by_name(sys.argv[2])"
)


class _About(Frozen):
    """The description that is stored with raw pages."""

    header_page: str
    formats: dict[str, str]
    overruns: dict[int, int]
    hostname: str
    release: str
    boot: UUID
    offset_ns: int
    whole: bool
    threads: dict[int, tuple[int, int, str]] | None
    graph: list[GraphEndpoint] = Field([])
    handles: list[FoundHandle] = Field([])
    own: list[str] = Field([])
    functions: list[str] = Field([])


@dataclass
class KernelRecording:
    """The facts of a run's ftrace recording.

    Attributes
    ----------
    kind
        The name of the recorder.
    events
        Names of the events, as in LTTng.
    lost
        Number of missing events according to the trace; known after the end.
    notes, troubles
        Notes for the user, and errors, one line each.
    of_functions
        Notes about probed functions, such as those that were not called, one line each.
    """

    kind: str = "ftrace"
    events: list[str] = field(default_factory=list)
    lost: int = 0
    notes: list[str] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    of_functions: list[str] = field(default_factory=list)


class Instance:
    """An ftrace instance that belongs to roslens.

    Parameters
    ----------
    root
        The kernel's tracing folder.
    name
        The name of the instance.
    buffer_bytes
        Size of the buffer of each CPU.
    """

    def __init__(self, root: Path, name: str, buffer_bytes: int) -> None:
        self.root, self.name = root, name
        self.path = root / "instances" / name
        self.path.mkdir()
        write(self.path / "tracing_on", "0")
        write(self.path / "trace_clock", "mono")
        write(self.path / "buffer_size_kb", str(max(4, buffer_bytes >> 10)))
        self.formats: dict[str, str] = {}
        self.own: set[str] = set()
        self.whole = True
        self.threads: dict[int, Thread] | None = None
        self.graph: list[GraphEndpoint] = []
        self.handles: list[FoundHandle] = []
        self.functions: list[str] = []

    @property
    def cpus(self) -> list[int]:
        """Return the numbers of the CPUs that have a buffer."""
        matches = (
            re.fullmatch(r"cpu(\d+)", folder.name) for folder in (self.path / "per_cpu").iterdir()
        )
        return sorted(int(match[1]) for match in matches if match)

    def enable(self, event: str) -> bool:
        """Record an event, named as in ftrace, LTTng or ``system:name``; return if it exists."""
        system, _, short = event.rpartition(":")
        short = FTRACE_NAMES.get(short, short)
        if re.fullmatch(r"[\w-]*", system) is None or re.fullmatch(r"[\w.-]+", short) is None:
            return False
        folders = sorted((self.path / "events").glob(f"{system or '*'}/{short}"))
        for folder in folders[:1]:
            self.formats[f"{folder.parent.name}:{short}"] = (folder / "format").read_text()
            write(folder / "enable", "1")
            return True
        return False

    def enable_internal(self, event: str) -> None:
        """Record an event only for roslens's own processing, unless it is recorded anyway."""
        before = set(self.formats)
        self.enable(event)
        self.own |= set(self.formats) - before

    def only_descendants(self) -> None:
        """Record only this thread, and the processes and threads that it starts from now on."""
        self.whole = False
        write(self.path / "options" / "event-fork", "1")
        write(self.path / "set_event_pid", str(threading.get_native_id()))

    def overruns(self) -> dict[int, int]:
        """Return the number of events lost so far, by CPU."""
        folder = self.path / "per_cpu"
        return {cpu: lost_of((folder / f"cpu{cpu}" / "stats").read_text()) for cpu in self.cpus}


def lost_of(stats: str) -> int:
    """Return how many events a CPU lost, from the text of its ``stats``."""
    names = r"^(?:overrun|commit overrun|dropped events): (\d{1,12})$"
    return sum(map(int, re.findall(names, stats, re.MULTILINE)))


@contextmanager
def own_instance(buffer_bytes: int) -> Iterator[Instance]:
    """Make an instance for as long as the context lasts; it is removed even if we are killed.

    Raises
    ------
    OSError
        The instance cannot be made.
    """
    name = new_name()
    # The guard must not import any installed package.
    command = [sys.executable, "-I", "-S", "-c", _REMOVE, str(shipped().parent), name]
    with tracefs() as root, guarded(f"ROSLENS_INSTANCE={name}", None, command):
        try:
            yield Instance(root, name, buffer_bytes)
        finally:
            remove(root, name)


class Drain:
    """A thread that moves whole pages of all CPUs to files, and adds to `troubles` if it fails."""

    def __init__(self, instance: Instance, folder: Path, troubles: list[str]) -> None:
        self._instance, self._troubles = instance, troubles
        self._stop = threading.Event()
        self._failed = False
        with ExitStack() as stack:
            self._files = [
                (
                    _opened(stack, instance.path / "per_cpu" / f"cpu{cpu}" / "trace_pipe_raw",
                            os.O_RDONLY | os.O_NONBLOCK),
                    _opened(stack, folder / f"cpu{cpu}", os.O_WRONLY | os.O_CREAT | os.O_EXCL),
                )
                for cpu in instance.cpus
            ]  # fmt: skip
            self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            for end in self._pipe:
                stack.callback(os.close, end)
            with suppress(OSError):
                fcntl.fcntl(self._pipe[0], fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
            self._open = stack.pop_all()
        self._thread = threading.Thread(target=self._run, name="roslens-kernel", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Move all remaining data, including partial pages, and close all files."""
        self._stop.set()
        self._thread.join()
        with self._open:
            if not self._failed:
                self._guarded(self._rest)

    def _run(self) -> None:
        rounds, attached = 0, self._instance.threads is not None
        while not self._stop.is_set() and not self._failed:
            rounds += 1
            # The follower of attached programs needs their first events soon, not a full page.
            prompt = attached and rounds % _ROUNDS_OF_PAGES == 0
            self._guarded(self._rest if prompt else self._pages)
            self._stop.wait(_ATTACHED_SECONDS if attached else _PERIOD_SECONDS)

    def _guarded(self, step: Callable[[int, int], None]) -> None:
        try:
            for raw, file in self._files:
                step(raw, file)
        except OSError as error:
            self._failed = True
            self._troubles.append(f"the kernel's trace is not whole: {error.strerror}")
            with suppress(OSError):
                write(self._instance.path / "tracing_on", "0")

    def _pages(self, raw: int, file: int) -> None:
        out, into = self._pipe
        while True:
            try:
                moved = os.splice(raw, into, _PIPE_BYTES, flags=os.SPLICE_F_NONBLOCK)
            except BlockingIOError:
                return
            if not moved:
                return
            while moved:
                moved -= os.splice(out, file, moved)

    def _rest(self, raw: int, file: int) -> None:
        self._pages(raw, file)
        size = os.sysconf("SC_PAGE_SIZE")
        with suppress(BlockingIOError):
            while page := os.read(raw, max(size, _BLOCK)):
                while page:
                    page = page[os.write(file, page) :]


def _opened(stack: ExitStack, path: Path, flags: int) -> int:
    file = os.open(path, flags | os.O_CLOEXEC, 0o600)
    stack.callback(os.close, file)
    return file


@contextmanager
def ftrace_recording(
    output: Path,
    events: Sequence[str],
    *,
    buffer_bytes: int,
    descendants_only: bool = False,
    prepare: Callable[[Instance], None] = lambda _: None,
    raw_name: str = RAW_NAME,
    recording: KernelRecording | None = None,
) -> Iterator[KernelRecording]:
    """Record the kernel with ftrace for as long as the context lasts.

    The raw pages go to ``<output>/../ftrace`` and become ``<output>/kernel`` at the end.

    Parameters
    ----------
    output
        The folder of the run's traces.
    events
        Names of events; events that this kernel does not have are left out and noted.
    buffer_bytes
        Size of the buffer of each CPU.
    descendants_only
        Record only events of the calling thread and its descendants.
    prepare
        Called with the instance before it records.
    raw_name
        The folder of the raw pages, instead of the usual one.
    recording
        The facts to which this recording is added.

    Raises
    ------
    RunFailedError
        The kernel refuses to record, or the folder cannot be written.
    """
    recording = recording or KernelRecording()
    raw = output.parent / raw_name
    with ExitStack() as stack:
        # Runs after the instance is gone, whatever ended the recording.
        stack.callback(_convert, raw, output, recording)
        try:
            instance = stack.enter_context(own_instance(buffer_bytes))
            if descendants_only and RUNTIME in events:
                # Other programs account CPU time to these threads, too.
                events = [event for event in events if event != RUNTIME]
                recording.notes.append(f"{RUNTIME} is recorded only of the whole machine")
            missing = [event for event in events if not instance.enable(event)]
            if missing:
                recording.notes.append(f"this kernel has no event {', '.join(missing)}")
            if instance.whole and not descendants_only and "sched_switch" in events:
                # The event serves to restore missing switches, and states the CPU time of threads.
                instance.enable(RUNTIME)
            prepare(instance)
            recording.events += sorted(
                event.name
                for name, text in instance.formats.items()
                if not name.startswith(PROBES) and name not in instance.own
                for event in parse_formats([(name, text)]).values()
            )
            if descendants_only:
                instance.only_descendants()
            raw.mkdir(parents=True)
            describe(instance, raw)
            stack.callback(_end, instance, Drain(instance, raw, recording.troubles), raw)
            write(instance.path / "tracing_on", "1")
        except OSError as error:
            raise RunFailedError(f"the kernel cannot be recorded: {error}") from error
        yield recording


def _end(instance: Instance, drain: Drain, raw: Path) -> None:
    with suppress(OSError):
        write(instance.path / "tracing_on", "0")
    drain.end()
    with suppress(OSError):
        describe(instance, raw)


def describe(instance: Instance, raw: Path) -> None:
    """Write the description that is needed to read the pages."""
    header = (instance.path / "events" / "header_page").read_text()
    about = _About(
        header_page=header,
        formats=instance.formats,
        own=sorted(instance.own),
        overruns=instance.overruns(),
        hostname=os.uname().nodename,
        release=os.uname().release,
        boot=UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()),
        offset_ns=clock_offset(),
        whole=instance.whole,
        # Copied, because another thread adds to it.
        threads=None if instance.threads is None else dict(instance.threads),
        graph=instance.graph,
        handles=list(instance.handles),
        functions=instance.functions,
    )
    # On a full disk the description of the beginning stays.
    write_atomically(raw / ABOUT_NAME, about.model_dump_json())


def clock_offset() -> int:
    """Return the epoch offset of the monotonic clock in ns, from the best of ten samples."""

    def sample() -> tuple[int, int]:
        before = time.monotonic_ns()
        now = time.time_ns()
        after = time.monotonic_ns()
        return after - before, now - (before + after) // 2

    return min(sample() for _ in range(10))[1]


def monotonic_clock(trace: Path) -> Clock:
    """Return the monotonic clock as the trace in a folder has it, or else as it is now."""
    own_clock = Clock(clock_offset())
    return clock_of_other_trace(trace, own_clock) or own_clock


def _convert(raw: Path, output: Path, recording: KernelRecording) -> None:
    if not (raw / ABOUT_NAME).is_file():
        return
    try:
        done = convert(raw, output / KERNEL_NAME, beside=output)
    except (OSError, UsageError) as error:
        recording.troubles.append(f"the kernel's trace stays raw in {raw.name}: {error}")
        return
    shutil.rmtree(raw, ignore_errors=True)
    recording.lost += done.missing
    recording.of_functions += done.notes
    if done.complaint:
        recording.troubles.append(done.complaint)
    if done.foreign:
        recording.notes.append(
            f"{done.foreign:,} events are left out: of other programs with the same library, or "
            "of threads that ended at once"
        )
    if done.switches_missing:
        recording.notes.append(
            f"the kernel's trace lacks {done.switches_missing:,} switches that ftrace did not "
            "count; executions of callbacks then have no rows in callback_scheduling"
        )


def _pauses_of(raw: Path) -> Ints:
    """Return begin and end of each pause; a pause without an end lasts to the end."""
    path = raw / PAUSES_NAME
    words = path.read_text(errors="replace").split() if path.is_file() else []
    times = [int(word) if word.isdecimal() else LATEST + 1 for word in words]
    if times != sorted(times) or times[-1:] > [LATEST]:
        raise UsageError(f"{path}: has no times of pauses in their order")
    return np.array([*times, *[LATEST] * (len(times) % 2)], dtype=np.int64).reshape(-1, 2)


def convert(raw: Path, folder: Path, *, beside: Path) -> Converted:
    """Write a CTF trace from the raw pages in a folder.

    Parameters
    ----------
    raw
        The folder that a recorder left.
    folder
        The new trace.
    beside
        The folder of the programs' traces, whose clock is used.

    Raises
    ------
    UsageError
        The folder holds no raw pages.
    OSError
        The pages cannot be read, or the trace cannot be written.
    """
    try:
        about = _About.model_validate_json((raw / ABOUT_NAME).read_bytes())
    except ValidationError as error:
        raise UsageError(f"{raw / ABOUT_NAME}: does not describe pages of ftrace") from error
    cpus = {}
    for path in sorted(raw.glob("cpu*")):
        if path.name.removeprefix("cpu").isdecimal() and path.is_file():
            cpus[int(path.name.removeprefix("cpu"))] = partial(pages_of, path)
    described: dict[bool, dict[int, Format]] = {True: {}, False: {}}
    runtime = None
    began: dict[int, Format] = {}
    own_events: set[int] = set()
    for name, text in about.formats.items():
        formats = parse_formats([(f"{raw}: {name}", text)])
        runtime = next((event for event in formats.values() if event.name == RUNTIME), runtime)
        began.update(
            (n, event) for n, event in formats.items() if event.name in {NEW_THREAD, NEW_NAME}
        )
        if name in about.own:
            own_events.update(formats)
        else:
            described[name.startswith(PROBES)].update(formats)
    header = parse_header_page(about.header_page, str(raw / ABOUT_NAME))
    trace = RawTrace(
        header=header,
        formats=described[False],
        ignored=frozenset({*described[True], *own_events}),
        runtime=runtime,
        cpus=cpus,
        overruns=about.overruns,
        hostname=about.hostname,
        release=about.release,
        complete=about.whole,
    )
    own_clock = Clock(about.offset_ns, uuid=str(about.boot))
    clock = clock_of_other_trace(beside, own_clock) or own_clock
    of_others = missing = 0
    notes: list[str] = []
    if about.threads is not None:
        pauses = _pauses_of(raw)

        def blocks() -> Iterator[Bytes]:
            return (block for pages in cpus.values() for block in blocks_of(pages(), header))

        threads = with_new_threads(
            replace(trace, formats=began), blocks(), about.threads, processes=not about.whole
        )
        seen = replace(trace, formats=described[True], pauses=pauses)
        names = Names(seen, threads, about.graph, about.handles, about.functions)
        for block in blocks():
            names.read(block)
        init_formats, records = names.records()
        programs = replace(
            trace,
            formats={n: program_format(event) for n, event in described[True].items()}
            | init_formats,
            records={max(cpus, default=-1) + 1: lambda: iter(records)},
            ignored=frozenset({*described[False], *own_events}),
            pauses=pauses,
            overruns={},
            domain="ust",
            threads=threads,
            complete=False,
        )
        attached = write_ctf(programs, folder.with_name(ATTACHED_NAME), clock)
        of_others, missing = attached.foreign, attached.missing
        notes = [f"{name} was not called while it was probed" for name in names.not_called]
    if about.threads is not None and not described[False]:
        return Converted(foreign=of_others, missing=missing, notes=notes)
    done = write_ctf(trace, folder, clock)
    return replace(done, foreign=of_others, missing=done.missing + missing, notes=notes)
