"""Run the ``record`` verb: record, print the result, and end with its exit code."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypedDict, Unpack

from roslens.analysis.reports.table import ReportTable
from roslens.printed import show_table
from roslens.recorded import ResultPrinter
from roslens.recording import UsageError
from roslens.recording.manifest import Manifest
from roslens.recording.terminal import say
from roslens.tracing.campaign import (
    RECORDINGS,
    new_campaign,
    planned_seconds,
    resume_campaign,
)
from roslens.tracing.command import record_command
from roslens.tracing.lifeline import Lifeline
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.native_tracer.session import native_variables
from roslens.tracing.plan import PlannedRun, choose_seed, chosen_levels, plan_runs
from roslens.tracing.progress import duration, show_progress
from roslens.tracing.remote.arguments import record_arguments
from roslens.tracing.remote.campaign import (
    HOSTS_NAME,
    HOSTS_SUITE,
    find_hosts,
    record_on_hosts,
    resume_hosts,
)
from roslens.tracing.remote.ssh import Host
from roslens.tracing.ros.environment import python_path
from roslens.tracing.sampling.rates import SamplerRates
from roslens.tracing.state import (
    CampaignState,
    campaign_state,
    find_campaign,
    find_campaigns,
    last_unfinished,
)
from roslens.tracing.suite import RosChoice, Suite
from roslens.tracing.tracer import needed_preload
from roslens.tracing.workload import resolve_command

_SHORT_FLIGHT_S = 10.0
"""A snapshot of a shorter flight could not contain the time before its trigger."""
NOTHING = ("sleep", "infinity")
"""The command if only programs that run already are recorded."""


class RecordSettings(TypedDict):
    """Settings of a recording, named as the parameters of `record_command`."""

    options: TracingOptions
    ros: RosChoice
    trace_rclpy: bool
    samplers: SamplerRates
    time_limit: float | None


def record_one(
    command: Sequence[str],
    output: Path | None,
    *,
    as_host: bool,
    triggers: Path | None,
    told: ResultPrinter,
    **asked: Unpack[RecordSettings],
) -> None:
    """Record one command; print the recording's folder last.

    Raises
    ------
    UsageError
        The command does not exist, or something that recording needs is missing.
    RunFailedError
        The command failed, or the recording is not complete.
    InterruptedRunError
        The user asked to end the recording.
    """
    watch, flight = None, asked["options"].flight
    is_flight = flight is not None and flight > _SHORT_FLIGHT_S and not as_host
    if triggers is not None or is_flight:
        # Plain recording does not import the code that reads tables.
        from roslens.live.beside import OF_FLIGHTS, watched_for  # noqa: PLC0415

        watch = watched_for(triggers or OF_FLIGHTS, flight)
    with show_progress() as on_event:
        folder, manifest = record_command(
            command,
            output,
            lifeline=Lifeline() if as_host else None,
            beside=watch,
            on_event=on_event,
            **asked,
        )
    told.print_recording(folder, manifest)


def record_hosts(
    hosts: Sequence[str],
    command: Sequence[str],
    output: Path | None,
    *,
    setup: str | None,
    told: ResultPrinter,
    **asked: Unpack[RecordSettings],
) -> None:
    """Record on other hosts, and a command here; print the folder of all recordings last.

    Raises
    ------
    UsageError
        A host's name is invalid, the command does not exist, or something for recording is missing.
    RunFailedError
        A recording is missing or not complete.
    InterruptedRunError
        The user asked to end the recording.
    """
    if command:
        # Check the command before anything begins on other hosts.
        resolve_command(command)
    with show_progress() as on_event:

        def record_here(folder: Path) -> Manifest:
            return record_command(command, folder, on_event=on_event, **asked)[1]

        result = record_on_hosts(
            [Host.parsed(text) for text in hosts],
            output,
            record_arguments(
                *(asked["options"], asked["ros"], asked["samplers"]),
                trace_rclpy=asked["trace_rclpy"],
            ),
            setup=setup,
            here=record_here if command else None,
            time_limit=asked["time_limit"],
            on_event=on_event,
        )
    told.print_hosts(result)


LISTS = frozenset({"LD_PRELOAD", "PYTHONPATH"})
"""Variables that hold several paths: their previous content is kept."""


def print_variables(output: Path | None, events: Sequence[str], flight: float | None) -> None:
    """Print the variables that a shell must export so that ROS 2 programs record themselves.

    Raises
    ------
    UsageError, RunFailedError
        As in `variables`.
    """
    folder = output or new_campaign(RECORDINGS / "env", None)
    for name, value in variables(folder, events, flight).items():
        existing = f"${{{name}:+:${name}}}" if name in LISTS else ""
        say(f"export {name}={shlex.quote(value)}{existing}", exact=True)


def variables(folder: Path, events: Sequence[str], flight: float | None) -> dict[str, str]:
    """Return the environment in which ROS 2 programs record themselves; make their folder.

    Raises
    ------
    UsageError
        There is no library for the sourced ROS 2.
    RunFailedError
        The folder cannot be written.
    """
    options = TracingOptions.checked(
        tracer="native", events=tuple(events), flight=flight, kernel="off"
    )
    environment = native_variables(folder, options, needed_preload(options, None))
    return {**environment, "PYTHONPATH": python_path({})}


def resume_suite(
    root: Path | None, suite: str | None, names: Sequence[str], told: ResultPrinter
) -> None:
    """Record a campaign's missing runs, or fetch its recordings; print its folder last.

    Raises
    ------
    UsageError
        There is no such campaign, or no unfinished one.
    RunFailedError
        Some runs are not complete.
    InterruptedRunError
        The user asked to end the recording.
    """
    root = root or RECORDINGS
    if len(names) > 1:
        raise UsageError("--resume takes one campaign")
    hosts = find_hosts(root, names[0] if names else None) if suite in {None, HOSTS_SUITE} else None
    if hosts is not None and not names:
        with suppress(UsageError):
            # Use the campaign that was begun last.
            hosts = max(
                hosts,
                last_unfinished(root, suite),
                key=lambda campaign: campaign.stat().st_mtime_ns,
            )
    if hosts is not None and (hosts / HOSTS_NAME).is_file():
        with show_progress() as on_event:
            fetched = resume_hosts(hosts, on_event=on_event)
        told.print_hosts(fetched)
        return
    folder = find_campaign(root, names[0], suite) if names else last_unfinished(root, suite)
    with show_progress() as on_event:
        result = resume_campaign(folder, on_event=on_event)
    told.print_campaign(result)


def show_status(
    root: Path | None, suite: str | None, names: Sequence[str], told: ResultPrinter
) -> None:
    """Print the progress of all campaigns, or of each run of the named campaigns."""
    root = root or RECORDINGS
    folders = [find_campaign(root, name, suite) for name in names] or find_campaigns(root, suite)
    if not folders and not told.as_json:
        told.console.print(f"no campaign below {root}", highlight=False, markup=False)
        return
    states = [campaign_state(folder) for folder in folders]
    if told.as_json:
        told.json([_state_as_json(state) for state in states])
        return
    columns = ["suite", "campaign", "status", "runs", "complete", "failed", "torn", "left", "about"]
    rows = []
    for state in states:
        left = [run for run in state.runs if run.wanted]
        rows.append(
            [
                state.plan.suite.name,
                state.folder.name,
                state.status,
                str(len(state.runs)),
                str(sum(run.complete for run in state.runs)),
                str(sum(bool(run.attempts) and not run.complete for run in state.runs)),
                str(sum(run.torn is not None for run in state.runs)),
                str(len(left)),
                duration(planned_seconds(state.plan.suite, len(left))) if left else "",
            ]
        )
    show_table(ReportTable(columns, rows, "", left=frozenset(columns[:3])))
    for state in states if names else ():
        show_table(_runs_table(state))


def _state_as_json(state: CampaignState) -> dict[str, object]:
    """Return the state as JSON."""
    left = sum(run.wanted for run in state.runs)
    return {
        "suite": state.plan.suite.name,
        "folder": str(state.folder),
        "status": state.status,
        "left": left,
        "left_seconds": planned_seconds(state.plan.suite, left),
        "runs": [
            {
                **_planned_as_json(run.planned),
                "complete": run.complete,
                "torn": run.torn is not None,
                "failures": [
                    attempt.failure for attempt in run.attempts if attempt.status == "failed"
                ],
            }
            for run in state.runs
        ],
    }


def _planned_as_json(run: PlannedRun) -> dict[str, object]:
    return {"order": run.order, "repetition": run.repetition, "factors": run.factors}


def _runs_table(state: CampaignState) -> ReportTable:
    factors = list(state.plan.suite.factors)
    rows = []
    for run in state.runs:
        parts = [
            attempt.failure or "failed" for attempt in run.attempts if attempt.status == "failed"
        ]
        status = (
            "complete" if run.complete else "torn" if run.torn else "left" if run.wanted else ""
        )
        levels = (str(run.planned.factors[name]) for name in factors)
        history = "; ".join(filter(None, [*(f"failed: {failure}" for failure in parts), status]))
        rows.append([str(run.planned.order), str(run.planned.repetition), *levels, history])
    columns = ["order", "repetition", *factors, "status"]
    return ReportTable(columns, rows, "", left=frozenset(columns[2:]))


def show_plan(suite: Suite, *, seed: int | None, only: Sequence[str], told: ResultPrinter) -> None:
    """Print the planned runs of a suite, and how long they would take."""
    seed = choose_seed(suite) if seed is None else seed
    runs = plan_runs(suite, seed, chosen_levels(suite, only))
    seconds = planned_seconds(suite, len(runs))
    if told.as_json:
        told.json(
            {"seed": seed, "seconds": seconds, "runs": [_planned_as_json(run) for run in runs]}
        )
        return
    columns = ["order", "repetition", *suite.factors]
    rows = [
        [
            str(run.order),
            str(run.repetition),
            *(str(run.factors[factor]) for factor in suite.factors),
        ]
        for run in runs
    ]
    show_table(ReportTable(columns, rows, "", left=frozenset(columns[2:])))
    told.console.print(
        f"{len(runs)} run{'s' * (len(runs) != 1)}, about {duration(seconds)}; seed {seed}"
    )
