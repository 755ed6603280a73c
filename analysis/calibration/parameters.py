"""The parameters of the calibration notebook, checked."""

from __future__ import annotations

from pydantic import Field

from roslens.analysis.reports.parameters import ReportParameters, Texts


class CalibrationParameters(ReportParameters):
    """Parameters of the calibration notebook.

    Attributes
    ----------
    recordings
        Recordings whose pieces are held against each other; none: only stored results.
    results
        The file that `nox -s calibrate` wrote.
    simulations
        0: the stored results; else so many new simulations per cell, of a few minutes' length
        from about 1,000 on.
    """

    recordings: Texts = Field(default_factory=list)
    results: str = "data/calibration/results.csv"
    simulations: int = Field(0, ge=0, le=100_000)
