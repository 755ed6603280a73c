"""One side of a comparison: its estimates, its runs, and what must be said of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from roslens.analysis.environment import (
    Differences,
    Environment,
    differences,
    merged_differences,
)
from roslens.analysis.estimate import Cell, Estimate
from roslens.analysis.measures.loss import MAY_BIAS
from roslens.analysis.measures.samples import WORK_TOPIC
from roslens.recording.manifest import Level

SPLIT = {"latency_p50": 0.5, "latency_p99": 0.99}
"""Metrics whose change is split by cause, with the quantile that each one is."""


@dataclass(frozen=True)
class RunsByCause:
    """The quantiles of `SPLIT` in each run of a cell, split by cause.

    Attributes
    ----------
    parts
        By metric, the ns per cause of each run; the causes add up to the run's quantile.
    kernel
        Whether the kernel's events show causes, for each run.
    blocks
        The block of each run.
    """

    parts: Mapping[str, list[Mapping[str, float]]]
    kernel: list[bool]
    blocks: list[str | None]


@dataclass(frozen=True)
class Side:
    """One of the two sides of a comparison.

    Attributes
    ----------
    name
        Name of the side as the user gave it.
    estimates
        All estimates of the side.
    cells
        The cells of its runs, without topic or service.
    runs, left_out
        Number of runs, and of those that failed or cannot be read, and enter no estimate.
    failed
        The cells of those left out, as far as known.
    discarded_events
        Number of events lost by the tracer, over all runs.
    suites
        Names of the suites that its runs belong to, as far as known.
    excerpts
        For the runs that are parts of recordings, which parts, in words.
    environments
        Environments of the runs, in the order of `cells`; an unknown one is empty.
    disturbed
        Disturbed runs by name, with what disturbed them.
    ignored
        Factors that were left out of its cells, with the levels that they had.
    by_cause
        Function from cells to their causes; None where unknown, as from a metrics.json.
    undisturbed
        Function that returns the side without its disturbed runs; None if it has none, or if they
        cannot be left out, as from a metrics.json.
    """

    name: str
    estimates: Sequence[Estimate]
    cells: Sequence[Cell]
    runs: int
    left_out: int = 0
    discarded_events: int = 0
    suites: frozenset[str] = frozenset()
    excerpts: Sequence[str] = ()
    ignored: Mapping[str, Sequence[Level]] = field(default_factory=dict)
    environments: Sequence[Environment] = ()
    disturbed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_cause: Callable[[Sequence[Cell]], Sequence[RunsByCause | None]] = field(
        default=lambda cells: [None] * len(cells), compare=False
    )
    undisturbed: Callable[[], Side] | None = field(default=None, compare=False)
    failed: Sequence[Cell] = ()


Key = tuple[tuple[str, Level], ...]


def key_of(cell: Cell) -> Key:
    """Return a key that equal cells share."""
    return tuple(sorted(cell.items()))


def by_suite(side: Side, opposite: Side) -> Side:
    """Return `side`, of one suite, with the suite as a factor as in `opposite`, of several."""
    if len(side.suites) != 1 or len(opposite.suites) < 2:
        return side
    (suite,) = side.suites

    def named(cell: Cell) -> Cell:
        return {"suite": suite, **cell}

    estimates = [replace(e, cell=named(e.cell)) for e in side.estimates]
    cells, failed = ([named(cell) for cell in members] for members in (side.cells, side.failed))
    return replace(side, estimates=estimates, cells=cells, failed=failed)


def at_level(side: Side, factor: str, level: Level) -> Side:
    """Return the part of a side that has this level, without the factor."""

    def rest(cell: Cell) -> Cell:
        return {name: value for name, value in cell.items() if name != factor}

    failed = [rest(cell) for cell in side.failed if cell.get(factor) == level]
    return replace(
        side,
        # Of any level are those whose cell is not known.
        left_out=side.left_out - len(side.failed) + len(failed),
        failed=failed,
        by_cause=lambda cells: side.by_cause([{factor: level, **cell} for cell in cells]),
        estimates=[
            replace(e, cell=rest(e.cell)) for e in side.estimates if e.cell.get(factor) == level
        ],
        cells=[rest(cell) for cell in side.cells if cell.get(factor) == level],
        environments=[
            environment
            for cell, environment in zip(side.cells, side.environments, strict=False)
            if cell.get(factor) == level
        ],
    )


def estimates_by_cell(base: Side, new: Side, metric: str) -> tuple[Mapping[Key, Estimate], ...]:
    """Return the estimates of a metric on both sides: those of the runs' own cells, if there are.

    If only one side has estimates of its runs' own cells (of a topic that all its runs name, while
    runs of the other name none), both are matched topic by topic.
    """
    both, own = [], []
    for side in (base, new):
        estimates = {key_of(e.cell): e for e in side.estimates if e.metric == metric}
        own_keys = {key_of(cell) for cell in side.cells}
        both.append(estimates)
        own.append({key: e for key, e in estimates.items() if key in own_keys})
    if all(estimates or not every for estimates, every in zip(own, both, strict=True)):
        return tuple(own)
    if any(own):
        both = [{key_of(e.cell): e for e in map(_with_topic, part.values())} for part in both]
    return tuple(both)


def _with_topic(estimate: Estimate) -> Estimate:
    """Return the estimate of a work topic as that of the topic that its definition names."""
    definition, _, topic = estimate.definition.rpartition(WORK_TOPIC)
    if not definition or ", " in topic:
        return estimate
    cell = {**estimate.cell, "topic": topic}
    return replace(estimate, cell=cell, definition=f"{definition}topic {topic}")


def metrics_with_direction(base: Side, new: Side) -> str:
    """Return the names of the metrics of either side that can be compared, as text."""
    names = {e.metric for side in (base, new) for e in side.estimates if e.better is not None}
    return ", ".join(sorted(names)) or "none"


def runs_without_messages(side: Side, estimate: Estimate) -> int:
    """Count the runs of a cell that have nothing from which its estimate could be made.

    An estimate of a topic, service, timer or chain has it in its cell, unless it is the work topic.
    """
    cell = _cell_of_runs(side, estimate)
    of_work_topic = re.match(r"loss$|latency_|callback_duration_", estimate.metric)
    if estimate.metric.endswith("_bound") or not (of_work_topic or cell != estimate.cell):
        return 0
    return max(0, sum(run_cell == cell for run_cell in side.cells) - estimate.runs)


def _cell_of_runs(side: Side, estimate: Estimate) -> Cell:
    """Return the cell of an estimate without topic or service."""
    factors = {name for cell in (*side.cells, *side.failed) for name in cell}
    return {name: level for name, level in estimate.cell.items() if name in factors}


def failed_runs(side: Side, estimate: Estimate) -> int:
    """Count the runs left out that are of a cell, or may be, as their cell is not known."""
    cell = _cell_of_runs(side, estimate)
    return side.left_out - sum(run_cell != cell for run_cell in side.failed)


def silent_in_words(silent: int, estimate: Estimate, of: str = "") -> str:
    """Say what `runs_without_messages` means; a message without a callback has no latency."""
    noun = next(noun for start, noun in _NOUNS.items() if estimate.metric.startswith(start))
    return f"{silent} of {silent + estimate.runs} runs{of} had no {noun}"


_NOUNS = {
    "loss": "message of it",
    "latency": "message of it with a latency",
    "service_latency": "call of it with a latency",
    "callback_duration": "execution of its callback",
    "period": "two publications of it in a row",
    "timer_jitter": "two executions of the timer's callback in a row",
    "chain_rate": "instance of the chain, or lost too many events for a rate",
    "chain_complete": "instance of which it is known whether it reached the chain's end",
    "response_time": "instance that reached the chain's end",
    "": "value of it",
}
"""What a run lacks that has no value of a metric, by the beginning of the metric's name."""
_MOST_NAMED = 5
"""Most disturbed runs of each side that a note names."""


