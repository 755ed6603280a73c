"""Execute a suite run by run, as a campaign."""

from __future__ import annotations

import itertools
import re
import select
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from roslens.recording import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    Manifest,
    RoslensError,
    RunFailedError,
    UsageError,
)
from roslens.recording.errors import failing, kind_of
from roslens.recording.manifest import Design, Level, Timing
from roslens.tracing.claim import claimed
from roslens.tracing.interruption import Interruption
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.lttng.tool import find_program
from roslens.tracing.needs import available_levels, needed, prepared_variables, without_sources
from roslens.tracing.plan import (
    Plan,
    PlannedRun,
    choose_seed,
    chosen_levels,
    plan_runs,
    read_plan,
    write_plan,
)
from roslens.tracing.ros import RosEnvironment
from roslens.tracing.ros.environment import RMW_VARIABLE
from roslens.tracing.ros_choice import choose_ros, with_middlewares, with_python
from roslens.tracing.run import READY_NAME, RunSpec, git_state, record_run
from roslens.tracing.state import CampaignState, RunState, campaign_state, clear_torn
from roslens.tracing.suite import Suite, suite_command, suite_variables
from roslens.tracing.tracer import Tracer, is_selected, needed_preload, start_tracer

RECORDINGS = Path("data/recordings")
OVERHEAD_SECONDS = 3.0
"""Assumed overhead of a run in addition to its duration, until a run has been measured."""

_CAMPAIGN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Event:
    """An event of a campaign that a progress display may show.

    Attributes
    ----------
    kind
        ``note`` (only `text`), ``begin`` and ``end`` of the campaign, ``run_begin``, ``run_end``.
    done, total
        Runs that have ended, and all runs of the campaign.
    run
        The run, if the event concerns one.
    manifest
        The manifest of a run that has ended.
    elapsed_seconds, eta_seconds
        Seconds since the campaign began, and expected seconds until it ends.
    """

    kind: Literal["note", "begin", "run_begin", "run_end", "end"]
    text: str = ""
    done: int = 0
    total: int = 0
    run: PlannedRun | None = None
    manifest: Manifest | None = None
    elapsed_seconds: float = 0.0
    eta_seconds: float = 0.0


OnEvent = Callable[[Event], None]


def noting(on_event: OnEvent, of: str = "") -> Callable[[str], None]:
    """Return a function that reports a line as a note, prefixed by `of` (a host) if given."""
    return lambda text: on_event(Event("note", text=f"{of}: {text}" if of else text))


