"""The ``collect`` verb: many recordings, one after the other, with progress."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from collectors.collect import Collected, Engine, collect
from tracing.recording import Recording, RoslensError, UsageError, find_recordings


def collect_all(
    paths: Sequence[Path],
    *,
    output: Path | None,
    engine: Engine,
    threads: int,
    events_only: bool,
    force: bool,
    console: Console,
) -> list[Collected]:
    """Collect all recordings at or below `paths`, printing a line for each.

    Parameters
    ----------
    output
        Where to put events and tables instead of beside the trace: this folder for one
        recording, ``output/<name>`` for several.

    Raises
    ------
    UsageError
        One of them cannot be read. The others are collected all the same.
    """
    recordings = [found for path in paths for found in find_recordings(path)]
    if output is not None:
        recordings = _with_output(recordings, output)
    done: list[Collected] = []
    errors: list[RoslensError] = []
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("collecting", total=None)
        for number, recording in enumerate(recordings, 1):
            place = f"{number}/{len(recordings)} {escape(recording.name)}"

            def step(what: str, place: str = place) -> None:
                progress.update(task, description=f"{place}: {what}")

            def read(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)

            try:
                collected = collect(
                    recording,
                    engine=engine,
                    threads=threads,
                    events_only=events_only,
                    force=force,
                    progress=step,
                    done=read,
                )
            except RoslensError as error:
                errors.append(error)
            else:
                done.append(collected)
                console.print(_line(collected), soft_wrap=True, highlight=False)
                for warning in collected.warnings:
                    console.print(f"  [yellow]warning:[/] {escape(warning)}", soft_wrap=True)
            progress.reset(task, total=None)
    if errors:
        more = f" (and {len(errors) - 1} more of {len(recordings)})" if len(errors) > 1 else ""
        raise type(errors[0])(f"{errors[0]}{more}")
    return done


def _with_output(recordings: Sequence[Recording], output: Path) -> list[Recording]:
    if len(recordings) == 1:
        return [Recording.at(recordings[0].path, output)]
    names = [recording.name for recording in recordings]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"two recordings are named '{twice}'; collect them into separate folders")
    return [Recording.at(recording.path, output / recording.name) for recording in recordings]


def _line(collected: Collected) -> str:
    events = f"{collected.events:,} events"
    lost = (
        f"[bold red]{collected.discarded_events:,} discarded by the tracer[/]"
        if collected.discarded_events
        else "none discarded"
    )
    messages = f", {collected.rows['messages']:,} messages" if "messages" in collected.rows else ""
    fresh = "" if collected.rebuilt else " (up to date)"
    return f"{escape(str(collected.recording.output))}: {events}, {lost}{messages}{fresh}"
