"""What an estimate is: a value with its interval, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from roslens.recording.manifest import Level

Better = Literal["lower", "higher"]
Scale = Literal["positive", "fraction", "signed"]
Cell = Mapping[str, Level]
"""The level of each factor; empty where no factor is known."""
CLOCKS_APART = "which clocks of hosts may be apart"
"""In the method of an estimate whose interval holds however wrong they are."""


@dataclass(frozen=True)
class Metric:
    """What is estimated.

    Attributes
    ----------
    name
        Such as ``latency_p99``; stable, other tools match on it.
    definition
        From which event to which event, over which messages.
    unit
        Unit of value, low and high, such as ``ns``; ``1`` for a fraction.
    better
        Which direction is better.
    scale
        What values there can be: none below 0, none outside 0..1, or any.
    """

    name: str
    definition: str
    unit: str
    better: Better | None = "lower"
    scale: Scale = "positive"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One number of a report, with all that is needed to judge it.

    Attributes
    ----------
    metric, definition, better, unit
        As in `Metric`.
    cell
        The level of each factor.
    value
        The estimate; infinite where lost messages make it so; None where there is none.
    low, high
        The interval at `level`; None when it is refused.
    level
        Nominal coverage, such as 0.95.
    runs
        Runs that went into it: the number of replications.
    samples
        Samples over all those runs.
    effective_samples
        Independent samples that would carry as much, over all those runs; None where the
        metric has one value per run.
    method
        How value and interval were computed.
    verdict
        Set by tests of a hypothesis, never by an estimate alone.
    refused
        Why there is no interval, and what would be needed; None when there is one.
    minimum_detectable
        The smallest effect that would have been found, where a test was made.
    bounds
        Where unknown ones forbid a value: what it lies between, whatever they are.
    per_run
        The value of each run that went into it, where it was computed here; not in
        metrics.json.
    """

    metric: str
    definition: str
    better: Better | None
    cell: Cell = field(default_factory=dict)
    value: float | None
    low: float | None
    high: float | None
    level: float
    unit: str
    runs: int
    samples: int
    effective_samples: float | None
    method: str
    verdict: str | None = None
    refused: str | None = None
    minimum_detectable: float | None = None
    bounds: tuple[float, float] | None = None
    per_run: tuple[float, ...] = field(default=(), compare=False, repr=False)

    def to_json(self) -> dict[str, Any]:
        """As plain data; what is not finite becomes null, for JSON has no infinity."""
        data = asdict(self)
        del data["per_run"]
        if self.bounds is None:
            del data["bounds"]
        data["cell"] = dict(self.cell)
        for name, value in data.items():
            if isinstance(value, float) and not math.isfinite(value):
                data[name] = None
        return data


def not_none(number: float | None) -> float:
    """A number that must be there.

    No number is ever asked for its truth: a zero would be taken for none, or none for a zero.

    Raises
    ------
    ValueError
        There is none.
    """
    if number is None:
        raise ValueError("a number is used that was refused")
    return number


def largest_first(estimate: Estimate) -> tuple[bool, float]:
    """Key that sorts by value, the largest first, and last what has none."""
    value = estimate.value
    return (True, 0.0) if value is None else (False, -value)


def cell_label(cell: Cell) -> str:
    """Human text of a cell, such as ``payload=100, executor=events``."""
    return ", ".join(f"{name}={level}" for name, level in cell.items()) or "(no factors)"


def telling_factors(cells: Sequence[Cell]) -> list[str]:
    """The factors that tell cells apart, in their order; none that others say already.

    >>> telling_factors([{"rate": 5, "rmw": "a", "id": 1}, {"rate": 5, "rmw": "b", "id": 2}])
    ['rmw']
    """
    names = list(dict.fromkeys(name for cell in cells for name in cell))

    def distinct(chosen: Sequence[str]) -> int:
        return len({tuple((n, str(cell[n])) for n in chosen if n in cell) for cell in cells})

    chosen: list[str] = []
    for name in names:
        if distinct([*chosen, name]) > distinct(chosen):
            chosen.append(name)
    # A factor taken early may be said by later ones together.
    for name in list(chosen):
        remaining = [n for n in chosen if n != name]
        if distinct(remaining) == distinct(chosen):
            chosen = remaining
    return chosen


def short_labels(cells: Sequence[Cell]) -> list[str]:
    """Labels of cells with the factors that tell them apart; as `cell_label` if none does."""
    names = telling_factors(cells)
    return [cell_label({n: cell[n] for n in names if n in cell} or cell) for cell in cells]


def shared_factors(cells: Sequence[Cell]) -> Cell:
    """The factors that have one level in all cells, and that level."""
    first = cells[0].items() if cells else ()
    return {name: level for name, level in first if all(c.get(name) == level for c in cells)}


def shared_levels(cells: Sequence[Cell]) -> str:
    """What all cells have in common, as `cell_label`; empty if nothing."""
    common = shared_factors(cells)
    return cell_label(common) if common else ""
