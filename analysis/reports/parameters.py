"""The parameters of notebooks, checked: papermill hands over whatever was typed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from roslens.analysis.runs import LeaveOut
from roslens.tracing.recording import UsageError


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
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            raise UsageError(f"parameter {name} = {first['input']!r}: {first['msg']}") from error

    @classmethod
    def of_notebook(cls, namespace: Mapping[str, Any]) -> Self:
        """Validate the variables of a notebook that have the names of parameters.

        >>> parameters = LatencyParameters.of_notebook(globals())

        Raises
        ------
        UsageError
            As `checked`; a missing variable has the parameter's default.
        """
        return cls.checked(
            {name: namespace[name] for name in cls.model_fields if name in namespace}
        )


class LatencyParameters(ReportParameters):
    """Parameters of the latency notebook.

    Attributes
    ----------
    topics
        Topics to look at; none: the work topic of each run, else all of the application.
    worst
        How many of the worst messages are explained.
    correct_omission
        Whether percentiles corrected for coordinated omission stand beside those measured.
    """

    topics: Texts = []
    worst: int = Field(10, ge=1, le=1000)
    correct_omission: bool = False


class LeaksParameters(ReportParameters):
    """Parameters of the leaks notebook.

    Attributes
    ----------
    series
        Which size of memory is judged.
    margin
        Bytes per second within which a slope is as good as none.
    warm_up_s
        As in every notebook; 0: 5 s, at most a tenth of the shortest run.
    cut_end_s
        Seconds left out at the end of what each run did.
    """

    series: Literal["rss", "pss", "heap"] = "rss"
    margin: float = Field(1024.0, gt=0, allow_inf_nan=False)
    cut_end_s: float = Field(0.0, ge=0, allow_inf_nan=False)


class ExecutorsParameters(ReportParameters):
    """Parameters of the executors notebook.

    Attributes
    ----------
    factor
        The factor whose levels are compared two by two.
    load
        The factor that is drawn along the axis; empty: payload, message size or clients, whichever
        varies.
    threshold
        Differences below this part are of no importance.
    """

    factor: str = Field("executor", min_length=1)
    load: OptionalText = None
    threshold: float = Field(0.05, gt=0, lt=1)
