"""The ``record`` and ``suites`` verbs: what they print and how they end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tracing.campaign import OVERHEAD_SECONDS, RECORDINGS, run_campaign
from tracing.command import exit_code, record_command
from tracing.lttng import TracingOptions
from tracing.plan import choose_seed, plan_runs
from tracing.progress import duration, show_progress
from tracing.recording import EXIT_INTERRUPTED, EXIT_OK, RoslensError, RunFailedError
from tracing.recording.manifest import Loss
from tracing.suite import RosChoice, Suite, list_suites, load_suite


class InterruptedRunError(RoslensError):
    """The user asked to end it (exit code 130)."""

    exit_code = EXIT_INTERRUPTED


def record_suite(
    suite_name: str,
    *,
    root: Path | None,
    name: str | None,
    seed: int | None,
    repetitions: int | None,
    console: Console,
) -> None:
    """Record a suite; prints the campaign's folder last.

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
    with show_progress() as on_event:
        result = run_campaign(
            suite,
            text,
            root=root or RECORDINGS,
            name=name,
            seed=seed,
            repetitions=repetitions,
            on_event=on_event,
        )
    console.print(
        f"{result.summary()} in {duration(result.elapsed_seconds)}; "
        f"{_loss(Loss(discarded_events=result.discarded_events))}",
        highlight=False,
        soft_wrap=True,
    )
    print(result.folder)
    if result.exit_code == EXIT_INTERRUPTED:
        raise InterruptedRunError(f"interrupted; what was recorded is in {result.folder}")
    if result.exit_code != EXIT_OK:
        raise RunFailedError(result.summary())


def record_one(
    command: Sequence[str],
    output: Path | None,
    *,
    options: TracingOptions,
    ros: RosChoice,
    trace_rclpy: bool,
    time_limit: float | None,
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
    with show_progress() as on_event:
        folder, manifest = record_command(
            command,
            output,
            options=options,
            ros=ros,
            trace_rclpy=trace_rclpy,
            time_limit=time_limit,
            on_event=on_event,
        )
    for warning in manifest.warnings:
        console.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)
    console.print(_loss(manifest.loss), soft_wrap=True, highlight=False)
    print(folder)
    code = exit_code(manifest)
    if code == EXIT_INTERRUPTED:
        raise InterruptedRunError(f"interrupted; what was recorded is in {folder}")
    if code != EXIT_OK:
        raise RunFailedError(f"{manifest.failure}; what was recorded is in {folder}")


def show_plan(suite_name: str, seed: int | None, repetitions: int | None, console: Console) -> None:
    """Print what a suite would do, and how long it would take."""
    suite, _ = load_suite(suite_name)
    if repetitions is not None:
        suite = suite.model_copy(update={"repetitions": repetitions})
    seed = choose_seed(suite) if seed is None else seed
    runs = plan_runs(suite, seed)
    table = Table("order", "repetition", *suite.factors, box=None, header_style="bold")
    for run in runs:
        levels = (str(run.factors[name]) for name in suite.factors)
        table.add_row(str(run.order), str(run.repetition), *levels)
    console.print(table)
    console.print(f"{len(runs)} runs, about {duration(_seconds(suite))}; seed {seed}")


def show_suites(console: Console) -> None:
    """Print the suites that ship with roslens."""
    for path, suite in list_suites():
        combinations = sum(1 for _ in suite.combinations())
        console.print(f"[bold]{escape(path.stem)}[/]  {escape(suite.description)}", soft_wrap=True)
        for name, levels in suite.factors.items():
            console.print(f"  {name}: {', '.join(map(str, levels))}", highlight=False)
        console.print(
            f"  {combinations} combinations x {suite.repetitions} repetitions of "
            f"{suite.duration:g} s, about {duration(_seconds(suite))}",
            highlight=False,
        )


def _seconds(suite: Suite) -> float:
    runs = sum(1 for _ in suite.combinations()) * suite.repetitions
    return runs * (suite.duration + OVERHEAD_SECONDS)


def _loss(loss: Loss) -> str:
    if loss.discarded_events is None:
        return "[yellow]what the tracer discarded is not known[/]"
    if loss.discarded_events or loss.lost_packets:
        return (
            f"[bold red]the tracer discarded {loss.discarded_events:,} events"
            f" and lost {loss.lost_packets or 0:,} packets[/]"
        )
    return "the tracer discarded nothing"
