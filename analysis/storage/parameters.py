"""The parameters of the storage notebook, checked."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from roslens.analysis.reports.parameters import OptionalText, ReportParameters, Texts
from roslens.recording import UsageError


class StorageParameters(ReportParameters):
    """Parameters of the storage notebook.

    Attributes
    ----------
    recordings
        Recordings of the suite storage, or folders that hold some; none: the published rows.
    source
        ``recordings`` or ``published``; empty: as `recordings` says.
    digests
        A digest CSV of the study's ``sweep.py``, or a folder of them, in place of the published.
    threshold
        So much slower is still on par.
    """

    recordings: Texts = Field(default_factory=list)
    source: Literal["", "published", "recordings"] = ""
    digests: OptionalText = None
    threshold: float = Field(0.05, gt=0, lt=1)

    @model_validator(mode="after")
    def _consistent(self) -> StorageParameters:
        if self.source == "recordings" and not self.recordings:
            raise UsageError("source = 'recordings', but none is given; give PATH")
        if self.source == "published" and self.recordings:
            raise UsageError("source = 'published' takes no recordings; leave out PATH")
        if self.digests and self.recordings:
            raise UsageError("digests are no recordings; give either PATH or digests")
        return self
