"""Run the ``collect`` verb: collect many recordings, in sequence or by workers, with progress."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rich.markup import escape
from rich.progress import DownloadColumn, MofNCompleteColumn

from roslens.collectors.collected import Collected
from roslens.collectors.collection import collect
from roslens.collectors.decoding import ClockOffsets, Done
from roslens.collectors.decoding import Progress as Say
from roslens.collectors.limits import Limits
from roslens.collectors.resolving import find_runs, resolved_in_words, why_not_read
from roslens.fleet.cluster import Workers, attempt, each
from roslens.progress import progress_bar
from roslens.recording import Recording, RoslensError, UsageError
from roslens.recording.terminal import Console
from roslens.tracing.opening import opened

if TYPE_CHECKING:
    from roslens.collectors.excerpt import Excerpt


@dataclass(frozen=True)
class Options:
    """Options of collecting recordings; see `roslens.collectors.collection.collect`."""

    threads: int = 0
    events_only: bool = False
    force: bool = False
    verify: bool = False
    limits: Limits | None = None
    clock_offsets: ClockOffsets | None = None
    excerpt: Excerpt | None = None


def collect_all(
    paths: Sequence[Path],
    *,
    output: Path | None,
    options: Options,
    workers: Workers,
    console: Console,
    merge: bool = False,
) -> list[Collected]:
    """Collect all recordings at or below `paths`, printing a line for each.

    Parameters
    ----------
    output
        The folder for events and tables, instead of the trace's own: this folder for one
        recording, ``output/<name>`` for several.
    workers
        The processes that collect.
    merge
        Merge all recordings into one, with one time line; needs `output`.

    Raises
    ------
    RoslensError
        A recording cannot be collected. The others are collected all the same, and each failure
        is printed on a line of its own.
    """
    if merge:
        recordings, options = _merged(paths, output, options)
    else:
        recordings = [recording for path in paths for recording in _runs_in(opened(path), console)]
        if output is not None:
            recordings = _with_output(recordings, output)
    together = workers.wanted(len(recordings))
    results = _by_workers if together else _in_turn
    done: list[Collected] = []
    errors: list[RoslensError] = []
    for recording, result in results(recordings, options, workers, console):
        if isinstance(result, RoslensError):
            errors.append(result)
            if len(recordings) > 1:
                line = escape(why_not_read(recording, result))
                console.print(f"[red]failed:[/] {line}", soft_wrap=True)
        else:
            done.append(result)
            console.print(_line(result), soft_wrap=True, highlight=False)
            for offset in result.clock_offsets:
                console.print(f"  {escape(offset)}", soft_wrap=True, highlight=False)
            for warning in result.warnings:
                console.print(f"  [yellow]warning:[/] {escape(warning)}", soft_wrap=True)
    if errors:
        more = f" (and {len(errors) - 1} more of {len(recordings)})" if len(errors) > 1 else ""
        raise type(errors[0])(f"{errors[0]}{more}")
    return done


def _runs_in(place: Path, console: Console) -> list[Recording]:
    runs = find_runs(place)
    if len(runs) > 1:
        console.print(escape(resolved_in_words(place, runs)), soft_wrap=True, highlight=False)
    return runs


_Results: TypeAlias = Iterator[tuple[Recording, Collected | RoslensError]]


def _in_turn(
    recordings: Sequence[Recording], options: Options, _: Workers, console: Console
) -> _Results:
    with progress_bar(DownloadColumn(), console) as progress:
        task = progress.add_task("collecting", total=None)
        for number, recording in enumerate(recordings, 1):
            place = f"{number}/{len(recordings)} {escape(recording.name)}"

            def step(stage: str, place: str = place) -> None:
                progress.update(task, description=f"{place}: {stage}")

            def read(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)

            def work(recording: Recording, *, step: Say = step, read: Done = read) -> Collected:
                return collect(recording, **vars(options), progress=step, done=read)

            # An unforeseen error of a single recording is a defect: show its whole traceback.
            is_single = len(recordings) == 1
            yield recording, work(recording) if is_single else attempt(work, recording)
            progress.reset(task, total=None)


def _by_workers(
    recordings: Sequence[Recording], options: Options, workers: Workers, console: Console
) -> _Results:
    # There are as many workers as cores, so each decodes with one thread by default.
    function = partial(collect, **vars(replace(options, threads=options.threads or 1)))
    # The workers of an external cluster run in other working directories.
    away = workers.scheduler is not None
    sent = [recording.absolute() for recording in recordings] if away else recordings
    with progress_bar(MofNCompleteColumn(), console) as progress:
        task = progress.add_task("collecting", total=len(recordings))
        for number, result in each(function, sent, workers, [recording.path for recording in sent]):
            progress.update(task, advance=1, description=escape(recordings[number].name))
            recording = recordings[number]
            yield (
                recording,
                replace(result, recording=recording) if isinstance(result, Collected) else result,
            )


def _merged(
    paths: Sequence[Path], output: Path | None, options: Options
) -> tuple[list[Recording], Options]:
    if output is None:
        raise UsageError("--merge needs a folder for what is merged: give -o DIR")
    if options.excerpt is not None:
        raise UsageError("--merge makes one of whole recordings, not of parts of them")
    from roslens.merge import merge  # noqa: PLC0415  (few need it)

    recording, _ = merge(paths, output, clock_offsets=options.clock_offsets)
    return [recording], replace(options, clock_offsets=None)


def _with_output(recordings: Sequence[Recording], output: Path) -> list[Recording]:
    excerpts = [recording.path for recording in recordings if recording.is_excerpt]
    if excerpts:
        raise UsageError(f"{excerpts[0]}: only tables; give the recording that it was made of")
    if len(recordings) == 1:
        return [Recording.at(recordings[0].path, output)]
    names = [recording.name for recording in recordings]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(f"two recordings are named '{twice}'; collect them into separate folders")
    return [Recording.at(recording.path, output / recording.name) for recording in recordings]


def parse_offsets(texts: Sequence[str]) -> ClockOffsets:
    """Parse clock offsets such as ``h1=-2500`` into nanoseconds by host; ``auto`` stands alone.

    Raises
    ------
    UsageError
        A text is not of that form, or a host is given twice.
    """
    if list(texts) == ["auto"]:
        return "auto"
    offsets: dict[str, int] = {}
    for text in texts:
        host, _, number = text.rpartition("=")
        try:
            value = int(number)
        except ValueError:
            host = ""
        if not host or abs(value) >= 2**63:
            raise UsageError(
                f"--clock-offset: '{text}' is not HOST=NANOSECONDS, such as h1=-2500, or auto"
            )
        if host in offsets:
            raise UsageError(f"--clock-offset: host '{host}' is given twice")
        offsets[host] = value
    return offsets


def _line(collected: Collected) -> str:
    # For an excerpt, more events are read than it contains.
    events = f"{collected.events:,} events{' read' if collected.excerpt else ''}"
    if collected.discarded_events:
        lost = f"[bold red]{collected.discarded_events:,} discarded by the tracer[/]"
    elif collected.rows.get("losses"):
        lost = "[bold red]some are missing[/]"
    else:
        # Without tables, only warnings can reveal that something is missing.
        unsure = collected.warnings and not collected.rows
        lost = "see the warnings" if unsure else "none discarded"
    messages = f", {collected.rows['messages']:,} messages" if "messages" in collected.rows else ""
    fresh = "" if collected.rebuilt else " (up to date)"
    excerpt = f" (excerpt: {escape(collected.excerpt)})" if collected.excerpt else ""
    return f"{escape(str(collected.recording.output))}{excerpt}: {events}, {lost}{messages}{fresh}"
