"""Check the parameters of notebooks: papermill passes on whatever was typed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, ValidationError

from roslens.analysis.runs import LeaveOut
from roslens.recording import UsageError
from roslens.recording.models import Strict
from roslens.recording.text import first_problem


def _as_list(value: object) -> object:
    if value is None or value == "":
        return []
    return [value] if isinstance(value, (str, Path)) else value


Texts = Annotated[list[str], BeforeValidator(_as_list)]
"""One text or several."""

OptionalText = Annotated[str | None, BeforeValidator(lambda text: None if text == "" else text)]
"""A text; an empty one becomes None."""


class ReportParameters(Strict):
    """The parameters of every notebook over recordings; a notebook's own class adds to them.

    Attributes
    ----------
    recordings
        A recording, a folder of recordings, or several of these.
    factors
        A CSV file with the factors of recordings without a manifest; None: unknown.
    level
        Nominal coverage of the intervals.
    warm_up_s
        Seconds at the start of each run whose publications and resource samples are left out.
    include_failed
        Whether runs that failed enter the estimates.
    leave_out
        ``lossy``: runs in which the tracer dropped events enter no estimate either; ``disturbed``:
        nor do runs whose host was disturbed.
    output_dir
        Folder for metrics.json and further files; None: they are not written.
    """

    recordings: Annotated[Texts, Field(min_length=1)]
    factors: OptionalText = None
    level: float = Field(0.95, gt=0, lt=1)
    warm_up_s: float = Field(0.0, ge=0, allow_inf_nan=False)
    include_failed: bool = False
    leave_out: Annotated[list[LeaveOut], BeforeValidator(_as_list)] = Field([])
    output_dir: OptionalText = None

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> Self:
        """Validate parameters by name.

        Raises
        ------
        UsageError
            A parameter is wrong: the message names the first one, its value, and what is expected.
        """
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            name, problem = first_problem(error)
            given_value = error.errors()[0]["input"]
            raise UsageError(f"parameter {name} = {given_value!r}: {problem}") from error
