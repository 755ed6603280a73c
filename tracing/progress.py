"""Show the progress of a campaign: a bar on a terminal, one line per run elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from roslens.recording import Manifest
from roslens.recording.terminal import Console
from roslens.tracing.campaign import Event, OnEvent
from roslens.tracing.plan import PlannedRun


@contextmanager
def show_progress() -> Iterator[OnEvent]:
    """Yield an `on_event` for `run_campaign` and `record_command` that prints to standard error."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda event: _print_event(console, event)
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        console=console,
        transient=True,
    )
    with bar:
        task: list[TaskID] = []

        def on_event(event: Event) -> None:
            _show(bar, task, event)

        yield on_event


def duration(seconds: float) -> str:
    """Format seconds as ``1:05`` or ``1:02:03``."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def describe(run: PlannedRun) -> str:
    """Describe a run's block and levels."""
    levels = ", ".join(f"{name} {level}" for name, level in run.factors.items())
    return f"repetition {run.repetition + 1}{levels and f', {levels}'}"


def _show(bar: Progress, task: list[TaskID], event: Event) -> None:
    if event.kind == "note":
        bar.console.print(f"note: {event.text}", markup=False, highlight=False)
        return
    if not task:
        task.append(bar.add_task("recording", total=event.total, left=""))
    left = event.total - event.done
    text = f"{left} left, about {duration(event.eta_seconds)}" if left else ""
    bar.update(task[0], completed=event.done, total=event.total, left=text)
    if event.kind == "run_begin" and event.run is not None:
        bar.update(task[0], description=f"recording {escape(describe(event.run))}")
    if event.kind == "run_end" and event.manifest is not None and event.run is not None:
        trouble = trouble_of(event.manifest)
        if trouble:
            bar.console.print(f"{event.manifest.run}: {trouble}", markup=False, highlight=False)


def _print_event(console: Console, event: Event) -> None:
    line = ""
    if event.kind == "note":
        line = f"note: {event.text}"
    elif event.kind == "begin":
        left = event.total - event.done
        line = f"recording {left} runs, about {duration(event.eta_seconds)}"
    elif event.kind == "run_end" and event.run is not None and event.manifest is not None:
        left = event.total - event.done
        line = f"run {event.done} of {event.total}: {describe(event.run)}: "
        line += trouble_of(event.manifest) or "done"
        line += f"; {left} left, about {duration(event.eta_seconds)}" if left else ""
    if line:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def trouble_of(manifest: Manifest) -> str:
    """Describe the problems that a run's manifest states; empty if there are none."""
    parts = []
    if manifest.status != "complete":
        parts.append(f"{manifest.status}: {manifest.failure}")
    if manifest.loss.discarded_events:
        parts.append(f"{manifest.loss.discarded_events} events discarded by the tracer")
    if manifest.loss.lost_packets:
        parts.append(f"{manifest.loss.lost_packets} packets overwritten by the tracer")
    disturbed = [f"disturbed: {disturbance}" for disturbance in manifest.disturbances]
    return "; ".join([*parts, *manifest.warnings, *disturbed])
