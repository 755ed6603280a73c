"""Define the timing model as a file that can be read, edited and simulated."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from roslens.recording import UsageError
from roslens.recording.errors import writing
from roslens.recording.files import write_atomically
from roslens.recording.json_file import read_json
from roslens.recording.models import Strict
from roslens.recording.text import first_problem

ExecutorKind = Literal["SingleThreaded", "MultiThreaded", "Events", "EventsCBG"]
OF_ONE_THREAD: tuple[ExecutorKind, ...] = ("SingleThreaded", "Events")
LONGEST_NS = 2**60
"""36 years: the greatest time, so that sums do not overflow."""
Times = list[Annotated[int, Field(ge=0, le=LONGEST_NS)]]
"""Times in ns since the model's begin, or durations in ns."""


class Samples(Strict):
    """Samples in the order in which they were recorded."""

    at_ns: Times = Field(
        default_factory=list,
        description="when, since the model's begin: executions when they started, handovers when "
        "the callback was ready, gaps when it was chosen, polls when the wait began",
    )
    value_ns: Times = Field(default_factory=list, description="the sample")

    @model_validator(mode="after")
    def _check_lengths(self) -> Self:
        if len(self.at_ns) != len(self.value_ns):
            raise ValueError("at_ns and value_ns are not equally long")
        if any(a > b for a, b in zip(self.at_ns, self.at_ns[1:], strict=False)):
            raise ValueError("at_ns does not ascend")
        return self

    def times(self, factor: float) -> Samples:
        """Return the samples with each value multiplied by a factor."""
        return Samples(
            at_ns=self.at_ns, value_ns=[round(value * factor) for value in self.value_ns]
        )

    @classmethod
    def together(cls, parts: Iterable[Samples]) -> Samples:
        """Merge several sets of samples, in order of time."""
        pairs = sorted(
            pair for samples in parts for pair in zip(samples.at_ns, samples.value_ns, strict=True)
        )
        return cls(at_ns=[at for at, _ in pairs], value_ns=[value for _, value in pairs])


class Publication(Strict):
    """A publication during an execution."""

    execution: int = Field(ge=0, description="number of the execution, from 0")
    offset_ns: int = Field(ge=0, le=LONGEST_NS, description="from the execution's start")
    topic: str


class TimedExecutor(Strict):
    """Threads that execute the same callbacks."""

    kind: ExecutorKind
    kind_from: Literal["manifest", "events", "guess", "given"] = Field(
        description="events: which events of executors there are, and on how many threads; guess: "
        "no executor's events were recorded, so it may be of any kind"
    )
    threads: int = Field(
        ge=1, le=1024, description="as many as were active at once, or as was said"
    )
    host: str | None = None
    vpid: int | None = None
    vtids: list[int] = Field(default_factory=list)
    priority: int | None = Field(default=None, description="the higher, the earlier; null: unknown")
    polls: Samples = Field(
        default_factory=Samples,
        description="how long waits took for which something was ready already; none: not known, "
        "or it has no wait set",
    )


class TimedCallback(Strict):
    """A callback with its times: when it runs, and for how long."""

    id: int = Field(description="callback_id in the tables")
    kind: Literal["timer", "subscription", "service"]
    name: str | None = Field(description="topic, service, or the timer's period")
    node: str | None
    executor: int = Field(ge=0, description="number of its executor, from 0")
    group: str | None = Field(description="callback group; null: not known")
    reentrant: bool | None = Field(description="true: it ran beside itself; null: not known")
    intra_process: bool = Field(description="its messages come within the process")
    queue_depth: int | None = Field(ge=1, description="messages that wait at most; null: not known")
    period_ns: int | None = Field(ge=1, le=LONGEST_NS, description="of a timer")
    phase_ns: int | None = Field(
        ge=0, le=LONGEST_NS, description="of a timer: its first release, since the begin"
    )
    jitter_ns: int | None = Field(description="of a timer: P99 of |interval - period|")
    place: int | None = Field(
        ge=0, description="among its kind in the executor's wait set, as it shows; null: not known"
    )
    lag_ns: int = Field(
        ge=0, le=LONGEST_NS, description="from a publication until the message can be taken"
    )
    executions: Samples = Field(description="how long each execution took")
    takeovers_ns: list[Annotated[int, Field(ge=-LONGEST_NS, le=LONGEST_NS)]] = Field(
        default_factory=list,
        description="of each execution, on several threads with a wait set: from its start until a "
        "thread looked for work again; none: at once",
    )
    publications: list[Publication]
    handovers: Samples = Field(
        description="ready to the start of what an idle thread then began with"
    )
    gaps: Samples = Field(
        description="chosen to start: from the end of the wait, or from when thread and "
        "group were free"
    )
    waits_ns: Times = Field(description="recorded: ready to start, whatever it waited for")
    lost: int = Field(ge=0, description="recorded: messages whose place a later one took")


