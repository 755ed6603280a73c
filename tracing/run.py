"""Record one run: a session and samplers around a workload, and a manifest."""

from __future__ import annotations

import errno
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from roslens.recording import Manifest, RunFailedError, UsageError, write_manifest
from roslens.recording.errors import failing
from roslens.recording.layout import MANIFEST_NAME
from roslens.recording.manifest import (
    Design,
    Endpoint,
    Environment,
    Hit,
    Level,
    Loss,
    Timing,
    TracingSettings,
)
from roslens.recording.manifest import (
    Sampler as SamplerFacts,
)
from roslens.recording.schema import ALLOCATION_SITES, CPU_SAMPLES
from roslens.tracing import provenance
from roslens.tracing.ftrace.functions import Function, find_functions
from roslens.tracing.ftrace.recorder import KernelRecording, monotonic_clock
from roslens.tracing.host import HostLimits, HostWatch
from roslens.tracing.interruption import Interruption
from roslens.tracing.lifeline import STOPPED, Lifeline
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.lttng.daemon import MARKER
from roslens.tracing.lttng.session import INIT_CHANNEL, has_events
from roslens.tracing.lttng.tool import LttngError
from roslens.tracing.native_tracer.session import diagnose_no_native_events
from roslens.tracing.processes import marked
from roslens.tracing.ros import RosEnvironment, diagnose_no_events
from roslens.tracing.ros.domain import without_leftovers
from roslens.tracing.ros.environment import preloaded, python_path
from roslens.tracing.sampling.allocations import AllocationSites, Heaptrack
from roslens.tracing.sampling.heap import HeapProbe, build_probe
from roslens.tracing.sampling.periodic import TableSampler
from roslens.tracing.sampling.processes import Sampler, cpu_time_ns
from roslens.tracing.sampling.rates import SamplerRates
from roslens.tracing.sampling.stacks import PYTHON_NAMES, StackSampler
from roslens.tracing.sampling.system import SystemSampler
from roslens.tracing.sampling.threads import ThreadSampler
from roslens.tracing.scrub import shared_command, shared_text, shared_variables
from roslens.tracing.tracer import (
    Tracer,
    TracingSession,
    check_options,
    choose_kernel,
    kernel_recording,
    start_session,
)
from roslens.tracing.workload import Ended, Workload, describe_exit, resolve_command

RESERVE_BYTES = 4 << 20
"""Space reserved during a run, so that its end can be written when the disk is full."""

TRIGGERED_NAME = "triggered.json"
"""File below ``native/`` with what triggers have seen, in the manifest's format."""
READY_NAME = "ready"
"""File below ``native/`` that a workload creates when it is ready, see the variable."""
SNAPSHOT_NAME = "take-snapshot"
"""File below ``native/`` whose creation triggers a snapshot; removed when this is done."""
SNAPSHOT_VARIABLE = "ROSLENS_SNAPSHOT_FILE"
READY_VARIABLE = "ROSLENS_READY_FILE"

T = TypeVar("T")
ROS_LIBRARY = "/librcl.so"
DAEMON_ENDED = "the LTTng session daemon ended during the run"
NO_SPACE = "no space left on the device"
_PROGRAM_OUTPUT = ("stdout.log", "stderr.log")


Beside = Callable[[Path, Callable[[str], None]], AbstractContextManager[None]]


