"""Validate the contents of a metrics.json, whatever program wrote it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from roslens.recording.manifest import Level

_Number = Annotated[float, Field(allow_inf_nan=False, gt=-1e300, lt=1e300)]
_Count = Annotated[int, Field(ge=0, lt=1 << 63)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True)


class EstimateEntry(_Strict):
    """One entry of `roslens.analysis.estimate.Estimate`, with the environments it holds for."""

    model_config = ConfigDict(extra="forbid")

    metric: str
    definition: str
    better: Literal["lower", "higher"] | None
    cell: dict[str, Level]
    value: _Number | None
    low: _Number | None
    high: _Number | None
    level: Annotated[float, Field(gt=0, le=1)]
    unit: str
    runs: _Count
    samples: _Count
    effective_samples: _Number | None
    method: str
    verdict: str | None
    refused: str | None
    minimum_detectable: _Number | None
    bounds: Annotated[tuple[_Number, _Number] | None, Field(strict=False)] = None
    environments: list[_Count] = []

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.low is not None and self.high is not None and self.low > self.high:
            raise ValueError("low is above high")
        return self


class RecordingEntry(_Strict):
    """One entry of `roslens.analysis.metrics.Metrics.recordings`; older reports lack fields."""

    run: str
    suite: str | None = None
    campaign: str | None = None
    cell: dict[str, Level]
    status: str | None = None
    counts: bool
    discarded_events: _Count | None
    lost_packets: _Count | None = None
    truncated: _Count | None = None
    git_commit: str | None = None
    excerpt: str | None = None
    disturbances: list[str] = []
    environment: _Count | None = None


class MetricsFile(_Strict):
    """The contents of a metrics.json."""

    schema_version: int
    answer: list[str] = []
    recorded: dict[str, str] = {}
    recordings: list[RecordingEntry]
    versions: dict[str, str | None]
    environments: list[dict[str, dict[str, str]]] = []
    estimates: list[EstimateEntry]
