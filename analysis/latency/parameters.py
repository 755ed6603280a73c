"""The parameters of the latency notebook, checked."""

from __future__ import annotations

from pydantic import Field

from roslens.analysis.reports.parameters import ReportParameters, Texts


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

    topics: Texts = Field(default_factory=list)
    worst: int = Field(10, ge=1, le=1000)
    correct_omission: bool = False
