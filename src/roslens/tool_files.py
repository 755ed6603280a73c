"""Result files of other benchmark tools, opened as runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roslens.analysis.tool.runs import ToolFiles, read_files
from roslens.collectors.results.formats import Format, find_results, read_results
from roslens.collectors.results.tool_result import ToolResult
from roslens.factors import Factors
from roslens.paths import PathLike, resolve
from roslens.recording import UsageError


def read_result(path: PathLike) -> list[ToolResult]:
    """Read a result file of another benchmark tool, or the folder of one.

    Returns
    -------
    list of ToolResult
        One per run that it tells of: frames ``summary``, ``series`` and ``samples``, and in
        ``notes`` what was corrected, left out or cannot be had.

    Raises
    ------
    UsageError
        It does not exist, is of no known format, of several results, or cannot be read.
    """
    place = resolve(path)
    found = find_results(place)
    if len(found) > 1:
        raise UsageError(f"{place}: holds {len(found)} results; give one of them")
    ((file, known),) = found
    return list(read_results(file, known))


def open_tool_files(paths: Sequence[PathLike], factors: PathLike | None = None) -> ToolFiles:
    """Read result files of other tools.

    Parameters
    ----------
    paths
        Files, folders of one result, or folders that hold several.
    factors
        A CSV file that tells the factors of each, by path or name (see `roslens.factors`); none:
        each file is a cell.

    Raises
    ------
    UsageError
        A path does not exist or is of no known format, none can be read, or the factors do not
        fit.
    """
    given = [resolve(path) for path in paths]
    found: dict[Path, tuple[Path, Format]] = {}
    for path in given:
        for place, known in find_results(path):
            found.setdefault(place.resolve(), (place, known))
    places = list(found.values())
    told = Factors.read(resolve(factors)) if factors else None
    return read_files(
        places, None if told is None else [told.of_file(place, given) for place, _ in places]
    )
