"""What ``record`` says of what was recorded: as text, or as one line of JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
"""Beside the recordings of several hosts: all of them as one."""


class Told:
    """Where ``record`` says what it recorded.

    Parameters
    ----------
    as_json
        The last line of the standard output is JSON; what is for people goes to standard error.
        Without it, the last line is the folder.
    console
        Where text goes instead.
    """

    def __init__(self, *, as_json: bool = False, console: Console | None = None) -> None:
        self.as_json = as_json
        self.console = console or Console(stderr=as_json)

    def json(self, value: object) -> None:
        """One line, as the program that was recorded may have printed lines before it."""
        say(json.dumps(value), exact=True)

    def _end(self, folder: Path, runs: Mapping[str, Manifest], **more: object) -> None:
        if self.as_json:
            rows = [_of_run(name, run) for name, run in runs.items()]
            self.json({"folder": str(folder), **more, "runs": rows})
        else:
            say(folder)

    def _lines(self, *lines: str) -> None:
        for line in filter(None, lines):
            self.console.print(line, highlight=False, soft_wrap=True)

    def of_one(self, folder: Path, manifest: Manifest, warnings: Iterable[str]) -> None:
        """Print what one recording is worth, its folder last; raise if it is not complete.

        Raises
        ------
        RunFailedError, InterruptedRunError
            It is not complete; it was asked to end.
        """
        for warning in warnings:
            self.console.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)
        runs = [manifest]
        self._lines(_loss(manifest.loss), _sampling(runs), _disturbed(runs), _triggered(manifest))
        self._end(folder, {folder.name: manifest})
        code = exit_code(manifest)
        if code == EXIT_INTERRUPTED:
            raise InterruptedRunError(f"interrupted; what was recorded is in {folder}")
        if code != EXIT_OK:
            raise RunFailedError(f"{manifest.failure}; what was recorded is in {folder}")

    def of_campaign(self, result: CampaignResult) -> None:
        """Print what the runs of a suite are worth, their folder last; raise as `of_one`.

        Raises
        ------
        RunFailedError, InterruptedRunError
            Some are not complete; it was asked to end.
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

    def of_hosts(self, result: HostsResult) -> None:
        """Print what several hosts' recordings are worth, and merge them; raise as `of_one`.

        Raises
        ------
        RunFailedError, InterruptedRunError
            Something is missing or not complete; it was asked to end.
        """
        for name, manifest in result.recordings.items():
            notes = (*manifest.tracing.notes, *manifest.warnings)
            parts = [manifest.status, manifest.failure, *notes, _loss(manifest.loss)]
            self._lines(f"{escape(name)}: {'; '.join(filter(None, parts))}")
        from roslens.merge import merge, show_merged  # noqa: PLC0415  (a recorder reads no tables)

        # The clock of this host, where it has a recording, is that of all.
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


def _of_run(name: str, run: Manifest) -> dict[str, object]:
    """As JSON."""
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
    """What the samplers themselves cost, on average over runs."""
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
    """Which triggers hit, and how often."""
    counts = Counter(hit.trigger for hit in manifest.triggered)
    parts = (f"{name} ({count} times)" if count > 1 else name for name, count in counts.items())
    return f"triggered: {escape('; '.join(parts))}" if counts else ""


def _disturbed(runs: Sequence[Manifest]) -> str:
    """How many runs were disturbed by their host, and how the first one was."""
    return _such_as(runs, "the host was disturbed in {}", lambda run: run.disturbances)


def _noted(runs: Sequence[Manifest]) -> str:
    """How many runs have traces of which something is to be known, and what of the first."""
    return _such_as(runs, "the traces of {} have a note", lambda run: run.tracing.notes)


def _such_as(
    runs: Sequence[Manifest], sentence: str, remarks_of: Callable[[Manifest], Sequence[str]]
) -> str:
    """Of how many runs something is told, and what of the first; nothing of none."""
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