@dataclass(frozen=True)
class RunSpec:
    """The specification of one run.

    Attributes
    ----------
    folder
        The run's folder, which is created.
    command, variables
        The command, and variables in addition to our own environment.
    ros
        The ROS 2 to use; None for the one in the environment, if any.
    preload
        Libraries to preload so that the tracer sees the workload's events.
    isolated
        Whether the run gets its own ROS domain.
    expect_events
        Whether a run without any ``ros2`` event fails; ``loaded``: only if a process loaded ROS 2.
    expect_files
        Paths relative to the folder that must exist at the end.
    expect_status
        The expected exit status of the workload; any other status makes the run fail.
    max_discarded
        How many events the tracer may discard before the run fails; None: any number.
    sampler_hz, samplers
        Samples per second of the processes, and of all else that is sampled.
    timing, says_ready
        How long the workload is to work; whether it announces that it is ready.
    host_limits
        Limits beyond which the run counts as disturbed.
    quiet
        Whether the workload's output goes to files below ``native/``.
    lifeline
        Ends the workload as if it had ended by itself; is told when the recording has begun.
    beside
        Runs as long as the workload; is given the run's folder, and a function to report problems.
    git, cwd
        The commit under test and whether it is modified; the working directory, by default ours.
    """

    folder: Path
    suite: str
    campaign: str
    command: Sequence[str]
    options: TracingOptions = field(default_factory=TracingOptions)
    variables: Mapping[str, str] = field(default_factory=dict)
    factors: Mapping[str, Level] = field(default_factory=dict)
    parameters: Mapping[str, Level] = field(default_factory=dict)
    repetition: int = 0
    order: int = 0
    seed: int | None = None
    design: Design | None = None
    ros: RosEnvironment | None = None
    preload: tuple[Path, ...] = ()
    isolated: bool = False
    trace_rclpy: bool = False
    time_limit: float | None = None
    sampler_hz: float = 10.0
    samplers: SamplerRates = field(default_factory=SamplerRates)
    work_topic: str | None = None
    expect_events: Literal["yes", "no", "loaded"] = "loaded"
    expect_files: tuple[str, ...] = ()
    expect_status: int = 0
    max_discarded: int | None = None
    timing: Timing | None = None
    says_ready: bool = False
    host_limits: HostLimits = field(default_factory=HostLimits)
    quiet: bool = True
    lifeline: Lifeline | None = None
    beside: Beside | None = None
    git: tuple[str | None, bool | None] = (None, None)
    cwd: Path | None = None

    @property
    def native(self) -> Path:
        """Return the folder for the workload's own files."""
        return self.folder / "native"

    @property
    def ready(self) -> Path:
        """Return the file that the workload creates when it is ready."""
        return self.native / READY_NAME

    @property
    def trace(self) -> Path:
        """Return the folder of the trace."""
        return self.folder / "trace"


class FolderTakenError(UsageError):
    """Another recorder uses the folder, so its content must not be removed."""


def record_run(spec: RunSpec, daemon: Tracer, interruption: Interruption) -> Manifest:
    """Record one run; whatever happens, keep the recorded part and mark its status.

    Parameters
    ----------
    spec
        The specification of the run.
    daemon
        The tracer that records the run.
    interruption
        Ends the run early.

    Returns
    -------
    Manifest
        The manifest as written; `status` states whether the run is complete.

    Raises
    ------
    UsageError
        The command cannot be run; nothing is left behind then.
    FolderTakenError
        Another recorder writes into the folder.
    RunFailedError
        The folder or the manifest cannot be written.
    """
    # Checked before anything is created: a wrong command leaves no folder behind.
    environment = _environment(spec, daemon)
    command = resolve_command(spec.command, environment.get("PATH"), spec.cwd)
    check_options(daemon, spec.options)
    functions = find_functions(spec.options.probes, environment)
    if spec.samplers.heap > 0:
        build_probe()
    if spec.samplers.allocations:
        Heaptrack.find_installed()
    with clear_disk_errors(spec.folder):
        try:
            # Whoever creates it owns the folder: of two simultaneous recorders only one continues.
            spec.native.mkdir(parents=True)
        except FileExistsError as error:
            raise FolderTakenError(
                f"{spec.folder}: another recorder writes here; give another folder"
            ) from error
    reserve = reserve_space(spec.folder)
    return _Run(spec, daemon, interruption, command, environment, reserve, functions).execute()


