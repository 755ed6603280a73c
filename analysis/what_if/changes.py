"""Change a timing model: its executor, threads, execution times and rates."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from roslens.analysis.reports.numbers import duration
from roslens.analysis.timing.executors import EXECUTOR_NAMES, ON_WAIT_SETS
from roslens.analysis.timing.schema import (
    OF_ONE_THREAD,
    ExecutorKind,
    Publication,
    Samples,
    Source,
    TimedCallback,
    TimedExecutor,
    TimingModel,
)
from roslens.recording import UsageError

_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SET = re.compile(
    r"callback=(?P<name>.+):(?P<sign>[+-]?)(?P<number>\d+(?:\.\d+)?)(?P<unit>[num]?s|x)"
)
_RATE = re.compile(r"(?P<topic>.+)=(?P<hz>\d+(?:\.\d+)?) ?Hz")
_LONGEST_NS = 100 * 86_400 * 1_000_000_000
_MOST_HZ = 1e6
COLLECTS = (2.0, 3.0)
"""Least and greatest factor on the duration of a poll that must first collect its entities anew."""
SEVERAL = (1.3, 2.0)
"""Least and greatest factor on the durations of polls and gaps with several threads.

Both were measured by benchmarks/predicted.py at load 1.0.
"""


@dataclass(frozen=True)
class DurationChange:
    """One change of execution times: a difference, a new value, or a factor.

    Attributes
    ----------
    name
        The callback's node or its name, which is a topic, a service or a timer's period.
    add_ns, exact_ns, factor
        The kind of change that is asked for; the other two are None.
    """

    name: str
    add_ns: float | None = None
    exact_ns: float | None = None
    factor: float | None = None

    def in_words(self) -> str:
        """Return the callback and the change of its execution time as text."""
        if self.factor is not None:
            return f"{self.name} {self.factor:g}x"
        if self.exact_ns is not None:
            return f"{self.name} {duration(self.exact_ns)}"
        added = self.add_ns or 0.0
        return f"{self.name} {'-' if added < 0 else '+'}{duration(abs(added))}"

    @classmethod
    def of(cls, text: str) -> DurationChange:
        """Parse text such as ``callback=/planner:+2ms``.

        Raises
        ------
        UsageError
            The text does not have this form.
        """
        match = _SET.fullmatch(text)
        if match is None or (match["unit"] == "x" and match["sign"]):
            raise UsageError(
                f"--set {text}: expected such as callback=/planner:+2ms, callback=/planner:-500us, "
                "callback=/planner:3ms or callback=/planner:1.5x"
            )
        number = float(match["number"])
        if match["unit"] == "x":
            return cls(match["name"], factor=number)
        ns = number * _NS[match["unit"]]
        if not match["sign"]:
            return cls(match["name"], exact_ns=ns)
        return cls(match["name"], add_ns=-ns if match["sign"] == "-" else ns)

    def applied(self, ns: int) -> int:
        """Return the changed duration of one execution [ns], never below 0.

        Raises
        ------
        UsageError
            The changed execution is too long to be simulated.
        """
        took = ns * self.factor if self.factor is not None else ns + (self.add_ns or 0)
        took = took if self.exact_ns is None else self.exact_ns
        if not took < _LONGEST_NS:
            raise UsageError(f"--set {self.name}: an execution would take longer than 100 days")
        return max(0, round(took))


@dataclass(frozen=True)
class Changes:
    """All changes that are asked for.

    Attributes
    ----------
    executor, threads
        Kind and number of threads of all executors; None: as recorded.
    cpus
        Number of CPUs on which callbacks run; None: as recorded.
    took
        Changes of execution times.
    rates
        Changed rates, by topic [Hz].
    """

    executor: ExecutorKind | None = None
    threads: int | None = None
    cpus: int | None = None
    took: Sequence[DurationChange] = ()
    rates: Sequence[tuple[str, float]] = ()

    def __post_init__(self) -> None:
        """Raise UsageError if a number is below 1."""
        # An empty list and an empty tuple must compare equal, as no changes.
        object.__setattr__(self, "took", tuple(self.took))
        object.__setattr__(self, "rates", tuple(self.rates))
        for name in ("threads", "cpus"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise UsageError(f"{name}: {number} is below 1")

    def in_words(self) -> str:
        """Return all changes as one line of text."""
        given = (("executor", self.executor), ("threads", self.threads), ("cpus", self.cpus))
        words = [f"{name}={value}" for name, value in given if value is not None]
        words += [took.in_words() for took in self.took]
        words += [f"{topic} {hz:,.10g} Hz" for topic, hz in self.rates]
        return ", ".join(words) or "nothing changed"


def executor_kind(name: str) -> ExecutorKind:
    """Return the kind of rclcpp executor that has this name, its own or that in a suite.

    Raises
    ------
    UsageError
        No executor has this name.
    """
    kind = EXECUTOR_NAMES.get(name.lower())
    if kind is None:
        raise UsageError(f"no executor {name!r}; there are {', '.join(get_args(ExecutorKind))}")
    return kind


def rate_of(text: str) -> tuple[str, float]:
    """Parse topic and rate [Hz] from text such as ``/scan=60Hz``.

    Raises
    ------
    UsageError
        The text does not have this form.
    """
    match = _RATE.fullmatch(text)
    if match is None or float(match["hz"]) <= 0:
        raise UsageError(f"--rate {text}: expected such as /scan=60Hz")
    return match["topic"], float(match["hz"])


def changed(model: TimingModel, changes: Changes) -> TimingModel:
    """Return the model with the changes made.

    Publications keep their relative position within an execution when its duration changes. The
    rate of a topic is changed at its origin: the period of the timers that publish it, or the
    times at which it arrives from outside. Polls and gaps stay as recorded: see `with_own_work`.

    Raises
    ------
    UsageError
        No callback or topic has a given name, a number of threads does not fit an executor or is
        not known, or a topic is published by a callback that is not a timer.
    """
    for took in changes.took:
        model = _with_times(model, took)
    for topic, hz in changes.rates:
        model = _with_rate(model, topic, hz)
    executors = [
        executor.model_copy(
            update={
                "kind": (kind := changes.executor or executor.kind),
                "kind_from": "given" if changes.executor else executor.kind_from,
                "threads": _threads(kind, kind == executor.kind, executor.threads, model, changes),
            }
        )
        for executor in model.executors
    ]
    # The executors that publish each topic; none: it comes from outside.
    publishers: dict[str | None, set[int | None]] = {
        source.topic: {None} for source in model.sources
    }
    for callback in model.callbacks:
        for sent in callback.publications:
            publishers.setdefault(sent.topic, set()).add(callback.executor)
    # A thread can take at once what it published itself.
    callbacks = [
        callback.model_copy(update={"lag_ns": 0})
        if executors[callback.executor].threads == 1
        and publishers.get(callback.name, set()) <= {callback.executor}
        else callback
        for callback in model.callbacks
    ]
    return model.model_copy(update={"executors": executors, "callbacks": callbacks})


def with_own_work(model: TimingModel, asked: TimingModel, cost: float) -> TimingModel:
    """Return the changed model with polls and gaps that fit its new executors.

    Polls and gaps take `COLLECTS` and `SEVERAL` times as long as recorded. Polls that were not
    recorded take at most as long as handovers.

    Parameters
    ----------
    model, asked
        The model as recorded, and the model as `changed` returned it.
    cost
        Position of the factors between their least and greatest value, 0..1.
    """
    executors: list[TimedExecutor] = []
    gaps: list[float] = []
    for number, (was, will) in enumerate(zip(model.executors, asked.executors, strict=True)):
        (poll, gap), (polled, gapped) = _costs(will, cost), _costs(was, cost)
        polls = will.polls.times(poll / polled)
        if will.kind in ON_WAIT_SETS and was.kind not in ON_WAIT_SETS:
            handed = (
                callback.handovers for callback in model.callbacks if callback.executor == number
            )
            polls = Samples.together(handed).times(cost * gap)
        executors.append(will.model_copy(update={"polls": polls}))
        gaps.append(gap / gapped)
    callbacks = [
        callback.model_copy(update={"gaps": callback.gaps.times(gaps[callback.executor])})
        for callback in asked.callbacks
    ]
    return asked.model_copy(update={"executors": executors, "callbacks": callbacks})


def _costs(executor: TimedExecutor, cost: float) -> tuple[float, float]:
    """Return the durations of polls and gaps as factors of those on SingleThreaded."""
    collects, several = (low * (high / low) ** cost for low, high in (COLLECTS, SEVERAL))
    gap = several if executor.threads > 1 else 1.0
    return gap * (collects if executor.kind == "MultiThreaded" else 1.0), gap


def _threads(
    kind: ExecutorKind, same: bool, recorded: int, model: TimingModel, changes: Changes
) -> int:
    if kind in OF_ONE_THREAD:
        if changes.threads not in (None, 1):
            raise UsageError(f"--threads {changes.threads}: {kind} has one thread")
        return 1
    if changes.threads is not None:
        return changes.threads
    if same:
        return recorded
    if model.cpus is None:
        raise UsageError(
            f"the recording does not say how many CPUs there are, and {kind} has as many "
            "threads: give --threads"
        )
    # The constructors of both executors choose the same number.
    return max(model.cpus, 2)


def _with_times(model: TimingModel, took: DurationChange) -> TimingModel:
    fits = [callback for callback in model.callbacks if took.name in (callback.node, callback.name)]
    if not fits:
        names = sorted(
            {name for c in model.callbacks for name in (c.node, c.name) if name is not None}
        )
        raise UsageError(
            f"--set: no callback of a node or a name {took.name}; there are {', '.join(names)}"
        )
    return model.model_copy(
        update={
            "callbacks": [
                _timed(callback, took) if callback in fits else callback
                for callback in model.callbacks
            ]
        }
    )


def _timed(callback: TimedCallback, took: DurationChange) -> TimedCallback:
    old = callback.executions
    new = [took.applied(ns) for ns in old.value_ns]
    published = [
        Publication(
            execution=publication.execution,
            offset_ns=round(
                publication.offset_ns
                * new[publication.execution]
                / max(1, old.value_ns[publication.execution])
            ),
            topic=publication.topic,
        )
        for publication in callback.publications
    ]
    # A thread that came back at the end of the execution now comes back at its new end.
    takeovers = [
        at + now - before if at >= before else at
        for at, before, now in zip(callback.takeovers_ns, old.value_ns, new, strict=False)
    ]
    executions = Samples(at_ns=old.at_ns, value_ns=new)
    return callback.model_copy(
        update={"executions": executions, "publications": published, "takeovers_ns": takeovers}
    )


def _with_rate(model: TimingModel, topic: str, hz: float) -> TimingModel:
    if not 1e9 / _LONGEST_NS < hz <= _MOST_HZ:
        raise UsageError(f"--rate {topic}: {hz:g} Hz is not between once in 100 days and 1 MHz")
    publishing = {
        callback.id: Counter(publication.topic for publication in callback.publications)[topic]
        for callback in model.callbacks
        if any(publication.topic == topic for publication in callback.publications)
    }
    sources = [source for source in model.sources if source.topic == topic]
    if not publishing and not sources:
        topics = sorted(
            {
                publication.topic
                for callback in model.callbacks
                for publication in callback.publications
            }
            | {source.topic for source in model.sources if not source.topic.startswith("#")}
        )
        raise UsageError(f"--rate: nobody published {topic}; there are {', '.join(topics)}")
    for callback in model.callbacks:
        if callback.id in publishing and callback.period_ns is None:
            raise UsageError(
                f"--rate {topic}: {callback.node} publishes it when {callback.name} triggers it: "
                f"give the rate of that"
            )
    # The period of a timer is more exact than the number of its executions in the recording.
    per_ns = sum(len(source.at_ns) for source in sources) / model.length_ns + sum(
        publishing[callback.id]
        / len(callback.executions.value_ns)
        / (callback.period_ns or model.length_ns)
        for callback in model.callbacks
        if callback.id in publishing
    )
    factor = per_ns * 1e9 / hz
    return model.model_copy(
        update={
            "callbacks": [
                _scaled_callback(callback, factor) if callback.id in publishing else callback
                for callback in model.callbacks
            ],
            "sources": [
                _scaled_source(source, factor, model.length_ns) if source.topic == topic else source
                for source in model.sources
            ],
        }
    )


def _scaled_callback(callback: TimedCallback, factor: float) -> TimedCallback:
    before, phase = callback.period_ns or 0, callback.phase_ns or 0
    period = max(1, round(before * factor))
    # A phase of at least a period belongs to a timer that was created later, and is kept.
    phase = phase % period if phase < before else phase
    return callback.model_copy(update={"period_ns": period, "phase_ns": phase})


def _scaled_source(source: Source, factor: float, length_ns: int) -> Source:
    """Stretch a source's intervals by a factor; repeat it where that leaves a rest."""
    times: list[int] = []
    begin = 0.0
    while begin < length_ns and source.at_ns:
        times += [round(begin + at * factor) for at in source.at_ns]
        begin += length_ns * factor
    return source.model_copy(update={"at_ns": [at for at in times if at < length_ns]})