@dataclass
class CampaignResult:
    """The result of a campaign.

    Attributes
    ----------
    folder
        The campaign's folder.
    complete, failed
        The manifests of complete runs and of failed runs.
    not_run
        How many runs were not started.
    interrupted, interrupted_run
        Whether the campaign was interrupted, and the run that was under way at that time.
    stopped_by
        Why the campaign ended early without an interruption.
    resumed_after
        How many runs existed before this execution of the campaign.
    retried
        How many failed attempts were repeated.
    """

    folder: Path
    complete: list[Manifest] = field(default_factory=list)
    failed: list[Manifest] = field(default_factory=list)
    not_run: int = 0
    interrupted: bool = False
    interrupted_run: Manifest | None = None
    stopped_by: str | None = None
    resumed_after: int = 0
    retried: int = 0
    elapsed_seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """Return 0 if all runs are complete, 4 if not, 130 if the campaign was interrupted."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_FAILED if self.failed or self.not_run or self.stopped_by else EXIT_OK

    @property
    def discarded_events(self) -> int:
        """Return how many events the tracer discarded over all runs."""
        torn = [self.interrupted_run] if self.interrupted_run else []
        runs = [*self.complete, *self.failed, *torn]
        return sum(m.loss.discarded_events or 0 for m in runs)

    def counts(self) -> str:
        """Describe in one line how the runs ended."""
        torn = int(self.interrupted_run is not None)
        total = len(self.complete) + len(self.failed) + self.not_run + torn
        text = f"{len(self.complete)} of {total} runs complete"
        if self.resumed_after:
            text += f" ({self.resumed_after} were there already)"
        if self.retried:
            text += f", {self.retried} after failed attempts, which are kept"
        if self.failed:
            text += f", {len(self.failed)} not"
        if torn:
            text += ", 1 interrupted"
        if self.not_run:
            text += f", {self.not_run} not begun"
        return text

    def summary(self) -> str:
        """Describe how the runs ended, and why some are not complete."""
        text = self.counts()
        if self.failed:
            text += f"; first: {self.failed[0].run}: {self.failed[0].failure}"
        if self.stopped_by:
            text += f" ({self.stopped_by})"
        return text


def seconds_of_run(suite: Suite) -> float:
    """Return the approximate seconds that a run takes, including the pause after it."""
    return suite.seconds + suite.pause + OVERHEAD_SECONDS


def planned_seconds(suite: Suite, runs: int | None = None) -> float:
    """Return the approximate seconds for `runs` runs of a suite, or for all of its runs."""
    if runs is None:
        runs = suite.repetitions * sum(1 for _ in suite.combinations())
    return runs * seconds_of_run(suite)


def utc_name() -> str:
    """Return a campaign name: the current time in UTC, such as ``20251121T140102Z``."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def run_campaign(
    suite: Suite,
    suite_text: str,
    *,
    root: Path = RECORDINGS,
    name: str | None = None,
    seed: int | None = None,
    only: Sequence[str] = (),
    on_event: OnEvent = lambda _: None,
) -> CampaignResult:
    """Execute a suite.

    The plan is written before the first run. A failed run is kept and marked as failed, and the
    campaign continues; it ends early when interrupted, or when no further run could succeed.

    Parameters
    ----------
    suite, suite_text
        The suite, and its text to be recorded (see `load_suite`).
    root
        The folder of all recordings.
    name
        The campaign's name; default: the UTC start time.
    seed
        Seed of the order of runs; default: the suite's seed, else a new one.
    only
        Texts ``factor=level``: only combinations with these levels are run.
    on_event
        Called with each event of the campaign.

    Raises
    ------
    UsageError
        LTTng or ROS 2 is missing, the command does not exist, or the campaign already exists.
    RunFailedError
        No session daemon can be started, or the folder cannot be written.
    """
    chosen = chosen_levels(suite, only)
    seed = choose_seed(suite) if seed is None else seed
    given, chosen = prepare_suite(suite, chosen, noting(on_event))
    folder = new_campaign(root / suite.name, name)
    plan = Plan(
        campaign=folder.name,
        created_ns=time.time_ns(),
        seed=seed,
        suite=suite,
        suite_text=suite_text,
        only=chosen,
        runs=tuple(plan_runs(suite, seed, chosen)),
    )
    with failing(f"{folder}: cannot be written"):
        write_plan(plan, folder)
    try:
        return _execute(folder, given, on_event)
    except RoslensError:
        if not any(path.is_dir() for path in folder.iterdir()):
            # Nothing was recorded, so there is nothing to resume either.
            shutil.rmtree(folder, ignore_errors=True)
        raise


def resume_campaign(folder: Path, *, on_event: OnEvent = lambda _: None) -> CampaignResult:
    """Make the missing runs of a campaign, according to its plan.

    Runs that ended are not changed; a run that was cut off (by a kill, a crash of the machine,
    Ctrl-C) is repeated.

    Raises
    ------
    UsageError
        The folder is no campaign, another roslens records it, or LTTng or ROS 2 is missing.
    RunFailedError
        No session daemon can be started, or the folder cannot be written.
    """
    plan, note = read_plan(folder), noting(on_event)
    suite = plan.suite
    ros, missing = _ros_for(suite, plan.only, note)
    if missing:
        raise RunFailedError("; ".join(missing.values()))
    variables = prepared_variables(suite.workload, note)
    return _execute(folder, SharedSettings(ros, _preloads(suite, ros), variables), on_event)


@dataclass(frozen=True)
class SharedSettings:
    """Settings that all runs of a suite share, in addition to their plan.

    Attributes
    ----------
    ros
        The ROS 2 environment of the runs.
    preloads
        Libraries that the programs preload, by tracer.
    variables
        Environment variables that refer to prepared software.
    """

    ros: RosEnvironment | None
    preloads: Mapping[str, tuple[Path, ...]]
    variables: Mapping[str, str]


def prepare_suite(
    suite: Suite, chosen: Mapping[str, tuple[Level, ...]], note: Callable[[str], None]
) -> tuple[SharedSettings, dict[str, tuple[Level, ...]]]:
    """Prepare what a suite needs; return it, and the levels that are available.

    Raises
    ------
    UsageError
        LTTng or ROS 2 is missing.
    """
    ros, unprepared = _ros_for(suite, chosen, note)
    left, left_out = available_levels(suite, chosen, ros, unprepared)
    for line in left_out:
        note(line)
    preloads = _preloads(suite, ros)
    return SharedSettings(ros, preloads, prepared_variables(suite.workload, note)), left