class Source(Strict):
    """Publications that no callback of the model made, or starts of unknown cause."""

    topic: str = Field(description="'#ID': what started callback ID is not known")
    node: str | None
    at_ns: Times


class LeftOut(Strict):
    """A part of the recording that the model does not include, and why."""

    what: str
    why: str


class TimingModel(Strict):
    """The timing model of one run. All times are ns since its begin, after the start-up."""

    version: Literal[1] = 1
    run: str | None = None
    start_up_ns: int = Field(ge=0, description="cut off before the begin")
    length_ns: int = Field(ge=1, le=LONGEST_NS)
    execution_time: Literal["own", "duration"] = Field(
        description="own: on a CPU or asleep by itself, by the kernel's events; duration: start "
        "to end, which holds what others took from it"
    )
    shared_cpu: float = Field(
        0.0,
        ge=0,
        le=1,
        description="part of the executions' time that overlaps with others that began on the same "
        "CPU; 0 if the kernel was recorded",
    )
    cpus: int | None = Field(default=None, ge=1, description="of the machine; null: not known")
    tracer_lost: bool = Field(False, description="the tracer dropped something in this run")
    executors: list[TimedExecutor]
    callbacks: list[TimedCallback]
    sources: list[Source]
    left_out: list[LeftOut]

    @model_validator(mode="after")
    def _check_references(self) -> Self:
        for callback in self.callbacks:
            where = f"callback {callback.id}"
            if callback.executor >= len(self.executors):
                raise ValueError(f"{where}: there is no executor {callback.executor}")
            if not callback.executions.value_ns:
                raise ValueError(f"{where}: it has no executions")
            if (callback.period_ns is None) != (callback.phase_ns is None):
                raise ValueError(f"{where}: period_ns and phase_ns go together")
            count = len(callback.executions.value_ns)
            if len(callback.takeovers_ns) not in (0, count):
                raise ValueError(f"{where}: takeovers_ns is not as long as its executions")
            if any(publication.execution >= count for publication in callback.publications):
                raise ValueError(f"{where}: a publication is of an execution that is not there")
        return self

    def executed_by(self, kind: ExecutorKind | None) -> Self:
        """Return the model with an executor kind the recording did not name; None: unchanged."""
        if kind is None:
            return self
        named = {"kind": kind, "kind_from": "given"} | (
            {"threads": 1} if kind in OF_ONE_THREAD else {}
        )
        return self.model_copy(
            update={"executors": [executor.model_copy(update=named) for executor in self.executors]}
        )

    def to_json(self) -> str:
        """Return the model as JSON text, which `read_timing_model` reads."""
        return self.model_dump_json(indent=1)

    def write(self, path: Path) -> None:
        """Write the model to a file, which `read_timing_model` reads."""
        with writing(path):
            write_atomically(path, self.to_json() + "\n")


def read_timing_model(path: Path) -> TimingModel:
    """Read a timing model from a file.

    Raises
    ------
    UsageError
        The file cannot be read or is not a timing model; the message names the first problem.
    """
    try:
        return TimingModel.model_validate(read_json(path))
    except ValidationError as error:
        place, problem = first_problem(error)
        message = f"{place}: {problem}" if place else problem
        raise UsageError(f"{path}: not a timing model: {message}") from error
