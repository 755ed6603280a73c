"""Define the manifest of a run: its workload, recording, environment and outcome."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, field_validator

from roslens.recording.errors import UsageError
from roslens.recording.files import write_atomically
from roslens.recording.harness_manifest import from_harness, is_harness_manifest
from roslens.recording.json_file import read_json
from roslens.recording.models import Frozen, Strict
from roslens.recording.text import first_problem

SCHEMA_VERSION = 1
_SECOND_NS = 1_000_000_000
_SHORTEST_NS = 10_000_000

Level = str | int | float | bool
"""A level of a factor."""
NO_FACTORS = frozenset({
    "metric", "value", "low", "high", "unit", "refused", "level", "runs", "samples",
    "effective_samples", "method", "verdict", "definition",
    "topic", "service", "chain", "function", "called_by",
})  # fmt: skip
"""Names that no factor can have: columns other than factors in tables of estimates, and names that
distinguish cells in addition to factors."""


class Host(Strict):
    """Machine without its name; for several machines, their common properties."""

    cpu_count: int | None = Field(default=None, description="of all machines together")
    cpu_model: str | None = None
    governor: str | None = None
    kernel: str | None = None
    preemption: str | None = Field(
        default=None, description="the kernel's preemption model: none, voluntary, full, lazy, rt"
    )
    virtual_machine: str | None = Field(
        default=None, description="what the machine is simulated by; none: it is a real one"
    )
    memory_bytes: int | None = None
    load_1min: float | None = Field(default=None, description="load average just before the run")
    steal_fraction: float | None = Field(
        default=None, description="CPU time stolen during the run, 0..1"
    )
    turbo: bool | None = Field(default=None, description="whether CPUs may exceed their base clock")
    memory_available_bytes: int | None = Field(default=None, description="just before the run")
    swap_used_bytes: int | None = Field(default=None, description="just before the run")
    swapped_pages: int | None = Field(default=None, description="to and from swap during the run")
    temperature_c: float | None = Field(default=None, description="the hottest sensor's, before")
    temperature_end_c: float | None = Field(default=None, description="the same after the run")
    cpu_mhz: float | None = Field(default=None, description="mean clock of the CPUs, before")
    throttled: int | None = Field(
        default=None, description="times that a core was slowed for its heat during the run"
    )
    other_cpu_fraction: float | None = Field(
        default=None,
        description="of all CPU time of the run, what neither workload nor recorder used, 0..1",
    )


class Environment(Strict):
    """Software that ran."""

    ros: Literal["sourced", "embedded"] | None = Field(
        default=None, description="whose ROS 2 it was: the user's own, or the one roslens made"
    )
    ros_distro: str | None = None
    rmw: str | None = None
    executor: str | None = None
    packages: dict[str, str] = Field(default_factory=dict)
    variables: dict[str, str] = Field(default_factory=dict)
    python: str | None = None
    git_commit: str | None = None
    git_dirty: bool | None = None
    system: str | None = Field(default=None, description="operating system and its version")
    system_packages: dict[str, str] = Field(
        default_factory=dict, description="versions of the distribution's packages that matter"
    )
    compiler: str | None = None
    container: str | None = Field(default=None, description="its image, else its kind")
    roslens: str | None = Field(default=None, description="version of the recorder")
    configuration: list[str] = Field(
        default_factory=list, description="copies of the RMW's configuration, in the run's folder"
    )


class Clock(Strict):
    """Clock of the event times."""

    trace_clock: str = "monotonic"
    synchronisation: str | None = None


class TracingSettings(Strict):
    """Settings of the tracer."""

    tracer: str
    tracer_version: str | None = None
    domains: list[str] = Field(default_factory=lambda: ["ust"])
    kernel: str | None = Field(default=None, description="what recorded the kernel; null: LTTng's")
    events: list[str] = Field(default_factory=list)
    contexts: list[str] = Field(default_factory=list)
    mode: Literal["discard", "overwrite", "blocking", "snapshot"] = "discard"
    subbuf_size_bytes: int | None = None
    subbuf_count: int | None = None
    max_disk_bytes: int | None = Field(
        default=None, description="what the trace was allowed to take; the oldest part gave way"
    )
    flight_seconds: float | None = Field(
        default=None, description="how far back each thread's events reach at least; null: all"
    )
    start: Literal["begin", "ready"] = "begin"
    snapshots: int | None = Field(default=None, description="how many were taken")
    notes: list[str] = Field(default_factory=list, description="e.g. why there is no kernel trace")


class Loss(Strict):
    """Loss that the tracer reports, read at the end of the session; None: unknown."""

    discarded_events: int | None = None
    lost_packets: int | None = None

    @field_validator("discarded_events", "lost_packets")
    @classmethod
    def _wrapped_around(cls, count: int | None) -> int | None:
        """Discard a count that wrapped around: LTTng's sum may fall below 0 on a busy machine."""
        return None if count is None or not 0 <= count < 2**62 else count


class Sampler(Strict):
    """Settings and cost of a sampler of the processes."""

    hz: float
    rounds: int = Field(description="how often all processes were read")
    overruns: int = Field(description="rounds left out because one before took too long")
    cpu_fraction: float = Field(description="of one CPU, used by the sampler itself")