def _ros_for(
    suite: Suite, chosen: Mapping[str, Sequence[Level]], note: Callable[[str], None]
) -> tuple[RosEnvironment | None, dict[str, str]]:
    """Return a suite's ROS 2, and the reason for each middleware or source that is unavailable."""
    ros = choose_ros(suite.workload.ros, note)
    ros, missing = with_middlewares(ros, [*needed(suite, chosen, "package")], note)
    return ros, missing | without_sources(needed(suite, chosen, "source"), note)


def _preloads(suite: Suite, ros: RosEnvironment | None) -> dict[str, tuple[Path, ...]]:
    """Return the libraries that programs preload, for each tracer that the suite uses."""
    by_tracer: dict[str, tuple[Path, ...]] = {}
    for factors in suite.combinations():
        options = suite.tracing_of(factors).resolved()
        if options.tracer not in by_tracer:
            if options.tracer == "lttng":
                find_program("lttng")
            by_tracer[options.tracer] = needed_preload(options, ros)
    return by_tracer


def _execute(folder: Path, given: SharedSettings, on_event: OnEvent) -> CampaignResult:
    note = noting(on_event)
    with ExitStack() as stack:
        interruption = stack.enter_context(Interruption())
        hold = stack.enter_context(claimed(folder, note))
        state = campaign_state(folder)
        clear_torn(state, note)
        daemons = stack.enter_context(Daemons(note, (hold,)))
        if not state.finished:
            first = next(run.planned for run in state.runs if run.wanted)
            options = state.plan.suite.tracing_of(first.factors).resolved()
            for text in daemons.current(options).notes:
                note(text)
        return _Execution(state, given, daemons, interruption, on_event).execute()


class Daemons:
    """The tracer of a campaign; replaced when it has died or does not fit the next run."""

    def __init__(self, note: Callable[[str], None], hold: Sequence[int] = ()) -> None:
        self._note, self._hold = note, hold
        self._stack = ExitStack()
        self._daemon: Tracer | None = None

    def current(self, options: TracingOptions) -> Tracer:
        """Return a running tracer that fits the options, starting one if needed.

        Raises
        ------
        RunFailedError
            No tracer can be started.
        """
        usable = self._daemon is not None and self._daemon.is_alive()
        if self._daemon is None or not usable or not is_selected(self._daemon, options):
            self._stack.close()
            self._daemon = self._stack.enter_context(start_tracer(options, self._note, self._hold))
        return self._daemon

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@dataclass
class _Execution:
    """A campaign in progress."""

    state: CampaignState
    settings: SharedSettings
    daemons: Daemons
    interruption: Interruption
    on_event: OnEvent
    git: tuple[str | None, bool | None] = (None, None)
    begun: float = 0.0
    done_before: int = 0

    @property
    def plan(self) -> Plan:
        return self.state.plan

    def execute(self) -> CampaignResult:
        self.begun, self.git = time.monotonic(), git_state()
        self.done_before = sum(not run.wanted for run in self.state.runs)
        execution = self.state.executions
        result = CampaignResult(folder=self.state.folder, resumed_after=self.done_before)
        self._report("begin")
        try:
            for run in self._in_order():
                if self.interruption.wanted:
                    break
                self._report("run_begin", run.planned)
                spec = run_spec(
                    *(self.plan, run.planned, self.state.folder, self.settings),
                    attempt=len(run.attempts),
                    execution=execution,
                    git=self.git,
                )
                manifest = record_run(spec, self.daemons.current(spec.options), self.interruption)
                if manifest.status == "interrupted":
                    result.interrupted_run = manifest
                else:
                    run.attempts.append(manifest)
                self._report("run_end", run.planned, manifest)
                self._pause()
        except RunFailedError as error:
            # The result could not be written, so no further run could be recorded either.
            if not any(run.attempts for run in self.state.runs):
                raise
            result.stopped_by = str(error)
        for run in self.state.runs:
            if run.complete:
                result.complete.append(run.attempts[-1])
                result.retried += len(run.attempts) - 1
            elif run.attempts:
                result.failed.append(run.attempts[-1])
                result.retried += len(run.attempts) - 1
            elif result.interrupted_run is None or result.interrupted_run.order != (
                run.planned.order
            ):
                result.not_run += 1
        result.interrupted = self.interruption.wanted
        result.elapsed_seconds = time.monotonic() - self.begun
        self._report("end")
        return result

    def _in_order(self) -> Iterator[RunState]:
        """Yield runs block by block: first the missing runs, then retries of failed runs."""
        for _, block in itertools.groupby(self.state.runs, lambda run: run.planned.repetition):
            runs = list(block)
            yield from (run for run in runs if not run.attempts)
            while again := [run for run in runs if run.wanted]:
                yield from again

    def _pause(self) -> None:
        seconds = self.plan.suite.pause
        if seconds and any(run.wanted for run in self.state.runs):
            select.select([self.interruption], [], [], seconds)

    def _report(
        self,
        kind: Literal["begin", "run_begin", "run_end", "end"],
        run: PlannedRun | None = None,
        manifest: Manifest | None = None,
    ) -> None:
        total = len(self.plan.runs)
        done = sum(not state.wanted for state in self.state.runs)
        elapsed = time.monotonic() - self.begun
        done_now = done - self.done_before
        each = elapsed / done_now if done_now else seconds_of_run(self.plan.suite)
        self.on_event(
            Event(
                kind,
                done=done,
                total=total,
                run=run,
                manifest=manifest,
                elapsed_seconds=elapsed,
                eta_seconds=each * (total - done),
            )
        )


