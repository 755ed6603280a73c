"""Read other tools' result files as runs."""

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
        The run, with its name and cell.
    result
        The contents of the tool's file.
    """

    run: Run
    result: ToolResult


@dataclass(frozen=True)
class ToolFiles:
    """The runs and problems found in the given files.

    Attributes
    ----------
    runs
        The runs that count.
    refused
        Files of a known format that cannot be read: name, and reason.
    copies
        Files with the same contents as another one: name, and name of the other. They are no runs.
    alone
        Whether each file is a cell of its own, as no factors were given.
    """

    runs: Sequence[ToolRun]
    refused: Sequence[tuple[str, str]] = ()
    copies: Sequence[tuple[str, str]] = ()
    alone: bool = False


def read_files(
    places: Sequence[tuple[Path, Format]], given: Sequence[GivenFactors] | None = None
) -> ToolFiles:
    """Read result files as runs.

    Runs of different tools never share a cell: with several tools, ``tool`` becomes a factor.
    Without `given`, neither do several files: ``file`` becomes a factor.

    Parameters
    ----------
    places
        Files with their formats, from `roslens.collectors.results.formats.find_results`.
    given
        The factors given for each place.

    Raises
    ------
    UsageError
        None of the files can be read.
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
        contents = tuple(map(_figures_of, results))
        if contents in seen:
            copies.append((name, seen[contents]))
            continue
        seen[contents] = name
        # A log, its JSON and a database may describe the same run.
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


def _figures_of(result: ToolResult) -> tuple[object, ...]:
    frames = (result.summary, result.series, result.samples)
    return (result.tool, *(frame.write_csv() for frame in frames))
