"""The parameters of the communication notebook, checked."""

from __future__ import annotations

from pydantic import Field

from roslens.analysis.reports.parameters import OptionalText, ReportParameters, Texts


class CommunicationParameters(ReportParameters):
    """Parameters of the communication notebook.

    Attributes
    ----------
    topics
        Topics to look at; none: the work topic of each run, else all of the application.
    published
        Folder with the published figures.
    results
        Folder with results of the study's own tool; none: only the printed table is shown.
    """

    topics: Texts = Field(default_factory=list)
    published: str = "data/published/communication"
    results: OptionalText = None