def run_spec(
    plan: Plan,
    planned: PlannedRun,
    campaign: Path,
    given: SharedSettings,
    *,
    attempt: int = 0,
    execution: int = 0,
    git: tuple[str | None, bool | None],
) -> RunSpec:
    """Return the specification of one run of a plan, in the folder of its campaign."""
    suite = plan.suite
    folder = campaign / planned.folder(attempt)
    native = (folder / "native").resolve()
    values: dict[str, Level] = {
        "native": str(native),
        "ready": str(native / READY_NAME),
        "seconds": suite.seconds,
        "messages": suite.messages or 0,
        "repetition": planned.repetition,
        "order": planned.order,
    }
    options = suite.tracing_of(planned.factors).resolved()
    command = suite_command(suite, planned.factors, values)
    if given.ros is not None:
        command = with_python(command, given.ros)
    elif suite.workload.builtin is not None:
        command = [sys.executable, *command]
    variables = {**given.variables, **suite_variables(suite, planned.factors, values)}
    ros = given.ros and given.ros.with_middleware(variables.get(RMW_VARIABLE))
    return RunSpec(
        folder=folder,
        suite=suite.name,
        campaign=plan.campaign,
        command=command,
        options=options,
        preload=given.preloads[options.tracer],
        variables=variables,
        factors=planned.factors,
        parameters=suite.parameters_of(planned.factors),
        repetition=planned.repetition,
        order=planned.order,
        seed=plan.seed,
        design=Design(
            combination=planned.combination,
            combinations=len({run.combination for run in plan.runs}),
            blocks=suite.repetitions,
            attempt=attempt,
            retry_of=planned.folder(attempt - 1) if attempt else None,
            execution=execution,
        ),
        ros=ros,
        isolated=True,
        trace_rclpy=suite.workload.trace_rclpy,
        time_limit=suite.limit_seconds,
        sampler_hz=suite.sampler_hz,
        samplers=suite.samplers,
        host_limits=suite.host_limits,
        timing=Timing(
            warm_up_s=suite.warm_up,
            duration_s=suite.duration,
            cool_down_s=suite.cool_down,
            messages=suite.messages,
        ),
        says_ready=suite.workload.says_ready,
        work_topic=suite.work_topic,
        expect_events="yes" if suite.expect.ros2_events else "no",
        expect_files=suite.expect.files,
        expect_status=suite.expect.exit_status,
        max_discarded=suite.expect.max_discarded_events,
        git=git,
    )


def refuse_used(output: Path | None) -> None:
    """Raise an error if the folder given for a new recording is in use.

    Raises
    ------
    UsageError
        The path is a file, or a folder that is not empty.
    """
    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output}: is there already; give a new folder")


def new_campaign(parent: Path, name: str | None) -> Path:
    """Make a campaign's folder; campaigns that begin in the same second get different names."""
    if name is not None and not _CAMPAIGN.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a campaign's name: letters, digits and _ . - only")
    wanted = name or utc_name()
    for number in range(1, 100):
        folder = parent / (wanted if number == 1 else f"{wanted}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError as error:
            if name is not None:
                raise UsageError(
                    f"{folder}: this campaign is there already; give another name"
                ) from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise kind_of(error)(f"{folder}: cannot be made: {reason}") from error
        else:
            return folder
    raise RunFailedError(f"{parent / wanted}: no free name for a campaign")
