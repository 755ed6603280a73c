"""The parameters of the latency notebook, checked."""

from __future__ import annotations

from pydantic import Field

from roslens.analysis.measures.samples import Headline
from roslens.analysis.reports.parameters import ReportParameters, Texts


class LatencyParameters(ReportParameters):
    """Parameters of the latency notebook.

    Attributes
    ----------
    topics
        Topics to look at; none: all, the work topic of the runs first.
    headline
        Which topic of the application comes first where the runs name no work topic: the
        ``busiest``, or the ``slowest`` by median latency.
    worst
        How many of the worst messages are explained.
    correct_omission
        Whether percentiles corrected for coordinated omission stand beside those measured.
    bag
        The bag that was recorded beside the one run; empty: what lies in the runs' folders.
    """

    topics: Texts = Field(default_factory=list)
    headline: Headline = "busiest"
    worst: int = Field(10, ge=1, le=1000)
    correct_omission: bool = False
    bag: str = ""