@dataclass
class _Run:
    """A run in progress: its specification and its outcome so far."""

    spec: RunSpec
    daemon: Tracer
    interruption: Interruption
    command: list[str]
    environment: dict[str, str]
    reserve: Path
    functions: list[Function]
    ended: Ended | None = None
    stopped: bool = False
    full: bool = False
    exit_status: int | None = None
    elapsed_ns: int | None = None
    failures: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    session: TracingSession | None = None
    kernel: KernelRecording = field(default_factory=KernelRecording)
    sampler: Sampler | None = None
    samplers: dict[str, TableSampler] = field(default_factory=dict)
    heap: HeapProbe | None = None
    heap_cpu_ns: int = 0
    sites: AllocationSites | None = None
    stacks: StackSampler | None = None
    events_begun: bool = False
    configuration: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.watch = HostWatch(self.spec.host_limits)
        self._cpu_before = self._own_cpu_ns()

    def _own_cpu_ns(self) -> int:
        """Return the CPU time of this recorder, its ended children and its session daemon in ns."""
        usages = [
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        daemons = marked(f"{MARKER}={self.daemon.token}")
        return round(sum(usage.ru_utime + usage.ru_stime for usage in usages) * 1e9) + sum(
            cpu_time_ns(pid) or 0 for pid in daemons
        )

    def execute(self) -> Manifest:
        """Record the run, and write the manifest before and after."""
        with clear_disk_errors(self.spec.folder):
            self.configuration, complaints = provenance.copy_configuration(
                self.environment, self.spec.folder
            )
        self.warnings += complaints
        manifest = self._first_manifest()
        self._write(manifest)
        try:
            with ExitStack() as stack:
                if self.spec.isolated and self.spec.ros is not None:
                    ros = self.spec.ros.isolated(self.spec.native / "ros_log")
                    self.environment.update(stack.enter_context(ros).variables)
                elif self.spec.ros is not None:
                    stack.enter_context(without_leftovers())
                self._record()
        except RunFailedError as error:
            self.failures.append(str(error))
        finally:
            self.reserve.unlink(missing_ok=True)
            for used in (self.heap, self.sites, self.stacks):
                if used is not None:
                    used.close()
        self._judge()
        manifest = self._last_manifest(manifest)
        self._write(manifest)
        return manifest

    def _write(self, manifest: Manifest) -> None:
        with clear_disk_errors(self.spec.folder):
            write_manifest(manifest, self.spec.folder / MANIFEST_NAME)

    def _record(self) -> None:
        spec = self.spec
        try:
            kind, _ = choose_kernel(spec.options)
            with (
                kernel_recording(spec.options, kind, spec.trace, self.functions) as self.kernel,
                start_session(self.daemon, spec.options, spec.trace, spec.preload) as session,
            ):
                self.session = session
                self.environment.update(session.workload_variables)
                self._preload_heap_probe()
                self._preload_heaptrack()
                try:
                    if not self.interruption.wanted:
                        self._work(session)
                finally:
                    self._is_full(session)
        finally:
            self.failures += self.kernel.troubles
            self.warnings += self.kernel.of_functions
            if self.session is not None:
                self.failures += self._troubles(self.session)
        written: dict[str, Callable[[Path], Iterable[str] | None]] = {
            name: sampler.write
            for name, sampler in {"resources": self.sampler, **self.samplers}.items()
            if sampler
        }
        if self.sites is not None:
            written[ALLOCATION_SITES.name] = self.sites.write
        if (stacks := self.stacks) is not None:
            written[CPU_SAMPLES.name] = lambda file: stacks.write(
                file, monotonic_clock(spec.trace).offset_ns
            )
        for name, write in written.items():
            self.reserve.unlink(missing_ok=True)
            with clear_disk_errors(spec.folder):
                self.warnings += write(spec.folder / f"{name}.parquet") or ()

    def _preload_heap_probe(self) -> None:
        if self.spec.samplers.heap > 0 and self.spec.sampler_hz > 0:
            # In the daemon's home, which is removed even if this process is killed.
            self.heap = HeapProbe(self.spec.samplers.heap, self.daemon.home)
            self.environment.update(self.heap.variables(self.environment))

    def _preload_heaptrack(self) -> None:
        if self.spec.samplers.allocations:
            self.sites = AllocationSites(self.spec.native / "heaptrack")
            self.environment.update(self.sites.variables(self.environment))
            self.warnings.append(
                "allocations were recorded by heaptrack: durations and latencies are those of "
                "programs that it slows down"
            )

    def _sample_stacks(self, stack: ExitStack) -> None:
        if self.spec.samplers.stacks > 0:
            self.stacks = StackSampler(
                self.spec.native, self.spec.samplers.stacks, waits=self.spec.samplers.waits
            )
            # Samples this thread, from which the workload is started next.
            stack.enter_context(self.stacks)
            for name in PYTHON_NAMES if not self.stacks.troubles else ():
                self.environment.setdefault(name, "1")

    def _sampler_facts(self) -> dict[str, SamplerFacts]:
        facts = {name: sampler.facts for name, sampler in self.samplers.items()}
        if self.stacks is not None:
            facts["stacks"] = self.stacks.facts
        if self.heap is not None and self.sampler is not None:
            cost = self.heap_cpu_ns / self.sampler.elapsed_ns if self.sampler.elapsed_ns else 0.0
            facts["heap"] = self.sampler.facts.model_copy(
                update={"hz": self.heap.hz, "cpu_fraction": round(cost, 5)}
            )
        return facts

    def _troubles(self, session: TracingSession) -> list[str]:
        if self.full or session.is_out_of_space():
            return [f"{self.spec.folder.name}: {NO_SPACE}: the trace is not whole"]
        return session.troubles

    def _is_full(self, session: TracingSession) -> bool:
        """Return whether the disk is or was full; if so, make room for the metadata.

        LTTng writes the metadata when programs end, and without it the trace would be unreadable.
        """
        if not self.full and session.is_out_of_space():
            self.full = True
            self.reserve.unlink(missing_ok=True)
        return self.full

    def _work(self, session: TracingSession) -> None:
        """Run the workload until it ends or must end, then end all processes that it started."""
        spec = self.spec

        def trouble() -> str | None:
            if not self.daemon.is_alive():
                return DAEMON_ENDED
            self._obey_files(session)
            if spec.lifeline is not None and spec.lifeline.ended():
                return STOPPED
            return NO_SPACE if self._is_full(session) else None

        with ExitStack() as stack:
            stdout, stderr = (
                [stack.enter_context((spec.native / name).open("wb")) for name in _PROGRAM_OUTPUT]
                if spec.quiet
                else (None, None)
            )
            if spec.beside is not None:
                stack.enter_context(spec.beside(spec.folder, self.warnings.append))
            self._sample_stacks(stack)
            workload = Workload(
                self.command,
                self.environment,
                f"{self.daemon.token}.{spec.order}",
                cwd=spec.cwd,
                stdout=stdout,
                stderr=stderr,
                stdin=_input(spec, stack),
            )
            try:
                self._sample(workload)
                if spec.lifeline is not None:
                    spec.lifeline.tell(spec.folder)
                self.ended, why = workload.wait(spec.time_limit, self.interruption, trouble)
                self.stopped, self.full = why == STOPPED, why == NO_SPACE
                if self.ended == "ended":
                    self.elapsed_ns = time.monotonic_ns() - workload.begun_ns
            finally:
                self._last_snapshot(session, workload)
                left = workload.end(self.interruption)
                for sampler in filter(None, (self.sampler, *self.samplers.values())):
                    sampler.stop()
                if self.heap is not None:
                    self.heap_cpu_ns = self.heap.own_cpu_ns()
            self.exit_status = workload.exit_status
            if left and self.ended == "ended":
                self.warnings.append(
                    f"the workload left {len(left)} processes running, which were ended"
                )

    def _obey_files(self, session: TracingSession) -> None:
        """Do what the workload requests by creating a file."""
        options, wanted = self.spec.options, self.spec.native / SNAPSHOT_NAME
        if options.start == "ready" and not self.events_begun and self.spec.ready.exists():
            session.begin_events()
            self.events_begun = True
        if options.mode == "snapshot" and wanted.exists():
            session.snapshot()
            wanted.unlink(missing_ok=True)

    def _last_snapshot(self, session: TracingSession, workload: Workload) -> None:
        options = self.spec.options
        if options.mode != "snapshot" or options.snapshot_at_end == "never":
            return
        well = self.ended == "ended" and workload.exit_status == self.spec.expect_status
        failed = not (well or self.stopped)
        if (options.snapshot_at_end == "always" or failed) and self.daemon.is_alive():
            try:
                session.snapshot()
            except LttngError as error:
                # The workload must still be ended.
                self.failures.append(str(error))

    def _missing_init_events(self) -> None:
        """Warn if no init event was recorded, so that nothing has names."""
        spec = self.spec
        if spec.options.split and not has_events(spec.trace, INIT_CHANNEL):
            self.warnings.append(
                "no init event was recorded: nodes, topics and callbacks of programs that ran "
                "before the recording began have no names"
            )

    def _sample(self, workload: Workload) -> None:
        rates = self.spec.samplers
        if self.spec.sampler_hz > 0:
            self.sampler = Sampler(
                workload.pid,
                self.spec.sampler_hz,
                watch_for=ROS_LIBRARY if self.spec.expect_events == "loaded" else None,
                belongs=workload.owns,
                memory_hz=rates.memory,
                gives_way=rates.gives_way,
                heap=self.heap.heap_bytes if self.heap is not None else lambda _: None,
            ).start()
        if rates.threads > 0:
            processes = self.sampler.processes if self.sampler else workload.processes
            self.samplers["threads"] = ThreadSampler(
                processes, rates.threads, gives_way=rates.gives_way
            ).start()
        if rates.system > 0:
            self.samplers["system"] = SystemSampler(rates.system, gives_way=rates.gives_way).start()

    def _judge(self) -> None:
        """Determine whether the run is complete."""
        spec = self.spec
        if self.ended == "timeout":
            self.failures.insert(
                0,
                f"the workload still ran at the time limit of {spec.time_limit:g} s and was ended",
            )
        elif self.ended == "ended" and self.exit_status != spec.expect_status:
            words = _last_words(spec) if spec.quiet else ""
            outcome = f"the workload {describe_exit(self.exit_status or 0)}"
            self.failures.insert(0, f"{outcome}: {words}" if words else outcome)
        if self.stopped and spec.lifeline is not None and spec.lifeline.lost:
            self.warnings.append("ended, for the host that began it was not heard of any more")
        as_planned = self.ended == "ended" or self.stopped
        if not as_planned or self.interruption.wanted or self.session is None:
            return
        missing = [name for name in spec.expect_files if not (spec.folder / name).exists()]
        if missing:
            self.failures.append(f"the workload did not write {', '.join(missing)}")
        if spec.says_ready and not spec.ready.exists():
            self.failures.append(f"the workload did not say that it was ready ({READY_VARIABLE})")
        discarded = self._loss().discarded_events or 0
        if spec.max_discarded is not None and discarded > spec.max_discarded:
            self.failures.append(
                f"the tracer discarded {discarded} events, the suite allows {spec.max_discarded}"
            )
        if spec.options.mode == "snapshot" and not self.session.snapshots:
            self.warnings.append("no snapshot was taken: nothing asked for one")
        elif not self.session.has_events():
            self._no_events()
        else:
            self._missing_init_events()

    def _no_events(self) -> None:
        spec = self.spec
        loaded = self.sampler is not None and self.sampler.seen
        if spec.expect_events == "yes" or (spec.expect_events == "loaded" and loaded):
            self.failures.append(
                diagnose_no_native_events(self.environment)
                if spec.options.tracer == "native"
                else diagnose_no_events(
                    self.environment,
                    preload_expected=bool(spec.preload),
                    home_of_daemon=self.daemon.home,
                )
            )
        elif self._events_expected:
            events = ", ".join(spec.options.events)
            self.warnings.append(f"the program made no event of those recorded ({events})")

    @property
    def _events_expected(self) -> bool:
        """Return whether events are expected: a suite states whether its workload may emit none."""
        return self.spec.design is None or self.spec.expect_events != "no"

    def _first_manifest(self) -> Manifest:
        spec = self.spec
        host = self.watch.facts()
        return Manifest(
            suite=spec.suite,
            campaign=spec.campaign,
            run=spec.folder.name,
            factors=dict(spec.factors),
            repetition=spec.repetition,
            order=spec.order,
            seed=spec.seed,
            design=spec.design,
            parameters=dict(spec.parameters),
            command=shared_command(spec.command, spec.folder),
            work_topic=spec.work_topic,
            environment=_environment_facts(spec, self.environment),
            host=host,
            disturbances=self.watch.disturbances(host),
            timing=spec.timing,
            tracing=TracingSettings(tracer=spec.options.tracer, notes=list(self.daemon.notes)),
            events_expected=self._events_expected,
            start_ns=time.time_ns(),
        )

    def _last_manifest(self, manifest: Manifest) -> Manifest:
        spec = self.spec
        graph, complaints = _notes_of_others(
            spec.native / "graph.json", TypeAdapter(list[Endpoint])
        )
        hits, more = _notes_of_others(spec.native / TRIGGERED_NAME, TypeAdapter(list[Hit]))
        warnings = [*self.warnings, *complaints, *more]
        failures = list(dict.fromkeys(self.failures))
        host = self.watch.facts(self._own_cpu_ns() - self._cpu_before)
        status: Literal["complete", "failed", "interrupted"] = "failed" if failures else "complete"
        if self.interruption.wanted and self.ended != "ended":
            status = "interrupted"
            failures.insert(0, self.interruption.reason)
        return manifest.model_copy(
            update={
                "environment": _environment_facts(spec, self.environment, self.configuration),
                "host": host,
                "disturbances": self.watch.disturbances(host),
                "timing": self._timing(),
                "graph": graph,
                "triggered": hits,
                "tracing": self._settings() or manifest.tracing,
                "end_ns": time.time_ns(),
                "status": status,
                "exit_status": self.exit_status,
                "elapsed_ns": self.elapsed_ns,
                "failure": shared_text("; ".join(failures), spec.folder) if failures else None,
                "loss": self._loss(),
                "sampler": self.sampler.facts if self.sampler else None,
                "samplers": self._sampler_facts(),
                "warnings": [shared_text(warning, spec.folder) for warning in warnings],
            }
        )

    def _settings(self) -> TracingSettings | None:
        if self.session is None:
            return None
        settings, recorded = self.session.settings, bool(self.kernel.events)
        return settings.model_copy(
            update={
                "domains": [*settings.domains, "kernel"] if recorded else settings.domains,
                "kernel": self.kernel.kind if recorded else settings.kernel,
                "events": [*settings.events, *(f"kernel:{event}" for event in self.kernel.events)],
                "notes": [*settings.notes, *self.kernel.notes],
            }
        )

    def _loss(self) -> Loss:
        loss = self.session.loss if self.session else Loss()
        if loss.discarded_events is None:
            return loss
        lost = loss.discarded_events + self.kernel.lost
        return loss.model_copy(update={"discarded_events": lost})

    def _timing(self) -> Timing | None:
        timing = self.spec.timing
        with suppress(OSError):
            ready = self.spec.ready.stat().st_mtime_ns
            return timing.model_copy(update={"ready_ns": ready}) if timing else None
        return timing


def _environment(spec: RunSpec, daemon: Tracer) -> dict[str, str]:
    base = {**os.environ, **spec.variables, **daemon.workload_variables}
    # Absolute paths, because the workload may change its working directory.
    base["ROSLENS_NATIVE_DIR"] = str(spec.native.resolve())
    base[READY_VARIABLE] = str(spec.ready.resolve())
    base[SNAPSHOT_VARIABLE] = str((spec.native / SNAPSHOT_NAME).resolve())
    if spec.trace_rclpy:
        base["PYTHONPATH"] = python_path(base)
    if spec.preload:
        base["LD_PRELOAD"] = preloaded(base, first=spec.preload)
    if spec.ros is None:
        return base
    if spec.ros.kind == "embedded":
        # A script that calls python3 thereby gets the interpreter that has rclpy.
        base["PATH"] = f"{spec.ros.python.parent}{os.pathsep}{base.get('PATH', '')}"
    return spec.ros.process_environment(base)


@cache
def _roslens_version() -> str | None:
    try:
        return version("roslens")
    except PackageNotFoundError:
        return None


def _environment_facts(
    spec: RunSpec, environment: Mapping[str, str], configuration: Sequence[str] = ()
) -> Environment:
    ros = spec.ros
    executor = spec.factors.get("executor", spec.parameters.get("executor"))
    return Environment(
        ros=ros.kind if ros else None,
        ros_distro=ros.distro if ros else environment.get("ROS_DISTRO"),
        rmw=environment.get("RMW_IMPLEMENTATION") or (ros.rmw if ros else None),
        executor=None if executor is None else str(executor),
        packages=dict(ros.packages) if ros else {},
        variables=shared_variables(environment, spec.folder),
        python=ros.python_version if ros else None,
        git_commit=spec.git[0],
        git_dirty=spec.git[1],
        system=provenance.operating_system(),
        system_packages=provenance.system_packages(),
        compiler=provenance.compiler(),
        container=provenance.container(),
        roslens=_roslens_version(),
        configuration=list(configuration),
    )


def git_state(folder: Path | None = None) -> tuple[str | None, bool | None]:
    """Return a folder's checked-out commit and whether it is modified; None, None without git."""

    def git(*arguments: str) -> str | None:
        try:
            run = subprocess.run(
                ["git", *arguments],
                cwd=folder,
                text=True,
                capture_output=True,
                check=False,
                timeout=10,
                env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return run.stdout.strip() if run.returncode == 0 else None

    commit = git("rev-parse", "HEAD")
    changes = git("status", "--porcelain", "--untracked-files=no") if commit else None
    return commit or None, None if changes is None else bool(changes)


def _notes_of_others(path: Path, kind: TypeAdapter[list[T]]) -> tuple[list[T], list[str]]:
    """Return what others wrote about the run, and the errors in it."""
    if not path.is_file():
        return [], []
    try:
        return kind.validate_python(json.loads(path.read_bytes())), []
    except (ValueError, RecursionError, OSError, ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        return [], [f"native/{path.name} is not as described and was left out: {reason}"]


def _input(spec: RunSpec, stack: ExitStack) -> int | None:
    """Return the workload's input: a pipe is passed on, a terminal cannot be (other session)."""
    if not spec.quiet:
        with suppress(OSError, ValueError, AttributeError):
            if not sys.stdin.isatty():
                stream: IO[bytes] = stack.enter_context(os.fdopen(os.dup(sys.stdin.fileno()), "rb"))
                return stream.fileno()
    return subprocess.DEVNULL


def _last_words(spec: RunSpec) -> str:
    """Return the last line that the program wrote to its standard error."""
    with suppress(OSError), (spec.native / _PROGRAM_OUTPUT[1]).open("rb") as stream:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - 4096))
        lines = [line.strip() for line in stream.read().decode(errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "")[:300]
    return ""


def reserve_space(folder: Path) -> Path:
    """Return a file of `RESERVE_BYTES` in a run's folder, which is made if missing.

    Raises
    ------
    UsageError, RunFailedError
        The folder cannot be written; RunFailedError if the disk is full.
    """
    path = folder / ".reserve"
    with clear_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as stream:
            try:
                os.posix_fallocate(stream.fileno(), 0, RESERVE_BYTES)
            except OSError as error:
                path.unlink()
                if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
                    raise
                # This file system cannot reserve space.
                path.touch()
    return path


def clear_disk_errors(folder: Path) -> AbstractContextManager[None]:
    """Say what to do if a run's folder cannot be written."""
    advice = "; free space or record to another folder"
    return failing(f"{folder}: cannot be written", advice)
