"""Estimate memory per entity as the slope of bytes against the number of entities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from scipy import stats

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.statistics.over_runs import Interval, estimate_of
from roslens.analysis.statistics.trends import least_squares
from roslens.recording.arrays import Floats, np

HISTORY = "history"
"""The entity whose count is the number of slots of the RMW history."""

RTOSES = {"freertos": "FreeRTOS", "threadx": "ThreadX"}
"""Real-time operating systems, by the suffix in the names of entities measured on them."""

KINDS = ("static", "stack", "dynamic", "total")

_METRICS = {
    False: Metric(
        "memory_per_entity",
        "slope of the least squares line of bytes against the number of entities",
        "byte/entity",
    ),
    True: Metric(
        "memory_per_slot",
        "slope of the least squares line of bytes against the slots of the RMW history",
        "byte/slot",
    ),
}


@dataclass(frozen=True)
class Slope:
    """The line of one kind of memory of one entity.

    Attributes
    ----------
    entity, memory
        Names such as ``publisher`` and ``static``.
    counts, values
        The points: number of entities, bytes (mean over sources of that number), shape (n,).
    between_runs
        Greatest difference between runs at one number of entities, in bytes; None for one run.
    intercept
        Bytes at zero entities; None where there is no line.
    estimate
        The slope.
    """

    entity: str
    memory: str
    counts: Floats
    values: Floats
    between_runs: float | None
    intercept: float | None
    estimate: Estimate

    @property
    def largest_residual(self) -> float | None:
        """The greatest distance of a point from the line, in bytes."""
        if self.intercept is None or self.estimate.value is None:
            return None
        line = self.intercept + self.estimate.value * self.counts
        return float(np.abs(self.values - line).max())


def slopes_of(memory: pl.DataFrame, level: float = 0.95) -> list[Slope]:
    """Estimate the slope of each kind of memory of each entity.

    The line is the least squares fit through the means at each count; the interval is Student's t
    with n - 2 degrees of freedom over the scatter of those means about the line. It covers that
    scatter (reading precision, alignment, a relation that is not quite a line), but not other
    boards, compilers or configurations, of which there is one.

    Parameters
    ----------
    memory
        Frame with the columns of `results.frames.MEMORY`.
    level
        Nominal coverage.
    """
    slopes = []
    groups = memory.group_by("entity", "memory", maintain_order=True)
    for (entity, kind), group in sorted(groups, key=lambda g: _order(*g[0])):
        points = (
            group.group_by("count")
            .agg(
                pl.col("bytes").mean(),
                (pl.col("bytes").max() - pl.col("bytes").min()).alias("apart"),
            )
            .sort("count")
        )
        sources = group["source"].n_unique()
        x = points["count"].to_numpy().astype(np.float64)
        y = points["bytes"].to_numpy().astype(np.float64)
        intercept, interval = _line(x, y, level)
        slopes.append(
            Slope(
                str(entity),
                str(kind),
                x,
                y,
                None if sources == 1 else float(points["apart"].to_numpy().max()),
                intercept,
                estimate_of(
                    _METRICS[is_history(str(entity))],
                    {"entity": str(entity), "memory": str(kind)},
                    interval,
                    level,
                    runs=sources,
                    samples=x.size,
                    method="least squares over counts, Student t (n - 2) over the scatter about "
                    "the line",
                ),
            )
        )
    return slopes


def with_totals(memory: pl.DataFrame) -> pl.DataFrame:
    """Add ``total`` = static + stack + dynamic where a source has all three and no total."""
    kinds = memory.filter(pl.col("memory").is_in(KINDS[:3]))
    keys = ["source", "entity", "count"]
    whole = (
        kinds.group_by(keys, maintain_order=True)
        .agg(pl.col("memory").n_unique().alias("kinds"), pl.col("bytes").sum())
        .filter(pl.col("kinds") == 3)
        .select(*keys, pl.lit("total").alias("memory"), "bytes")
    )
    given = memory.filter(pl.col("memory") == "total").select(keys)
    return pl.concat([memory, whole.join(given, on=keys, how="anti")])


def slopes_frame(slopes: Sequence[Slope]) -> pl.DataFrame:
    """Return ``entity``, ``memory``, ``slope``, ``low``, ``high``; bytes per entity or slot."""
    return pl.DataFrame(
        [(s.entity, s.memory, s.estimate.value, s.estimate.low, s.estimate.high) for s in slopes],
        schema=dict.fromkeys(("entity", "memory"), pl.String)
        | dict.fromkeys(("slope", "low", "high"), pl.Float64),
        orient="row",
    )


def _line(x: Floats, y: Floats, level: float) -> tuple[float | None, Interval]:
    if x.size < 3:
        return None, Interval(
            None,
            refused=f"{x.size} different numbers of entities; a line with an interval needs 3",
        )
    line = least_squares(x, y)
    half = float(stats.t.ppf((1 + level) / 2, x.size - 2)) * line.slope_error
    return line.intercept, Interval(line.slope, line.slope - half, line.slope + half)


_ENTITIES = ("publisher", "subscriber", "service", "client")


def is_history(entity: str) -> bool:
    """Return whether the count of `entity` is the number of slots of a history."""
    return entity.startswith(HISTORY)


def on_rtos(entity: str) -> tuple[str, str]:
    """Return an entity without the suffix of its RTOS, and the RTOS; "" for none."""
    base, _, rtos = entity.rpartition("_")
    return (base, RTOSES[rtos]) if rtos in RTOSES else (entity, "")


def _order(entity: object, memory: object) -> tuple[bool, int, int, str, int]:
    """Return a sort key: entities as published, by RTOS, then others by name, the history last."""
    base, rtos = on_rtos(str(entity))
    rank = _ENTITIES.index(base) if base in _ENTITIES else len(_ENTITIES)
    kind = KINDS.index(str(memory)) if memory in KINDS else len(KINDS)
    system = ["", *RTOSES.values()].index(rtos)
    unlisted = rank == len(_ENTITIES)
    return (unlisted, system, rank + is_history(base), str(entity), kind)
