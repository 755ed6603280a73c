"""The parameters of the leaks notebook, checked."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roslens.analysis.reports.parameters import ReportParameters


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
