"""Record programs that already run without LTTng: ``roslens record --attach PROCESS``."""

from __future__ import annotations

import math
import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from roslens.recording import Manifest, RoslensError, UsageError, write_manifest
from roslens.recording.layout import MANIFEST_NAME
from roslens.recording.manifest import Environment, Loss, TracingSettings
from roslens.recording.schema import CPU_SAMPLES
from roslens.tracing.campaign import RECORDINGS, OnEvent, new_campaign, noting, refuse_used
from roslens.tracing.ftrace.ctf import blocks_of
from roslens.tracing.ftrace.formats import parse_formats, parse_header_page
from roslens.tracing.ftrace.functions import find_functions, notes_of, place_functions
from roslens.tracing.ftrace.limit import FIRST_SECONDS, Limit, cpu_of_children
from roslens.tracing.ftrace.names import (
    NEW_THREAD,
    GraphEndpoint,
    Key,
    is_whole,
    manifest_graph,
    read_handle,
    sightings,
)
from roslens.tracing.ftrace.raw import RawTrace, pages_of
from roslens.tracing.ftrace.recorder import (
    PAUSES_NAME,
    RAW_NAME,
    Instance,
    KernelRecording,
    ftrace_recording,
    monotonic_clock,
)
from roslens.tracing.ftrace.tracefs import PROBES, remove_leftovers, why_no_ftrace, write
from roslens.tracing.ftrace.uprobes import (
    Target,
    cost_of_call,
    find_targets,
    mapped_by,
    own_library,
    place_probes,
    threads_of,
)
from roslens.tracing.host import HostWatch
from roslens.tracing.interruption import Interruption
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.lttng.settings import NEEDED_CONTEXTS
from roslens.tracing.ros.graph import look_at_graph
from roslens.tracing.run import reserve_space
from roslens.tracing.sampling.stacks import StackSampler

ATTACH_SUITE = "attach"
_NO_NAMES = (
    "what names timers and the functions of callbacks happened before: restart a program while it "
    "is recorded to have these"
)
_PAUSES = "from now on probes are off for a part of the time; --full records everything"
_NO_GRAPH = "the graph could not be looked at, so the nodes of endpoints made before are not known"
_PERIOD_SECONDS, _CHECK_SECONDS = 0.1, 0.25
_LONGEST_SECONDS, _LOOK_SECONDS = 4.0, 20.0
_LOOK_AGAIN_SECONDS = 2.0
_DONE = {
    "publisher": "published",
    "subscription": "taken",
    "service": "served",
    "client": "called",
}


