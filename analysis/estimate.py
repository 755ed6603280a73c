"""Define an estimate: a value with its interval, or the reason why there is none."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from roslens.recording.manifest import Level

Better = Literal["lower", "higher"]
Scale = Literal["positive", "fraction", "signed"]
Cell = Mapping[str, Level]
"""The level of each factor of a cell; empty where no factor is known."""
NO_FACTORS = "(no factors)"
"""Label of a cell of which no factor is known."""
CLOCKS_APART = "which clocks of hosts may be apart"
"""Part of the method of an estimate whose interval holds however wrong the clocks are."""


@dataclass(frozen=True)
class Metric:
    """The quantity that an estimate is of.

    Attributes
    ----------
    name
        Stable name such as ``latency_p99``, which other tools match on.
    definition
        First and last event of the quantity, and the messages it covers.
    unit
        Unit of value, low and high, such as ``ns``; ``1`` for a fraction.
    better
        The direction that is better.
    scale
        Possible values: none below 0, none outside 0..1, or any.
    """

    name: str
    definition: str
    unit: str
    better: Better | None = "lower"
    scale: Scale = "positive"


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """One number of a report, with everything needed to judge it.

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
        Number of runs that entered the estimate: the number of replications.
    samples
        Number of samples over all these runs.
    effective_samples
        Number of independent samples that would carry as much information, over all these runs;
        None where the metric has one value per run.
    method
        How value and interval were computed.
    verdict
        Set by tests of a hypothesis, never by an estimate alone.
    refused
        Why there is no interval, and what would be needed; None when there is one.
    minimum_detectable
        The smallest effect that a test would have found; None without a test.
    bounds
        Limits of the value over all possible unknown outcomes, where these forbid a value.
    per_run
        The value of each run that entered the estimate, where it was computed here; not in
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
        """Return the estimate as plain data, with null for numbers that JSON cannot represent."""
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
    """Return a number, or raise if it is None.

    A test for truth is no substitute: it would confuse zero with None.

    Raises
    ------
    ValueError
        The number is None.
    """
    if number is None:
        raise ValueError("a number is used that was refused")
    return number


def largest_first(estimate: Estimate) -> tuple[bool, float]:
    """Return a sort key by value, the largest first, and estimates without a value last."""
    value = estimate.value
    return (True, 0.0) if value is None else (False, -value)


def cell_label(cell: Cell) -> str:
    """Return a cell as text, such as ``payload=100, executor=events``."""
    return ", ".join(f"{name}={level}" for name, level in cell.items()) or NO_FACTORS


def telling_factors(cells: Sequence[Cell]) -> list[str]:
    """Return the factors that distinguish cells, in their order, without redundant ones.

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
    # A factor chosen early may be implied by later ones together.
    for name in list(chosen):
        remaining = [n for n in chosen if n != name]
        if distinct(remaining) == distinct(chosen):
            chosen = remaining
    return chosen


def short_labels(cells: Sequence[Cell]) -> list[str]:
    """Return labels of cells with the factors that distinguish them; all factors if none does."""
    names = telling_factors(cells)
    return [cell_label({n: cell[n] for n in names if n in cell} or cell) for cell in cells]


def shared_factors(cells: Sequence[Cell]) -> Cell:
    """Return the factors that have one level in all cells, with that level."""
    first = cells[0].items() if cells else ()
    return {name: level for name, level in first if all(c.get(name) == level for c in cells)}


def shared_levels(cells: Sequence[Cell]) -> str:
    """Return the levels that all cells share, as `cell_label`; empty if there is none."""
    common = shared_factors(cells)
    return cell_label(common) if common else ""
