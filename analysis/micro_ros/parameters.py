"""The parameters of the micro-ROS notebook, checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from analysis.parameters import Texts
from tracing.recording import UsageError

Budget = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class MicroRosParameters(BaseModel):
    """Parameters of the micro-ROS notebook.

    Attributes
    ----------
    recordings
        Recordings of the suite micro-ros, or folders that hold some.
    source
        ``recordings``, or ``published`` for the published figures; empty: the recordings where
        some are given, else the published figures.
    level
        Nominal coverage of the intervals.
    budgets
        Most bytes per entity (or slot), by entity.
    lines
        Line rates in bit/s by transport, or pairs with the bits that a byte takes.
    include_failed
        Whether runs that failed enter the estimates.
    output_dir
        Where metrics.json, slopes.csv and checks.csv go; none: they are not written.
    """

    model_config = ConfigDict(extra="forbid")

    recordings: Texts = []
    source: Literal["", "published", "recordings"] = ""
    level: float = Field(0.95, gt=0, lt=1)
    budgets: dict[str, Budget] = {}
    lines: dict[str, Any] = {}
    include_failed: bool = False
    output_dir: str | None = None

    @property
    def from_recordings(self) -> bool:
        """Whether recordings are looked at."""
        return self.source != "published" and bool(self.recordings)

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> MicroRosParameters:
        """Validate what a notebook was given.

        Raises
        ------
        UsageError
            Naming the first wrong parameter, its value, and what is expected.
        """
        try:
            found = cls.model_validate(dict(given))
        except ValidationError as error:
            first = error.errors()[0]
            name = ".".join(str(part) for part in first["loc"])
            raise UsageError(f"parameter {name} = {first['input']!r}: {first['msg']}") from error
        if found.source == "recordings" and not found.recordings:
            raise UsageError("source = 'recordings', but none is given; give PATH")
        if found.source == "published" and found.recordings:
            raise UsageError("source = 'published' takes no recordings; leave out PATH")
        return found