class Endpoint(Strict):
    """Publisher or subscription with its QoS, as the workload saw it."""

    topic: str
    node: str
    kind: Literal["publisher", "subscription"]
    type: str | None = None
    reliability: str | None = None
    durability: str | None = None
    history: str | None = None
    depth: int | None = None


class Timing(Strict):
    """Planned times of the run; the warm-up begins when the workload is ready."""

    warm_up_s: float = 0.0
    duration_s: float
    cool_down_s: float = 0.0
    messages: int | None = None
    ready_ns: int | None = Field(
        default=None, description="when the workload said that it was ready, ns since the epoch"
    )


class Design(Strict):
    """Position of the run in the design, which proves that the design was followed.

    In each repetition (block), ``random.Random(seed)``, one for the whole campaign, shuffles the
    numbers 0 .. combinations - 1; the runs follow in that order.
    """

    combination: int = Field(description="its number in the suite's own order, from 0")
    combinations: int = Field(description="how many make a block")
    blocks: int = Field(description="how many blocks were planned")
    attempt: int = Field(default=0, description="0 the planned run, then its retries")
    retry_of: str | None = Field(default=None, description="the run that failed before it")
    execution: int = Field(default=0, description="how often the campaign had been resumed by then")


class Hit(Frozen):
    """Hit of a trigger during watching."""

    trigger: str = Field(description="the condition as the user wrote it")
    at_ns: int = Field(ge=0, lt=1 << 62, description="since when it holds, ns since the epoch")
    value: float | None = Field(
        default=None, allow_inf_nan=False, description="what was seen; null: somebody asked"
    )
    at_least: bool = Field(
        default=False, description="whether it went on when it was seen: the value is what it had"
    )
    unit: str | None = None

    @property
    def around_ns(self) -> tuple[int, int]:
        """Return the interval to look at first: twice the long duration, else 1 s, on each side."""
        room = _SECOND_NS
        if self.unit == "ns" and self.value is not None:
            room = max(_SHORTEST_NS, 2 * math.ceil(self.value))
        return self.at_ns - room, self.at_ns + room


class Member(Strict):
    """Recording that became part of a merged one."""

    name: str = Field(description="its folder below trace/, and native/")
    hosts: list[str] = Field(description="labels of the hosts that it has traces of")
    content: str = Field(description="digest of the names, sizes and times of its files")
    manifest: Manifest | None = Field(default=None, description="its own; null for a bare trace")


class Manifest(Strict):
    """Manifest of a run (``manifest.json``), versioned, validated on reading.

    Times are ns since the epoch. `repetition` is the block; `order` the position in the whole
    campaign, from 0. `exit_status` is the workload's: 0 done, None unknown, negative a signal.
    """

    schema_version: Literal[1] = 1
    suite: str
    campaign: str
    run: str
    factors: dict[str, Level] = Field(default_factory=dict)
    repetition: int = 0
    order: int = 0
    seed: int | None = None
    design: Design | None = Field(default=None, description="null: not a run of a suite")
    parameters: dict[str, Level] = Field(default_factory=dict)
    timing: Timing | None = None
    command: list[str] = Field(default_factory=list)
    work_topic: str | None = None
    environment: Environment = Field(default_factory=Environment)
    host: Host
    graph: list[Endpoint] = Field(default_factory=list)
    clock: Clock = Field(default_factory=Clock)
    tracing: TracingSettings
    events_expected: bool = Field(
        default=True, description="false: its suite says that a run may make no event"
    )
    start_ns: int
    end_ns: int | None = None
    status: Literal["running", "complete", "failed", "interrupted"] = "running"
    exit_status: int | None = None
    elapsed_ns: int | None = Field(
        default=None, description="from the start of the workload to its own end"
    )
    failure: str | None = Field(default=None, description="one line: why the run is not complete")
    loss: Loss = Field(default_factory=Loss)
    sampler: Sampler | None = Field(default=None, description="of the processes")
    samplers: dict[str, Sampler] = Field(
        default_factory=dict, description="the others: threads, system, heap"
    )
    warnings: list[str] = Field(
        default_factory=list, description="what disturbed the run without making it fail"
    )
    disturbances: list[str] = Field(
        default_factory=list, description="what about the host lay beyond the suite's limits"
    )
    triggered: list[Hit] = Field(
        default_factory=list, description="what triggers saw; of a snapshot those that made it"
    )
    provenance: str | None = Field(
        default=None, description="where a recording not made by us is from"
    )
    members: list[Member] = Field(
        default_factory=list, description="the recordings that this one was merged of"
    )


def read_manifest(path: Path) -> Manifest:
    """Read and validate a manifest.

    Raises
    ------
    UsageError
        The file cannot be read, is too large, is not JSON, has another schema version, or has wrong
        fields.
    """
    data = read_json(path, "restore the file or remove it")
    try:
        if is_harness_manifest(data):
            data = from_harness(data, path.parent)
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version != SCHEMA_VERSION:
            raise UsageError(
                f"{path}: manifest schema version {version!r}, this roslens reads {SCHEMA_VERSION}"
            )
        return Manifest.model_validate(data)
    except ValidationError as error:
        where, problem = first_problem(error)
        raise UsageError(f"{path}: field '{where}': {problem}") from error


def write_manifest(manifest: Manifest, path: Path) -> None:
    """Write a manifest so that a crash leaves the old one or the new one, never half of one."""
    write_atomically(path, manifest.model_dump_json(indent=1) + "\n")
