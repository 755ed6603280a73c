"""Print the results of ``record``, as text or as one line of JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from rich.markup import escape

from roslens.recording import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    InterruptedRunError,
    RoslensError,
    RunFailedError,
)
from roslens.recording.manifest import Loss, Manifest, Sampler
from roslens.recording.terminal import Console, say
from roslens.tracing.campaign import CampaignResult
from roslens.tracing.command import exit_code
from roslens.tracing.progress import duration
from roslens.tracing.remote.campaign import HERE, HostsResult

MERGED = "merged"
"""The folder, beside the recordings of several hosts, of all of them merged."""


class ResultPrinter:
    """Printer of the results of ``record``.

    Parameters
    ----------
    as_json
        Whether the last line of standard output is JSON, and text goes to standard error.
        Otherwise the last line is the folder.
    console
        The console for text, instead of the default.
    """

    def __init__(self, *, as_json: bool = False, console: Console | None = None) -> None:
        self.as_json = as_json
        self.console = console or Console(stderr=as_json)

    def json(self, value: object) -> None:
        """Print one line of JSON, after any lines that the recorded program printed."""
        say(json.dumps(value), exact=True)

    def _end(self, folder: Path, runs: Mapping[str, Manifest], **more: object) -> None:
        if self.as_json:
            rows = [_run_as_json(name, run) for name, run in runs.items()]
            self.json({"folder": str(folder), **more, "runs": rows})
        else:
            say(folder)

    def _lines(self, *lines: str) -> None:
        for line in filter(None, lines):
            self.console.print(line, highlight=False, soft_wrap=True)

    def print_recording(self, folder: Path, manifest: Manifest) -> None:
        """Print a recording's quality, with its folder last; raise if it is not complete.

        Raises
        ------
        RunFailedError, InterruptedRunError
            The recording is not complete; the user asked to end it.
        """
        for warning in (*manifest.tracing.notes, *manifest.warnings):
            self.console.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)
        runs = [manifest]
        self._lines(_loss(manifest.loss), _sampling(runs), _disturbed(runs), _triggered(manifest))
        self._end(folder, {folder.name: manifest})
        code = exit_code(manifest)
        if code == EXIT_INTERRUPTED:
            raise InterruptedRunError(f"interrupted; what was recorded is in {folder}")
        if code != EXIT_OK:
            raise RunFailedError(f"{manifest.failure}; what was recorded is in {folder}")

    def print_campaign(self, result: CampaignResult) -> None:
        """Print the quality of a suite's runs, with their folder last; raise as for one.

        Raises
        ------
        RunFailedError, InterruptedRunError
            Some runs are not complete; the user asked to end the suite.
        """
        runs = [*result.complete, *result.failed]
        self._lines(
            f"{escape(result.counts())} in {duration(result.elapsed_seconds)}; "
            f"{_loss(Loss(discarded_events=result.discarded_events))}",
            _noted(runs),
            _sampling(runs),
            _disturbed(runs),
        )
        self._end(result.folder, {run.run: run for run in runs}, not_run=result.not_run)
        if result.exit_code == EXIT_INTERRUPTED:
            raise InterruptedRunError(
                f"interrupted; what was recorded is in {result.folder}; "
                "'roslens record --resume' goes on"
            )
        if result.exit_code != EXIT_OK:
            raise RunFailedError(result.summary())

    def print_hosts(self, result: HostsResult) -> None:
        """Print the quality of several hosts' recordings, and merge them; raise as for one.

        Raises
        ------
        RunFailedError, InterruptedRunError
            A recording is missing or not complete; the user asked to end it.
        """
        for name, manifest in result.recordings.items():
            notes = (*manifest.tracing.notes, *manifest.warnings)
            parts = [manifest.status, manifest.failure, *notes, _loss(manifest.loss)]
            self._lines(f"{escape(name)}: {'; '.join(filter(None, parts))}")
        from roslens.merge import merge, show_merged  # noqa: PLC0415  (a recorder reads no tables)

        # If this host has a recording, its clock becomes that of the result.
        names = sorted(result.recordings, key=lambda name: name != HERE)
        where = result.folder
        if len(names) > 1:
            try:
                recording, clocks = merge(
                    [result.folder / name for name in names], result.folder / MERGED
                )
            except RoslensError as error:
                self.console.print(f"[yellow]not merged:[/] {escape(str(error))}", soft_wrap=True)
            else:
                where = recording.path
                show_merged(recording, clocks, self.console)
        self._end(where, result.recordings)
        later = f"; 'roslens record --resume {result.folder}' fetches the rest"
        rest = f"what was recorded is in {result.folder}{later if result.unfetched else ''}"
        if result.exit_code == EXIT_INTERRUPTED:
            raise InterruptedRunError(f"interrupted; {rest}")
        if result.exit_code != EXIT_OK:
            incomplete = {
                name: manifest.failure or manifest.status
                for name, manifest in result.recordings.items()
                if manifest.status != "complete"
            }
            text = "; ".join(f"{k}: {v}" for k, v in {**incomplete, **result.troubles}.items())
            raise RunFailedError(f"{text}; {rest}")


def _run_as_json(name: str, run: Manifest) -> dict[str, object]:
    """Return a run's results as JSON."""
    return {
        "run": name,
        "status": run.status,
        "failure": run.failure,
        "discarded_events": run.loss.discarded_events,
        "lost_packets": run.loss.lost_packets,
        "disturbances": run.disturbances,
        "warnings": [*run.tracing.notes, *run.warnings],
    }


