"""The parameters of the micro_ros notebook, checked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from roslens.analysis.reports.parameters import ReportParameters, Texts
from roslens.recording import UsageError

Budget = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class MicroRosParameters(ReportParameters):
    """Parameters of the micro-ROS notebook.

    Attributes
    ----------
    recordings
        Recordings of the suite micro-ros, or folders that hold some; none: the published figures.
    results
        Folders with the files of a board's test bench, which are looked at as recordings are.
    source
        ``recordings`` or ``published``; empty: published where nothing else is given.
    budgets
        Most bytes per entity (or slot), by entity.
    lines
        Line rates in bit/s by transport, or pairs with the bits that a byte takes.
    """

    recordings: Texts = Field(default_factory=list)
    results: Texts = Field(default_factory=list)
    source: Literal["", "published", "recordings"] = ""
    budgets: dict[str, Budget] = Field(default_factory=dict)
    lines: dict[str, Any] = Field(default_factory=dict)

    @property
    def is_published(self) -> bool:
        """Whether the published figures are looked at."""
        return not self.recordings and not self.results

    @model_validator(mode="after")
    def _consistent(self) -> MicroRosParameters:
        if self.source == "recordings" and self.is_published:
            raise UsageError("source = 'recordings', but none is given; give PATH or results")
        if self.source == "published" and not self.is_published:
            raise UsageError("source = 'published' takes no recordings; leave out PATH and results")
        return self