def disturbed_in_words(side: Side, of: str = "") -> list[str]:
    """Return a note that names the disturbed runs of a side, and what disturbed them."""
    if not side.disturbed:
        return []
    clauses = [f"{run}: {', '.join(why)}" for run, why in side.disturbed.items()]
    if len(clauses) > _MOST_NAMED:
        clauses[_MOST_NAMED:] = [f"and {len(clauses) - _MOST_NAMED} more"]
    return [f"{len(side.disturbed)} of {side.runs} runs{of} disturbed: {'; '.join(clauses)}"]


def loss_notes(sides: Mapping[str, Side]) -> list[str]:
    """Return notes on lost events, and on disturbed, left out and partial runs of named sides."""
    notes = []
    for name, side in sides.items():
        if side.discarded_events:
            notes.append(f"the tracer lost {side.discarded_events:,} events of {name}: {MAY_BIAS}")
        notes += disturbed_in_words(side, f" of {name}")
        if side.left_out:
            notes.append(
                f"{side.left_out} of {side.runs} runs of {name} failed or cannot be read, and are "
                "left out"
            )
    if len({tuple(sorted(side.excerpts)) for side in sides.values()}) > 1:
        for name, side in sides.items():
            if side.excerpts:
                parts = "; ".join(dict.fromkeys(side.excerpts))
                notes.append(
                    f"{len(side.excerpts)} of {side.runs} runs of {name} are parts of recordings "
                    f"({parts}), unlike those of the other side"
                )
    return notes


def environment_differences(base: Side, new: Side) -> Differences:
    """Return differences between runs of the same cell; between all runs if no cell is the same."""
    sides = []
    for side in (base, new):
        of_cell: dict[Key, list[Environment]] = {}
        for cell, environment in zip(side.cells, side.environments, strict=False):
            of_cell.setdefault(key_of(cell), []).append(environment)
        sides.append(of_cell)
    left, right = sides
    common = [key for key in left if key in right]
    if not common:
        return differences(base.environments, new.environments)
    return merged_differences([differences(left[key], right[key]) for key in common])
