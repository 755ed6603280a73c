"""Runs as other tools' files tell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from roslens.analysis.runs import GivenFactors, Run, unique_names
from roslens.collectors.results.formats import Format, read_results
from roslens.collectors.results.tool_result import ToolResult
from roslens.recording import UsageError


@dataclass(frozen=True)
class ToolRun:
    """One run of another tool.

    Attributes
    ----------
    run
        Its name and cell.
    result
        What the tool wrote.
    """

    run: Run
    result: ToolResult


@dataclass(frozen=True)
class ToolFiles:
    """What the given files say.

    Attributes
    ----------
    runs
        Those that count.
    refused
        Files that are of a known format and cannot be read: name, and why.
    copies
        Files that say what another one says: name, and that of the other. They are no runs.
    alone
        Whether each file is a cell of its own, for nobody said which are runs of one cell.
    """

    runs: Sequence[ToolRun]
    refused: Sequence[tuple[str, str]] = ()
    copies: Sequence[tuple[str, str]] = ()
    alone: bool = False


def read_files(
    places: Sequence[tuple[Path, Format]], given: Sequence[GivenFactors] | None = None
) -> ToolFiles:
    """Read result files as runs.

    Runs of different tools never share a cell: with several, ``tool`` becomes a factor. Nor do
    several files, unless `given` says so: ``file`` becomes one.

    Parameters
    ----------
    places
        As of `roslens.collectors.results.formats.find_results`.
    given
        What is told of each place.

    Raises
    ------
    UsageError
        None can be read.
    """
    alone = given is None and len(places) > 1
    given_factors = [GivenFactors()] * len(places) if given is None else given
    runs: list[ToolRun] = []
    refused: list[tuple[str, str]] = []
    copies: list[tuple[str, str]] = []
    seen: dict[object, str] = {}
    identities: dict[tuple[str, str], str] = {}
    names = unique_names([place for place, _ in places])
    for (place, file_format), name, more in zip(places, names, given_factors, strict=True):
        try:
            results = read_results(place, file_format)
        except UsageError as error:
            refused.append((name, str(error)))
            continue
        contents = tuple(map(_said, results))
        if contents in seen:
            copies.append((name, seen[contents]))
            continue
        seen[contents] = name
        # A log, its JSON and a database may tell of one run.
        first = [identities.setdefault((r.tool, r.identity), name) for r in results if r.identity]
        copies += [(name, original) for original in dict.fromkeys(first) if original != name]
        results = [r for r in results if identities.get((r.tool, r.identity), name) == name]
        cell = {"file": name} if alone else dict(more.factors)
        for number, result in enumerate(results, 1):
            run_name = name if len(results) == 1 else f"{name}, run {number}"
            runs.append(ToolRun(Run(run_name, {**cell, **result.factors}), result))
    if not runs:
        raise UsageError(refused[0][1])
    if len({tool_run.result.tool for tool_run in runs}) > 1:
        runs = [
            replace(
                tool_run,
                run=replace(tool_run.run, cell={"tool": tool_run.result.tool, **tool_run.run.cell}),
            )
            for tool_run in runs
        ]
    return ToolFiles(runs, refused, copies, alone)


def _said(result: ToolResult) -> tuple[object, ...]:
    frames = (result.summary, result.series, result.samples)
    return (result.tool, *(frame.write_csv() for frame in frames))