def _sampling(runs: Sequence[Manifest]) -> str:
    """Describe the average cost of the samplers over runs."""
    kinds: dict[str, list[Sampler]] = {}
    for run in runs:
        of_processes = {"processes": run.sampler} if run.sampler else {}
        for name, facts in {**of_processes, **run.samplers}.items():
            kinds.setdefault(name, []).append(facts)
    parts = []
    for name, samplers in kinds.items():
        cost = sum(sampler.cpu_fraction for sampler in samplers) / len(samplers)
        late = sum(sampler.overruns for sampler in samplers)
        missed = f", {late} rounds left out" if late else ""
        parts.append(f"{name} at {samplers[0].hz:g} Hz {cost:.2%} of a CPU{missed}")
    return f"sampling itself took: {'; '.join(parts)}" if parts else ""


def _triggered(manifest: Manifest) -> str:
    """Describe which triggers hit, and how often."""
    counts = Counter(hit.trigger for hit in manifest.triggered)
    parts = (f"{name} ({count} times)" if count > 1 else name for name, count in counts.items())
    return f"triggered: {escape('; '.join(parts))}" if counts else ""


def _disturbed(runs: Sequence[Manifest]) -> str:
    """Describe how many runs were disturbed by their host, with the first run's disturbances."""
    return _such_as(runs, "the host was disturbed in {}", lambda run: run.disturbances)


def _noted(runs: Sequence[Manifest]) -> str:
    """Describe how many runs have notes on their traces, with the first run's notes."""
    return _such_as(runs, "the traces of {} have a note", lambda run: run.tracing.notes)


def _such_as(
    runs: Sequence[Manifest], sentence: str, remarks_of: Callable[[Manifest], Sequence[str]]
) -> str:
    """Describe how many runs have remarks, with the first run's remarks; empty if none has."""
    affected = [run for run in runs if remarks_of(run)]
    if not affected:
        return ""
    first = f"{escape(affected[0].run)}: {escape('; '.join(remarks_of(affected[0])))}"
    count = f"{len(affected)} of {len(runs)} runs"
    return f"[yellow]{sentence.format(count)}[/] (such as {first})"


def _loss(loss: Loss) -> str:
    if loss.discarded_events is None:
        return "[yellow]what the tracer discarded is not known[/]"
    if loss.discarded_events or loss.lost_packets:
        return (
            f"[bold red]the tracer discarded {loss.discarded_events:,} events"
            f" and lost {loss.lost_packets or 0:,} packets[/]"
        )
    return "the tracer discarded nothing"
