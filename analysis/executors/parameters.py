"""The parameters of the executors notebook, checked."""

from __future__ import annotations

from pydantic import Field

from roslens.analysis.reports.parameters import OptionalText, ReportParameters


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
