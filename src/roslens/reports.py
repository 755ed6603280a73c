"""Make reports that do not need ROS 2 recordings: ``rl.reports.storage(...)`` and others.

Each function takes the parameters of its notebook (``roslens report NAME --list-parameters``)
and returns its report: ``sentences``, and a method for each section. Result files of other
benchmark tools are opened as runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roslens.analysis.calibration.report import CalibrationParameters, CalibrationReport
from roslens.analysis.reports.parameters import ReportParameters
from roslens.analysis.runs import unique_names, why_left_out
from roslens.analysis.tool.report import ToolParameters, ToolReport
from roslens.analysis.tool.runs import ToolFiles, read_files
from roslens.collectors.results.formats import Format, find_results, read_results
from roslens.collectors.results.tool_result import ToolResult
from roslens.factors import Factors
from roslens.paths import PathLike, resolve
from roslens.recording import UsageError
from roslens.recordings import Recordings, open_recordings
from roslens.studies.micro_ros.report import MicroRosParameters, MicroRosReport
from roslens.studies.micro_ros.results.folder import read_all
from roslens.studies.micro_ros.results.published import read_published
from roslens.studies.storage.report import StorageParameters, StorageReport
from roslens.studies.storage.results.comparison import read_digests


def read_result(path: PathLike) -> list[ToolResult]:
    """Read a result file of another benchmark tool, or the folder of one.

    Returns
    -------
    list of ToolResult
        One per run in the file: frames ``summary``, ``series`` and ``samples``, and ``notes`` on
        what was corrected, left out or unavailable.

    Raises
    ------
    UsageError
        The path does not exist, has no known format, holds several results, or cannot be read.
    """
    place = resolve(path)
    results = find_results(place)
    if len(results) > 1:
        raise UsageError(f"{place}: holds {len(results)} results; give one of them")
    ((file, kind),) = results
    return list(read_results(file, kind))


def open_tool_files(paths: Sequence[PathLike], factors: PathLike | None = None) -> ToolFiles:
    """Read result files of other tools.

    Parameters
    ----------
    paths
        Files, folders of one result, or folders that hold several.
    factors
        A CSV file with the factors of each result, by path or name (see `roslens.factors`); None:
        each file is a cell.

    Raises
    ------
    UsageError
        A path does not exist or has no known format, no file can be read, or the factors do not
        fit.
    """
    given = [resolve(path) for path in paths]
    results: dict[Path, tuple[Path, Format]] = {}
    for path in given:
        for place, kind in find_results(path):
            results.setdefault(place.resolve(), (place, kind))
    places = list(results.values())
    given_factors = Factors.read(resolve(factors)) if factors else None
    return read_files(
        places,
        None
        if given_factors is None
        else [given_factors.of_file(place, given) for place, _ in places],
    )


__all__ = ["calibration", "micro_ros", "storage", "tool"]


def calibration(**parameters: object) -> CalibrationReport:
    """Check whether intervals have their claimed coverage (0..1), by simulation or from recordings.

    Raises
    ------
    UsageError
        There is no such parameter, its value is invalid, or a file cannot be read.
    """
    asked = CalibrationParameters.checked(parameters)
    stored = asked.model_copy(update={"results": str(resolve(asked.results))})
    return CalibrationReport(_opened(asked), stored)


def storage(**parameters: object) -> StorageReport:
    """Report how fast a bag recorder's storage writes (MB/s, ms): recorded, else published data.

    Raises
    ------
    UsageError
        As `calibration`, or no recording is of the suite storage.
    """
    asked = StorageParameters.checked(parameters)
    published = read_digests(resolve(asked.digests or "studies/storage/data"))
    return StorageReport(_opened(asked), published, asked)


def tool(**parameters: object) -> ToolReport:
    """Report the content of other benchmark tools' result files, in their own units.

    Raises
    ------
    UsageError
        As `calibration`, or a file has no known format.
    """
    asked = ToolParameters.checked(parameters)
    return ToolReport(open_tool_files(asked.files, asked.factors), asked)


def micro_ros(**parameters: object) -> MicroRosReport:
    """Report memory (bytes), throughput (bit/s) and latency (ms) on a constrained device.

    Raises
    ------
    UsageError
        As `calibration`, or a folder is given twice.
    """
    asked = MicroRosParameters.checked(parameters)
    published = read_published(resolve("studies/micro_ros/data"))
    if asked.is_published:
        return MicroRosReport(None, None, published, asked)
    opened = _opened(asked)
    names = unique_names([Path(folder) for folder in asked.results])
    if len(set(names)) < len(names):
        raise UsageError("parameter results: a folder is given twice")
    folders = list(zip(names, map(resolve, asked.results), strict=True))
    if opened is not None:
        folders += [
            (run.name, recording.native)
            for run, recording in zip(opened.runs, opened.recordings, strict=True)
            if recording.native.is_dir()
            and why_left_out(run, include_failed=asked.include_failed, leave_out=asked.leave_out)
            is None
        ]
    return MicroRosReport(opened, read_all(folders), published, asked)


def _opened(asked: ReportParameters) -> Recordings | None:
    return open_recordings(asked.recordings, factors=asked.factors) if asked.recordings else None