def record_attached(
    wanted: Sequence[str],
    output: Path | None = None,
    *,
    options: TracingOptions | None = None,
    time_limit: float | None = None,
    stacks: float = 0.0,
    waits: bool = False,
    share: float = math.inf,
    on_event: OnEvent = lambda _: None,
) -> tuple[Path, Manifest]:
    """Record running programs until interrupted or until the time limit.

    Parameters
    ----------
    wanted
        Process ids or names, as for `find_targets`.
    output
        The new folder of the recording; default: ``data/recordings/attach/<UTC time>/000_r0``.
    options
        Only the kernel settings are used, and the names of functions to probe.
    time_limit
        Seconds; default: no limit, recording ends when interrupted or when all programs have ended.
    stacks, waits
        As for `record_command`.
    share
        Largest share of one CPU that attaching may cost; above it, recording pauses. Infinite: no
        pauses.
    on_event
        Called with each event that the user should see.

    Returns
    -------
    tuple
        The recording's folder and its manifest.

    Raises
    ------
    UsageError
        No such program exists, or ftrace may not be used on this machine.
    RunFailedError
        The kernel refuses to record, or the folder cannot be written.
    """
    options = options or TracingOptions()
    kernel = options.kernel != "off"
    if options.kernel in {"lttng", "perf"}:
        raise UsageError(f"--attach records the kernel by ftrace, not by '{options.kernel}'")
    reason = why_no_ftrace()
    if reason is not None:
        raise UsageError(f"--attach: {reason}")
    remove_leftovers()
    targets = find_targets(list(wanted))
    mapped: list[Path] = []
    for target in targets if options.probes else ():
        with suppress(OSError):  # the process has just ended
            mapped += mapped_by(target.pid)
    functions = find_functions(options.probes, os.environ, mapped)
    refuse_used(output)
    campaign = output or new_campaign(RECORDINGS / ATTACH_SUITE, None)
    folder, note = output or campaign / "000_r0", noting(on_event)
    for target in targets:
        note(f"attached to {target.name} ({target.pid})")
    library = own_library()
    watch, begun = HostWatch(), time.time_ns()
    notes: list[str] = []
    followers: list[_Follower] = []
    recording = KernelRecording()
    sampler = StackSampler(folder, stacks, [target.pid for target in targets], waits=waits)
    with Interruption() as interruption, ExitStack() as stack:
        stack.callback(sampler.close)

        def prepare(instance: Instance) -> None:
            call_s = cost_of_call(instance, library)
            notes.extend([*place_probes(instance, targets), *notes_of(functions)])
            place_functions(instance, functions, own=False)
            instance.enable_internal(NEW_THREAD)
            raw, troubles = folder / RAW_NAME, recording.troubles
            limit = Limit(instance, raw / PAUSES_NAME, call_s, share)
            followers.append(_Follower(targets, instance, raw, limit, note=note, troubles=troubles))

        try:
            reserve = reserve_space(folder)
            with (
                ftrace_recording(
                    folder / "trace",
                    options.kernel_events if kernel else (),
                    buffer_bytes=options.kernel_buffer,
                    prepare=prepare,
                    recording=recording,
                ),
                followers[0].following(),
                sampler if stacks else nullcontext(),
            ):
                places = [Path(f"/proc/{target.pid}") for target in targets]
                interruption.wait_for(
                    lambda: bool(recording.troubles) or not any(place.is_dir() for place in places),
                    *(_CHECK_SECONDS, time_limit),
                )
                reserve.unlink()
        except RoslensError:
            shutil.rmtree(campaign, ignore_errors=True)
            raise
        unseen = []
        if stacks:
            offset_ns = monotonic_clock(folder / "trace").offset_ns
            unseen = sampler.write(folder / f"{CPU_SAMPLES.name}.parquet", offset_ns)
    host, graph = watch.facts(), followers[0].instance.graph
    manifest = Manifest(
        suite=ATTACH_SUITE,
        campaign=folder.parent.name,
        run=folder.name,
        command=[target.name for target in targets],
        environment=Environment(),
        host=host,
        disturbances=watch.disturbances(host),
        tracing=TracingSettings(
            tracer="ftrace",
            kernel="ftrace" if kernel else None,
            domains=["ust", "kernel"] if kernel else ["ust"],
            events=["ros2:*", *(f"kernel:{event}" for event in recording.events)],
            contexts=list(NEEDED_CONTEXTS),
            notes=[*recording.notes, *recording.of_functions, *notes, followers[0].told],
        ),
        start_ns=begun,
        end_ns=time.time_ns(),
        status="failed" if recording.troubles else "complete",
        failure="; ".join(recording.troubles) or None,
        loss=Loss(discarded_events=recording.lost, lost_packets=0),
        graph=manifest_graph(graph),
        samplers={"stacks": sampler.facts} if stacks else {},
        warnings=[_NO_NAMES, *([] if graph else [_NO_GRAPH]), *unseen],
    )
    write_manifest(manifest, folder / MANIFEST_NAME)
    return folder, manifest


