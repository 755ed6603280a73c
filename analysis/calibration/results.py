"""Represent results of simulations: fractions with their Monte Carlo error and their bar."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from roslens.recording.errors import UsageError

_SCHEMA = {
    **dict.fromkeys(("section", "cell", "what"), pl.String),
    **dict.fromkeys(("hits", "count"), pl.Int64),
    **dict.fromkeys(("low", "high"), pl.String),
}


@dataclass(frozen=True)
class Result:
    """A simulated fraction with its bar.

    Attributes
    ----------
    section
        Title of the table that the result belongs to.
    cell
        What was simulated, by name.
    what
        Name of the counted outcome, such as ``coverage`` or ``exit 1``.
    hits, count
        Number of times that the outcome occurred, and number of simulations.
    low, high
        Bounds that the fraction must lie within; both None: published as it is.
    """

    section: str
    cell: Mapping[str, str]
    what: str
    hits: int
    count: int
    low: float | None = None
    high: float | None = None

    @property
    def fraction(self) -> float:
        """Hits / count."""
        return self.hits / self.count

    @property
    def error(self) -> float:
        """Monte Carlo standard error of the fraction; at least that of one hit or one miss."""
        p = min(max(self.fraction, 1 / self.count), 1 - 1 / self.count)
        return math.sqrt(p * (1 - p) / self.count)

    @property
    def holds(self) -> bool | None:
        """Whether the fraction holds its bar to two Monte Carlo errors; None without a bar."""
        if self.low is None and self.high is None:
            return None
        above = self.low is None or self.fraction >= self.low - 2 * self.error
        return above and (self.high is None or self.fraction <= self.high + 2 * self.error)

    def __str__(self) -> str:
        return f"{self.fraction:.3f} ± {self.error:.3f}"


@dataclass(frozen=True)
class Section:
    """A table of results.

    Attributes
    ----------
    title, text
        Subject of the table, and how it was simulated.
    across
        Names of the cell that go across the table, ``what`` last; the others go down.
    """

    title: str
    text: str
    across: tuple[str, ...] = ()
    results: Sequence[Result] = field(default_factory=tuple)

    def markdown(self) -> str:
        """Return a Markdown table, in which results that miss their bar are marked."""
        names = list(dict.fromkeys(name for r in self.results for name in r.cell))
        down = [name for name in names if name not in self.across]
        rows: dict[tuple[str, ...], dict[str, str]] = {}
        heads: dict[str, None] = {}
        for r in self.results:
            parts = [r.cell[n] for n in self.across if n in r.cell]
            head = ", ".join([*parts, r.what])
            heads[head] = None
            shown = str(r) if r.holds is not False else f"**{r}**"
            rows.setdefault(tuple(r.cell.get(n, "") for n in down), {})[head] = shown
        lines = [[*down, *heads], ["---"] * (len(down) + len(heads))]
        lines += [[*key, *(row.get(h, "") for h in heads)] for key, row in rows.items()]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        return f"## {self.title}\n\n{self.text}\n\n{self._bar()}{table}"

    def _bar(self) -> str:
        bars = dict.fromkeys((r.what, r.low, r.high) for r in self.results if r.holds is not None)
        if not bars:
            return ""
        bounds = [f"{name} {within(low, high)}" for name, low, high in bars]
        missed = sum(r.holds is False for r in self.results)
        outcome = "all hold" if not missed else f"{missed} miss it, in bold"
        return f"Bar: {'; '.join(dict.fromkeys(bounds))} ({outcome}).\n\n"


def within(low: float | None, high: float | None) -> str:
    """Return a bar in words."""
    if low is None:
        return f"at most {high:g}"
    return f"at least {low:g}" if high is None else f"{low:g} to {high:g}"


def results_frame(results: Iterable[Result]) -> pl.DataFrame:
    """Return all results for a CSV file, the cell as ``name=level`` joined by semicolons."""
    rows = []
    for r in results:
        cell = ";".join(f"{name}={level}" for name, level in r.cell.items())
        bars = (None if bar is None else f"{bar:g}" for bar in (r.low, r.high))
        rows.append((r.section, cell, r.what, r.hits, r.count, *bars))
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def from_csv(path: Path) -> list[Result]:
    """Read a CSV file of `results_frame`.

    Raises
    ------
    UsageError
        The file cannot be read or has another form.
    """
    try:
        text = path.read_text(encoding="utf-8")
        rows = list(csv.DictReader(io.StringIO(text)))
        # A file without any row is invalid, too: min() raises ValueError.
        min(row["count"] for row in rows)
        return [
            Result(
                row["section"],
                dict(part.split("=", 1) for part in row["cell"].split(";") if part),
                row["what"],
                int(row["hits"]),
                int(row["count"]),
                *(float(row[bar]) if row[bar] else None for bar in ("low", "high")),
            )
            for row in rows
        ]
    except (OSError, csv.Error, KeyError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} holds no results of a calibration ({error}); make them with "
            "'python3 noxfile.py -s calibrate'"
        ) from error
