"""``MicroRosReport`` from the parameters of its notebook."""

from __future__ import annotations

from pathlib import Path

from roslens.analysis.micro_ros.parameters import MicroRosParameters
from roslens.analysis.micro_ros.report import MicroRosReport
from roslens.analysis.runs import why_left_out
from roslens.collectors.results.micro_ros import read_all
from roslens.collectors.results.micro_ros_published import read_published
from roslens.recordings import open_recordings, resolve
from roslens.tracing.recording import UsageError

PUBLISHED = Path("data/published/micro_ros")


def micro_ros_report(parameters: MicroRosParameters) -> MicroRosReport:
    """Open recordings and results, read the published figures beside them.

    Raises
    ------
    UsageError
        A folder does not exist or holds no recording.
    """
    published = read_published(resolve(PUBLISHED))
    if parameters.is_published:
        return MicroRosReport(None, None, published, parameters)
    opened = None
    folders = list(zip(_names(parameters.results), map(resolve, parameters.results), strict=True))
    if parameters.recordings:
        opened = open_recordings(parameters.recordings, factors=parameters.factors)
        folders += [
            (run.name, recording.native)
            for run, recording in zip(opened.runs, opened.recordings, strict=True)
            if recording.native.is_dir()
            and why_left_out(
                run, include_failed=parameters.include_failed, leave_out=parameters.leave_out
            )
            is None
        ]
    return MicroRosReport(opened, read_all(folders), published, parameters)


def _names(folders: list[str]) -> list[str]:
    """The last part of each path, or as many as it takes to tell them apart."""
    parts = [Path(folder).resolve().parts for folder in folders]
    longest = max(map(len, parts), default=1)
    for depth in range(1, longest + 1):
        names = ["/".join(p[-depth:]) for p in parts]
        if len(set(names)) == len(names):
            return names
    raise UsageError("parameter results: a folder is given twice")
