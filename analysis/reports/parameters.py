"""The parameters of notebooks, checked: papermill hands over whatever was typed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from roslens.analysis.runs import LeaveOut
from roslens.recording import UsageError
from roslens.recording.text import first_problem


def _as_list(value: object) -> object:
    if value is None or value == "":
        return []
    return [value] if isinstance(value, (str, Path)) else value


def _none_if_empty(value: object) -> object:
    return None if value == "" else value


Texts = Annotated[list[str], BeforeValidator(_as_list)]
"""One text or several."""

OptionalText = Annotated[str | None, BeforeValidator(_none_if_empty)]
"""A text; an empty one is none."""


class ReportParameters(BaseModel):
    """The parameters that every notebook over recordings has; a notebook's own class adds its own.

    Attributes
    ----------
    recordings
        A recording or a folder that holds some, or several of these.
    factors
        A CSV file that tells the factors of recordings without a manifest; none: unknown.
    level
        Nominal coverage of the intervals.
    warm_up_s
        Publications and resource samples in the first so many seconds of each run are left out.
    include_failed
        Whether runs that failed enter the estimates.
    leave_out
        ``lossy``: also runs in which the tracer dropped events enter no estimate; ``disturbed``:
        nor those whose host was disturbed.
    output_dir
        Where metrics.json and further files go; none: they are not written.
    """

    model_config = ConfigDict(extra="forbid")

    recordings: Annotated[Texts, Field(min_length=1)]
    factors: OptionalText = None
    level: float = Field(0.95, gt=0, lt=1)
    warm_up_s: float = Field(0.0, ge=0, allow_inf_nan=False)
    include_failed: bool = False
    leave_out: Annotated[list[LeaveOut], BeforeValidator(_as_list)] = []
    output_dir: OptionalText = None

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> Self:
        """Validate parameters by name.

        Raises
        ------
        UsageError
            Naming the first wrong parameter, its value, and what is expected.
        """
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            name, problem = first_problem(error)
            given_value = error.errors()[0]["input"]
            raise UsageError(f"parameter {name} = {given_value!r}: {problem}") from error
