"""How often what is sampled."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class SamplerRates(BaseModel):
    """Samples per second of what is not sampled by default; 0: not at all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    threads: float = Field(
        default=0.0, ge=0, le=1000, description="CPU time and context switches of each thread"
    )
    system: float = Field(
        default=0.0,
        ge=0,
        le=100,
        description="the machine: CPU use, frequency, temperature, network and disk counters",
    )
    heap: float = Field(
        default=0.0,
        ge=0,
        le=1000,
        description="bytes in use by malloc, read by mallinfo2 inside the workload's processes",
    )
