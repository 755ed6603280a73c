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
    told = [GivenFactors()] * len(places) if given is None else given
    runs: list[ToolRun] = []
    refused: list[tuple[str, str]] = []
    copies: list[tuple[str, str]] = []
    seen: dict[object, str] = {}
    identities: dict[tuple[str, str], str] = {}
    names = unique_names([place for place, _ in places])
    for (place, known), name, more in zip(places, names, told, strict=True):
        try:
            results = read_results(place, known)
        except UsageError as error:
            refused.append((name, str(error)))
            continue
        said = tuple(map(_said, results))
        if said in seen:
            copies.append((name, seen[said]))
            continue
        seen[said] = name
        # A log, its JSON and a database may tell of one run.
        first = [identities.setdefault((r.tool, r.identity), name) for r in results if r.identity]
        copies += [(name, other) for other in dict.fromkeys(first) if other != name]
        results = [r for r in results if identities.get((r.tool, r.identity), name) == name]
        cell = {"file": name} if alone else dict(more.factors)
        for number, result in enumerate(results, 1):
            own = name if len(results) == 1 else f"{name}, run {number}"
            runs.append(ToolRun(Run(own, {**cell, **result.factors}), result))
    if not runs:
        raise UsageError(refused[0][1])
    if len({one.result.tool for one in runs}) > 1:
        runs = [
            replace(one, run=replace(one.run, cell={"tool": one.result.tool, **one.run.cell}))
            for one in runs
        ]
    return ToolFiles(runs, refused, copies, alone)


def _said(result: ToolResult) -> tuple[object, ...]:
    frames = (result.summary, result.series, result.samples)
    return (result.tool, *(frame.write_csv() for frame in frames))
