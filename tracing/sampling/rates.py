"""Define the rates of the samplers."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from roslens.recording.models import Frozen
from roslens.tracing.sampling.stacks import HZ


class SamplerRates(Frozen):
    """Samples per second of everything except CPU time; 0: no sampling."""

    gives_way: bool = Field(
        default=True,
        description="whether everything else on the machine goes before the samplers, which then "
        "add nothing to latencies, and leave rounds out where no CPU is ever idle",
    )
    memory: float = Field(
        default=0.5,
        ge=0,
        le=1000,
        description="RSS, PSS, USS and context switches of each process, at most sampler_hz; "
        "counting pages takes milliseconds and holds the process's memory map meanwhile",
    )
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
    allocations: bool = Field(
        default=False,
        description="which call paths hold memory, by heaptrack, which makes each allocation "
        "several times as slow: for leaks, not for latencies",
    )
    stacks: float = Field(
        default=0.0, ge=0, le=10_000, description="call stacks of what runs on each CPU, by perf"
    )
    waits: bool = Field(
        default=False, description="where threads wait, a stack of each wait, beside stacks"
    )

    @model_validator(mode="before")
    @classmethod
    def _waits_need_stacks(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("waits") and not given.get("stacks"):
            return {**given, "stacks": HZ}
        return given
