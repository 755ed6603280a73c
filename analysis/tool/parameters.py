"""The parameters of the tool notebook, checked."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from roslens.analysis.reports.parameters import ReportParameters, Texts
from roslens.recording import UsageError


def _given(value: object) -> object:
    if not value:
        raise UsageError("no result file given; give files of a benchmark tool, or their folder")
    return value


class ToolParameters(ReportParameters):
    """Parameters of the tool notebook.

    Attributes
    ----------
    recordings
        None: files of other tools are no recordings.
    files
        Result files of benchmark tools, or folders that hold some.
    factors
        A CSV file that tells the factors of each file, by path or name; none: each is a cell.
    """

    recordings: Texts = Field(default_factory=list, max_length=0)
    files: Annotated[Texts, BeforeValidator(_given)]
