"""The parameters of a notebook, checked: papermill hands over whatever was typed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from tracing.recording import UsageError


def _as_list(value: object) -> object:
    if value is None or value == "":
        return []
    return [value] if isinstance(value, (str, Path)) else value


Texts = Annotated[list[str], BeforeValidator(_as_list)]
"""One text or several."""


class LatencyParameters(BaseModel):
    """Parameters of the latency notebook.

    Attributes
    ----------
    recordings
        A recording or a folder that holds some, or several of these.
    topics
        Topics to look at; none: the work topic of each run, else all of the application.
    level
        Nominal coverage of the intervals.
    warm_up_s
        Publications and resource samples in the first so many seconds of each run are left out.
    include_failed
        Whether runs that failed enter the estimates.
    worst
        How many of the worst messages are explained.
    output_dir
        Where metrics.json goes; none: it is not written.
    """

    model_config = ConfigDict(extra="forbid")

    recordings: Annotated[Texts, Field(min_length=1)]
    topics: Texts = []
    level: float = Field(0.95, gt=0, lt=1)
    warm_up_s: float = Field(0.0, ge=0, allow_inf_nan=False)
    include_failed: bool = False
    worst: int = Field(10, ge=1, le=1000)
    output_dir: str | None = None

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> LatencyParameters:
        """Validate what a notebook was given.

        Raises
        ------
        UsageError
            Naming the first wrong parameter, its value, and what is expected.
        """
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            raise UsageError(f"parameter {name} = {first['input']!r}: {first['msg']}") from error
