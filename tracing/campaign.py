"""Campaigns: a suite executed run by run."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Self

from tracing.interruption import Interruption
from tracing.lttng import SessionDaemon, TracingOptions, session_daemon
from tracing.plan import Plan, PlannedRun, choose_seed, plan_runs, write_plan
from tracing.recording import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    Manifest,
    RunFailedError,
    UsageError,
)
from tracing.ros_choice import choose_ros, with_python
from tracing.run import Ros, RunSpec, git_state, record_run
from tracing.suite import Suite, suite_command

RECORDINGS = Path("data/recordings")
OVERHEAD_SECONDS = 3.0
"""What a run takes beside its duration, as long as none has been measured."""

_CAMPAIGN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True)
class Event:
    """Something that a display of progress may show.

    Attributes
    ----------
    kind
        ``note`` (only `text`), ``begin`` and ``end`` of the campaign, ``run_begin``, ``run_end``.
    done, total
        Runs that have ended, runs of the campaign.
    run
        The run, where it is about one.
    manifest
        Of a run that has ended.
    elapsed_seconds, eta_seconds
        Since the campaign began; until it will probably end.
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


@dataclass
class CampaignResult:
    """What came out of a campaign.

    Attributes
    ----------
    folder
        The campaign's folder.
    complete, failed
        The manifests of runs that are complete, and of those that are not.
    not_run
        How many runs were not begun.
    interrupted
        Whether it was asked to end.
    stopped_by
        Why it ended early without having been asked.
    """

    folder: Path
    complete: list[Manifest] = field(default_factory=list)
    failed: list[Manifest] = field(default_factory=list)
    not_run: int = 0
    interrupted: bool = False
    stopped_by: str | None = None
    elapsed_seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 all runs complete, 4 not all, 130 interrupted."""
        if self.interrupted:
            return EXIT_INTERRUPTED
        return EXIT_FAILED if self.failed or self.not_run else EXIT_OK

    @property
    def discarded_events(self) -> int:
        """What the tracer dropped over all runs."""
        runs = [*self.complete, *self.failed]
        return sum(m.loss.discarded_events or 0 for m in runs)

    def summary(self) -> str:
        """One line for people."""
        total = len(self.complete) + len(self.failed) + self.not_run
        text = f"{len(self.complete)} of {total} runs complete"
        if self.failed:
            first = self.failed[0]
            text += f", {len(self.failed)} not (first: {first.run}: {first.failure})"
        if self.not_run:
            text += f", {self.not_run} not begun"
        if self.stopped_by:
            text += f" ({self.stopped_by})"
        return text


def planned_seconds(suite: Suite) -> float:
    """How long all runs of a suite will take, about."""
    runs = suite.repetitions * sum(1 for _ in suite.combinations())
    return runs * (suite.duration + OVERHEAD_SECONDS)


def utc_name(now: datetime | None = None) -> str:
    """A campaign's name: the time in UTC, such as ``20251121T140102Z``."""
    return (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")


def run_campaign(
    suite: Suite,
    suite_text: str,
    *,
    root: Path = RECORDINGS,
    name: str | None = None,
    seed: int | None = None,
    repetitions: int | None = None,
    on_event: OnEvent = lambda _: None,
) -> CampaignResult:
    """Execute a suite.

    The plan is written before anything runs. A run that fails is kept and marked, and the
    campaign goes on; it ends early when interrupted, or when no further run could succeed.

    Parameters
    ----------
    suite, suite_text
        The suite, and its text for the record (see `load_suite`).
    root
        The folder of all recordings.
    name
        The campaign's; default: the UTC start time.
    seed
        Of the order; default: the suite's, else a new one.
    repetitions
        In place of the suite's.
    on_event
        Is told how it goes.

    Raises
    ------
    UsageError
        LTTng or ROS 2 is missing, the command does not exist, the campaign is there already.
    RunFailedError
        No session daemon can be started, or the folder cannot be written.
    """
    if repetitions is not None:
        if repetitions < 1:
            raise UsageError(f"repetitions must be at least 1, not {repetitions}")
        suite = suite.model_copy(update={"repetitions": repetitions})
    seed = choose_seed(suite) if seed is None else seed

    def note(text: str) -> None:
        on_event(Event("note", text=text))

    ros = choose_ros(suite.workload.ros, note)
    with ExitStack() as stack:
        interruption = stack.enter_context(Interruption())
        daemons = stack.enter_context(_Daemons(suite.tracing, note))
        daemons.current()
        for text in daemons.current().notes:
            note(text)
        folder = new_campaign(root / suite.name, name)
        plan = Plan(
            campaign=folder.name,
            created_ns=time.time_ns(),
            seed=seed,
            suite=suite,
            suite_text=suite_text,
            runs=tuple(plan_runs(suite, seed)),
        )
        try:
            write_plan(plan, folder)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise RunFailedError(f"{folder}: cannot be written: {reason}") from error
        return _Execution(plan, folder, ros, daemons, interruption, on_event).execute()


class _Daemons:
    """The session daemon of a campaign; a new one when it has died."""

    def __init__(self, options: TracingOptions, note: Callable[[str], None]) -> None:
        self._options, self._note = options, note
        self._stack = ExitStack()
        self._daemon: SessionDaemon | None = None

    def current(self) -> SessionDaemon:
        """One that answers.

        Raises
        ------
        RunFailedError
            None can be started.
        """
        if self._daemon is None or not self._daemon.is_alive():
            self._stack.close()
            self._daemon = self._stack.enter_context(
                session_daemon(kernel=self._options.kernel, progress=self._note)
            )
        return self._daemon

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@dataclass
class _Execution:
    """A campaign under way."""

    plan: Plan
    folder: Path
    ros: Ros | None
    daemons: _Daemons
    interruption: Interruption
    on_event: OnEvent

    def execute(self) -> CampaignResult:
        result = CampaignResult(folder=self.folder, not_run=len(self.plan.runs))
        begun = time.monotonic()
        git = git_state()
        self._tell("begin", result, begun)
        for planned in self.plan.runs:
            if self.interruption.wanted:
                break
            self._tell("run_begin", result, begun, planned)
            try:
                manifest = record_run(
                    replace(self._spec(planned), git=git),
                    self.daemons.current(),
                    self.interruption,
                )
            except UsageError:
                # The command cannot be run, now or later.
                if result.not_run == len(self.plan.runs):
                    shutil.rmtree(self.folder, ignore_errors=True)
                raise
            except RunFailedError as error:
                # It could not even be written down: no further run could be either.
                if result.not_run == len(self.plan.runs):
                    raise
                result.stopped_by = str(error)
                break
            result.not_run -= 1
            (result.complete if manifest.status == "complete" else result.failed).append(manifest)
            self._tell("run_end", result, begun, planned, manifest)
        result.interrupted = self.interruption.wanted
        result.elapsed_seconds = time.monotonic() - begun
        self._tell("end", result, begun)
        return result

    def _tell(
        self,
        kind: Literal["begin", "run_begin", "run_end", "end"],
        result: CampaignResult,
        begun: float,
        run: PlannedRun | None = None,
        manifest: Manifest | None = None,
    ) -> None:
        total = len(self.plan.runs)
        done = total - result.not_run
        elapsed = time.monotonic() - begun
        each = elapsed / done if done else self.plan.suite.duration + OVERHEAD_SECONDS
        self.on_event(
            Event(
                kind,
                done=done,
                total=total,
                run=run,
                manifest=manifest,
                elapsed_seconds=elapsed,
                eta_seconds=each * result.not_run,
            )
        )

    def _spec(self, planned: PlannedRun) -> RunSpec:
        suite = self.plan.suite
        folder = self.folder / planned.run
        command = suite_command(
            suite,
            planned.factors,
            {
                "native": str((folder / "native").resolve()),
                "seconds": suite.duration,
                "repetition": planned.repetition,
                "order": planned.order,
            },
        )
        if self.ros is not None:
            command = with_python(command, self.ros)
        elif suite.workload.builtin is not None and command[0].endswith(".py"):
            command = [sys.executable, *command]
        return RunSpec(
            folder=folder,
            suite=suite.name,
            campaign=self.plan.campaign,
            command=command,
            options=suite.tracing,
            variables=suite.workload.environment,
            factors=planned.factors,
            parameters=suite.workload.parameters,
            repetition=planned.repetition,
            order=planned.order,
            seed=self.plan.seed,
            ros=self.ros,
            isolated=True,
            trace_rclpy=suite.workload.trace_rclpy,
            time_limit=suite.limit_seconds,
            sampler_hz=suite.sampler_hz,
            work_topic=suite.work_topic,
            expect_events="yes" if suite.expect.ros2_events else "no",
            expect_files=suite.expect.files,
        )


def new_campaign(parent: Path, name: str | None) -> Path:
    """Make a campaign's folder; two that begin in the same second get different ones."""
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
            raise RunFailedError(f"{folder}: cannot be made: {reason}") from error
        else:
            return folder
    raise RunFailedError(f"{parent / wanted}: no free name for a campaign")
