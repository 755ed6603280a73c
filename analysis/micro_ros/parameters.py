"""The parameters of the micro-ROS notebook, checked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from analysis.parameters import ReportParameters, Texts
from tracing.recording import UsageError

Budget = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class MicroRosParameters(ReportParameters):
    """Parameters of the micro-ROS notebook.

    Attributes
    ----------
    recordings
        Recordings of the suite micro-ros, or folders that hold some; none: the published figures.
    source
        ``recordings`` or ``published``; empty: as `recordings` says.
    budgets
        Most bytes per entity (or slot), by entity.
    lines
        Line rates in bit/s by transport, or pairs with the bits that a byte takes.
    """

    recordings: Texts = Field(default_factory=list)
    source: Literal["", "published", "recordings"] = ""
    budgets: dict[str, Budget] = Field(default_factory=dict)
    lines: dict[str, Any] = Field(default_factory=dict)

    @property
    def from_recordings(self) -> bool:
        """Whether recordings are looked at."""
        return self.source != "published" and bool(self.recordings)

    @model_validator(mode="after")
    def _consistent(self) -> MicroRosParameters:
        if self.source == "recordings" and not self.recordings:
            raise UsageError("source = 'recordings', but none is given; give PATH")
        if self.source == "published" and self.recordings:
            raise UsageError("source = 'published' takes no recordings; leave out PATH")
        return self
