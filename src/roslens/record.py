"""The ``record`` verb: what it prints and how it ends."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from rich.markup import escape

from roslens.analysis.reports.table import ReportTable
from roslens.printed import show_table
from roslens.recording import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    InterruptedRunError,
    RoslensError,
    RunFailedError,
    UsageError,
)
from roslens.recording.manifest import Loss, Manifest, Sampler
from roslens.recording.terminal import Console, say
from roslens.tracing.attach import record_attached
from roslens.tracing.campaign import (
    RECORDINGS,
    CampaignResult,
    new_campaign,
    planned_seconds,
    resume_campaign,
    run_campaign,
)
from roslens.tracing.command import exit_code, record_command
from roslens.tracing.lifeline import Lifeline
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.native_tracer.session import native_variables
from roslens.tracing.plan import choose_seed, chosen_levels, plan_runs
from roslens.tracing.progress import duration, show_progress
from roslens.tracing.remote.arguments import record_arguments
from roslens.tracing.remote.campaign import (
    HERE,
    HOSTS_NAME,
    HOSTS_SUITE,
    HostsResult,
    find_hosts,
    record_on_hosts,
    resume_hosts,
)
from roslens.tracing.remote.ssh import Host
from roslens.tracing.ros.environment import python_path
from roslens.tracing.state import (
    CampaignState,
    campaign_state,
    find_campaign,
    find_campaigns,
    last_unfinished,
)
from roslens.tracing.suite import RosChoice, load_suite, with_changes
from roslens.tracing.tracer import needed_preload
from roslens.tracing.workload import resolve_command

MERGED = "merged"
"""Beside the recordings of several hosts: all of them as one."""
NOTHING = ("sleep", "infinity")
"""The command where only what runs already is recorded."""


def record_suite(
    suite_name: str,
    *,
    root: Path | None,
    name: str | None,
    seed: int | None,
    changes: Mapping[str, object],
    only: Sequence[str],
    console: Console,
) -> None:
    """Record a suite; prints the campaign's folder last.

    `changes` are those of `with_changes`.

    Raises
    ------
    UsageError
        No such suite, or something that recording needs is missing.
    RunFailedError
        Some runs are not complete.
    InterruptedRunError
        It was asked to end.
    """
    suite, text = load_suite(suite_name)
    suite = with_changes(suite, changes)
    with show_progress() as on_event:
        result = run_campaign(
            suite,
            text,
            root=root or RECORDINGS,
            name=name,
            seed=seed,
            only=only,
            on_event=on_event,
        )
    _end(result, console)


def record_one(
    command: Sequence[str],
    output: Path | None,
    *,
    options: TracingOptions,
    ros: RosChoice,
    trace_rclpy: bool,
    allocations: bool,
    time_limit: float | None,
    as_host: bool = False,
    triggers: Path | None = None,
    console: Console,
) -> None:
    """Record one command; prints the recording's folder last.

    Raises
    ------
    UsageError
        No such command, or something that recording needs is missing.
    RunFailedError
        The command failed, or the recording is not complete.
    InterruptedRunError
        It was asked to end.
    """
    beside = None
    if triggers is not None:
        from roslens.live.beside import watched_for  # noqa: PLC0415  (a recorder reads no tables)

        beside = watched_for(triggers, options.flight)
    with show_progress() as on_event:
        folder, manifest = record_command(
            command,
            output,
            options=options,
            ros=ros,
            trace_rclpy=trace_rclpy,
            allocations=allocations,
            time_limit=time_limit,
            lifeline=Lifeline() if as_host else None,
            beside=beside,
            on_event=on_event,
        )
    _end_one(
        folder,
        manifest,
        manifest.warnings,
        console,
        _sampling([manifest]),
        _disturbed([manifest]),
        _triggered(manifest),
    )


def record_hosts(
    hosts: Sequence[str],
    command: Sequence[str],
    output: Path | None,
    *,
    options: TracingOptions,
    ros: RosChoice,
    trace_rclpy: bool,
    allocations: bool,
    setup: str | None,
    time_limit: float | None,
    console: Console,
) -> None:
    """Record on other hosts, and a command here; prints the folder of all recordings last.

    Raises
    ------
    UsageError
        No host's name, no such command, or something that recording needs is missing.
    RunFailedError
        Something is missing or not complete.
    InterruptedRunError
        It was asked to end.
    """
    if command:
        # Before anything begins elsewhere.
        resolve_command(command)
    with show_progress() as on_event:

        def here(folder: Path) -> Manifest:
            _, manifest = record_command(
                command,
                folder,
                options=options,
                ros=ros,
                trace_rclpy=trace_rclpy,
                allocations=allocations,
                time_limit=time_limit,
                on_event=on_event,
            )
            return manifest

        result = record_on_hosts(
            [Host.parsed(text) for text in hosts],
            output,
            record_arguments(options, ros, trace_rclpy=trace_rclpy, allocations=allocations),
            setup=setup,
            here=here if command else None,
            time_limit=time_limit,
            on_event=on_event,
        )
    _end_hosts(result, console)


def _end_hosts(result: HostsResult, console: Console) -> None:
    for name, manifest in result.recordings.items():
        parts = [manifest.status, manifest.failure, *manifest.warnings, _loss(manifest.loss)]
        console.print(
            f"{escape(name)}: {'; '.join(filter(None, parts))}", highlight=False, soft_wrap=True
        )
    from roslens.merge import merge, show_merged  # noqa: PLC0415  (a recorder reads no tables)

    # The clock of this host, where it has a recording, is that of all.
    names = sorted(result.recordings, key=lambda name: name != HERE)
    if len(names) > 1:
        try:
            merged = merge([result.folder / name for name in names], result.folder / MERGED)
        except RoslensError as error:
            console.print(f"[yellow]not merged:[/] {escape(str(error))}", soft_wrap=True)
            say(result.folder)
        else:
            show_merged(*merged, console)
    else:
        say(result.folder)
    later = f"; 'roslens record --resume {result.folder}' fetches the rest"
    where = f"what was recorded is in {result.folder}{later if result.unfetched else ''}"
    if result.exit_code == EXIT_INTERRUPTED:
        raise InterruptedRunError(f"interrupted; {where}")
    if result.exit_code != EXIT_OK:
        incomplete = {
            name: manifest.failure or manifest.status
            for name, manifest in result.recordings.items()
            if manifest.status != "complete"
        }
        text = "; ".join(f"{k}: {v}" for k, v in {**incomplete, **result.troubles}.items())
        raise RunFailedError(f"{text}; {where}")


def record_running(
    wanted: Sequence[str],
    output: Path | None,
    *,
    options: TracingOptions,
    time_limit: float | None,
    console: Console,
) -> None:
    """Record programs that run already; prints the recording's folder last.

    Raises
    ------
    UsageError
        No such program, or ftrace may not be used here.
    RunFailedError
        The kernel refuses, or the recording is not whole.
    """
    with show_progress() as on_event:
        folder, manifest = record_attached(
            wanted, output, options=options, time_limit=time_limit, on_event=on_event
        )
    _end_one(folder, manifest, (*manifest.tracing.notes, *manifest.warnings), console)


def _end_one(
    folder: Path, manifest: Manifest, warnings: Iterable[str], console: Console, *lines: str
) -> None:
    """Print what one recording is worth, its folder last; raise if it is not complete."""
    for warning in warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)
    console.print(_loss(manifest.loss), soft_wrap=True, highlight=False)
    for line in filter(None, lines):
        console.print(line, highlight=False, soft_wrap=True)
    say(folder)
    code = exit_code(manifest)
    if code == EXIT_INTERRUPTED:
        raise InterruptedRunError(f"interrupted; what was recorded is in {folder}")
    if code != EXIT_OK:
        raise RunFailedError(f"{manifest.failure}; what was recorded is in {folder}")


LISTS = frozenset({"LD_PRELOAD", "PYTHONPATH"})
"""Variables that hold several paths: what they held before is kept."""


def print_variables(output: Path | None, events: Sequence[str], flight: float | None) -> None:
    """Print what a shell is to export so that ROS 2 programs record themselves.

    Raises
    ------
    UsageError, RunFailedError
        As of `variables`.
    """
    folder = output or new_campaign(RECORDINGS / "env", None)
    for name, value in variables(folder, events, flight).items():
        others = f"${{{name}:+:${name}}}" if name in LISTS else ""
        say(f"export {name}={shlex.quote(value)}{others}", exact=True)


def variables(folder: Path, events: Sequence[str], flight: float | None) -> dict[str, str]:
    """The environment in which ROS 2 programs record themselves into a folder, which is made.

    Raises
    ------
    UsageError
        There is no library for the ROS 2 that is sourced.
    RunFailedError
        The folder cannot be written.
    """
    options = TracingOptions.checked(
        tracer="native", events=tuple(events), flight=flight, kernel="off"
    )
    found = native_variables(folder, options, needed_preload(options, None))
    return {**found, "PYTHONPATH": python_path({})}


def resume_suite(
    root: Path | None, suite: str | None, names: Sequence[str], console: Console
) -> None:
    """Make the missing runs of a campaign, or fetch its recordings; prints its folder last.

    Raises
    ------
    UsageError
        There is no such campaign or no unfinished one.
    RunFailedError
        Some runs are not complete.
    InterruptedRunError
        It was asked to end.
    """
    root = root or RECORDINGS
    if len(names) > 1:
        raise UsageError("--resume takes one campaign")
    hosts = find_hosts(root, names[0] if names else None) if suite in {None, HOSTS_SUITE} else None
    if hosts is not None and not names:
        with suppress(UsageError):
            # Whichever was begun last.
            hosts = max(hosts, last_unfinished(root, suite), key=lambda x: x.stat().st_mtime_ns)
    if hosts is not None and (hosts / HOSTS_NAME).is_file():
        with show_progress() as on_event:
            fetched = resume_hosts(hosts, on_event=on_event)
        _end_hosts(fetched, console)
        return
    folder = find_campaign(root, names[0], suite) if names else last_unfinished(root, suite)
    with show_progress() as on_event:
        result = resume_campaign(folder, on_event=on_event)
    _end(result, console)


def _end(result: CampaignResult, console: Console) -> None:
    console.print(
        f"{escape(result.counts())} in {duration(result.elapsed_seconds)}; "
        f"{_loss(Loss(discarded_events=result.discarded_events))}",
        highlight=False,
        soft_wrap=True,
    )
    runs = [*result.complete, *result.failed]
    for line in (_noted(runs), _sampling(runs), _disturbed(runs)):
        if line:
            console.print(line, highlight=False, soft_wrap=True)
    say(result.folder)
    if result.exit_code == EXIT_INTERRUPTED:
        raise InterruptedRunError(
            f"interrupted; what was recorded is in {result.folder}; "
            "'roslens record --resume' goes on"
        )
    if result.exit_code != EXIT_OK:
        raise RunFailedError(result.summary())


def show_status(
    root: Path | None, suite: str | None, names: Sequence[str], console: Console
) -> None:
    """Print how far campaigns are: all, or each run of those named."""
    root = root or RECORDINGS
    folders = [find_campaign(root, x, suite) for x in names] or find_campaigns(root, suite)
    if not folders:
        console.print(f"no campaign below {root}", highlight=False, markup=False)
        return
    states = [campaign_state(folder) for folder in folders]
    columns = ["suite", "campaign", "status", "runs", "complete", "failed", "torn", "left", "about"]
    rows = []
    for state in states:
        left = [x for x in state.runs if x.wanted]
        rows.append(
            [
                state.plan.suite.name,
                state.folder.name,
                state.status,
                str(len(state.runs)),
                str(sum(x.complete for x in state.runs)),
                str(sum(bool(x.attempts) and not x.complete for x in state.runs)),
                str(sum(x.torn is not None for x in state.runs)),
                str(len(left)),
                duration(planned_seconds(state.plan.suite, len(left))) if left else "",
            ]
        )
    show_table(ReportTable(columns, rows, "", left=frozenset(columns[:3])))
    for state in states if names else ():
        show_table(_runs_table(state))


def _runs_table(state: CampaignState) -> ReportTable:
    factors = list(state.plan.suite.factors)
    rows = []
    for run in state.runs:
        parts = [x.failure or "failed" for x in run.attempts if x.status == "failed"]
        what = "complete" if run.complete else "torn" if run.torn else "left" if run.wanted else ""
        levels = (str(run.planned.factors[name]) for name in factors)
        told = "; ".join(filter(None, [*(f"failed: {x}" for x in parts), what]))
        rows.append([str(run.planned.order), str(run.planned.repetition), *levels, told])
    columns = ["order", "repetition", *factors, "status"]
    return ReportTable(columns, rows, "", left=frozenset(columns[2:]))


def show_plan(
    suite_name: str,
    *,
    seed: int | None,
    changes: Mapping[str, object],
    only: Sequence[str],
    console: Console,
) -> None:
    """Print what a suite would do, and how long it would take."""
    suite, _ = load_suite(suite_name)
    suite = with_changes(suite, changes)
    seed = choose_seed(suite) if seed is None else seed
    runs = plan_runs(suite, seed, chosen_levels(suite, only))
    columns = ["order", "repetition", *suite.factors]
    rows = [
        [str(run.order), str(run.repetition), *(str(run.factors[x]) for x in suite.factors)]
        for run in runs
    ]
    show_table(ReportTable(columns, rows, "", left=frozenset(columns[2:])))
    seconds = duration(planned_seconds(suite, len(runs)))
    console.print(f"{len(runs)} run{'s' * (len(runs) != 1)}, about {seconds}; seed {seed}")


def _sampling(runs: Sequence[Manifest]) -> str:
    """What the samplers themselves cost, on average over runs."""
    kinds: dict[str, list[Sampler]] = {}
    for run in runs:
        own = {"processes": run.sampler} if run.sampler else {}
        for name, facts in {**own, **run.samplers}.items():
            kinds.setdefault(name, []).append(facts)
    parts = []
    for name, found in kinds.items():
        cost = sum(x.cpu_fraction for x in found) / len(found)
        late = sum(x.overruns for x in found)
        missed = f", {late} rounds left out" if late else ""
        parts.append(f"{name} at {found[0].hz:g} Hz {cost:.2%} of a CPU{missed}")
    return f"sampling itself took: {'; '.join(parts)}" if parts else ""


def _triggered(manifest: Manifest) -> str:
    """Which triggers hit, and how often."""
    found = Counter(hit.trigger for hit in manifest.triggered)
    parts = (f"{name} ({count} times)" if count > 1 else name for name, count in found.items())
    return f"triggered: {escape('; '.join(parts))}" if found else ""


def _disturbed(runs: Sequence[Manifest]) -> str:
    """How many runs were disturbed by their host, and how the first one was."""
    return _such_as(runs, "the host was disturbed in {}", lambda run: run.disturbances)


def _noted(runs: Sequence[Manifest]) -> str:
    """How many runs have traces of which something is to be known, and what of the first."""
    return _such_as(runs, "the traces of {} have a note", lambda run: run.tracing.notes)


def _such_as(runs: Sequence[Manifest], what: str, told: Callable[[Manifest], Sequence[str]]) -> str:
    """Of how many runs something is told, and what of the first; nothing of none."""
    found = [run for run in runs if told(run)]
    if not found:
        return ""
    first = f"{escape(found[0].run)}: {escape('; '.join(told(found[0])))}"
    count = f"{len(found)} of {len(runs)} runs"
    return f"[yellow]{what.format(count)}[/] (such as {first})"


def _loss(loss: Loss) -> str:
    if loss.discarded_events is None:
        return "[yellow]what the tracer discarded is not known[/]"
    if loss.discarded_events or loss.lost_packets:
        return (
            f"[bold red]the tracer discarded {loss.discarded_events:,} events"
            f" and lost {loss.lost_packets or 0:,} packets[/]"
        )
    return "the tracer discarded nothing"