class _Follower:
    """A follower of the recorded programs while they are recorded.

    It learns their threads, including new ones; the ROS graph, read a second time if endpoints that
    have events are missing; and the memory at the handles of endpoints that appear in events.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        instance: Instance,
        raw: Path,
        limit: Limit,
        *,
        note: Callable[[str], None],
        troubles: list[str],
    ) -> None:
        self._targets, self.instance, self._raw = targets, instance, raw
        self._limit, self._note, self._troubles = limit, note, troubles
        self.told = ""
        self._threads = instance.threads = threads_of(targets)
        self._begun = time.monotonic()
        self._ended: float | None = None
        self._read: dict[Path, int] = {}
        self._known: set[Key] = set()
        self._told = False
        header = (instance.path / "events" / "header_page").read_text()
        self._header = parse_header_page(header, "header_page")
        probes = [pair for pair in instance.formats.items() if pair[0].startswith(PROBES)]
        self._trace = RawTrace(header=self._header, formats=parse_formats(probes))

    @contextmanager
    def following(self) -> Iterator[None]:
        stop = threading.Event()

        def see() -> None:
            pids = [target.pid for target in self._targets]
            self.instance.graph = self._look_at_graph(pids)
            # On a busy machine, a participant may be discovered seconds after the others.
            stop.wait(_LOOK_AGAIN_SECONDS)
            if not is_whole(self.instance.graph, self.instance.handles):
                again = {endpoint.gid: endpoint for endpoint in self._look_at_graph(pids)}
                before = {endpoint.gid: endpoint for endpoint in self.instance.graph}
                self.instance.graph = list((before | again).values())

        threads = [
            threading.Thread(target=run, name="roslens-attach", daemon=True)
            for run in (partial(self._follow, stop), see)
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            # The look at the graph may take longer than the recording, so recording stops first.
            with suppress(OSError):
                write(self.instance.path / "tracing_on", "0")
            self._ended = time.monotonic()
            stop.set()
            for thread in threads:
                thread.join()
            self._limit.end()
            self.told = self._limit.cost_in_words()
            self._read_new_pages()

    def _follow(self, stop: threading.Event) -> None:
        begun = time.monotonic()
        due, pause = begun + FIRST_SECONDS, 0.0
        while not stop.wait(min(max(_PERIOD_SECONDS, pause), _LONGEST_SECONDS)):
            now = time.monotonic()
            if not pause and now >= due:
                # A thread may get its name some time after it started.
                self._threads.update(threads_of(self._targets))
                self._read_new_pages()
                due = now + min(now - begun, _LOOK_SECONDS)
            elif not pause:
                self._threads.update(threads_of(self._targets, self._threads))
            try:
                pause = self._limit.step()
            except OSError as error:
                self._troubles.append(f"the cost could not be limited: {error.strerror}")
                return
            if pause and not self.told:
                if not self._told:
                    self._read_new_pages()
                self.told = self._limit.cost_in_words()
                self._note(f"{self.told}; {_PAUSES}")

    def _look_at_graph(self, pids: Sequence[int]) -> list[GraphEndpoint]:
        before = cpu_of_children()
        graph = look_at_graph(pids)
        self._limit.looked_s += cpu_of_children() - before
        return graph

    def _read_new_pages(self) -> None:
        """Read the pages that were written since the last call."""
        counts: dict[tuple[str, str], int] = defaultdict(int)
        for path in sorted(self._raw.glob("cpu*")):
            begin = self._read.get(path, 0)
            size = (path.stat().st_size - begin) // self._header.page_size * self._header.page_size
            self._read[path] = begin + size
            seen = sightings(
                self._trace, blocks_of(pages_of(path, begin, size), self._header), self._threads
            )
            for key, sighting in seen.items():
                counts[sighting.name, key[1]] += sighting.count
                if key not in self._known:
                    self._known.add(key)
                    handle = read_handle(key, sighting.tid)
                    if handle is not None:
                        self.instance.handles.append(handle)
        if counts and not self._told:
            self._told = True
            after = (self._ended or time.monotonic()) - self._begun
            text = ", ".join(f"{name} {_DONE[kind]} {n}" for (name, kind), n in counts.items())
            self._note(f"the first {after:.1f} s: {text}")
