"""Simulate false alarms and power of verdicts, also on pieces of recorded runs, A against A."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product

import polars as pl

from roslens.analysis.calibration.intervals import SYMMETRIC_UP_TO, on_logs, positive_values
from roslens.analysis.calibration.results import Result, Section
from roslens.analysis.calibration.series import autoregressive, generator
from roslens.analysis.estimate import Metric, not_none
from roslens.analysis.leaks.leak import leak
from roslens.analysis.leaks.series import Series
from roslens.analysis.runs import Run
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.statistics.quantiles import quantile
from roslens.analysis.verdicts.comparison import compare_sides
from roslens.analysis.verdicts.sides import Side
from roslens.collectors.topics import INFRASTRUCTURE
from roslens.recording.arrays import Floats, Ints, np

CELLS = 24
THRESHOLD = 0.05


def exit_codes(new: Floats, base: Floats, threshold: float = THRESHOLD) -> Ints:
    """Return exit codes of invocations of compare, by tests instead of bounds.

    Parameters
    ----------
    new, base
        One value per run, shape (invocations, cells, runs).
    """
    log_ratios, p = on_logs(new, base)
    at_one = np.where(p < 0.05, np.sign(log_ratios), 0)
    above, below = (
        np.where(q < 0.05, np.sign(far), 0)
        for far, q in (on_logs(new, base, 1 + side * threshold) for side in (1, -1))
    )
    cells = p.shape[-1]
    order = np.argsort(p, axis=-1)
    steps = (cells - np.arange(cells)) * np.take_along_axis(p, order, -1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.maximum.accumulate(steps, -1), -1)
    regression = (at_one > 0) & (above >= 0)
    improvement = (at_one < 0) & (below <= 0)
    same = (below > 0) & (above < 0)
    confirmed = adjusted <= 0.05
    failed = (regression & confirmed).any(axis=-1)
    lacks = ~(same | ((regression | improvement) & confirmed))
    return np.where(failed, 1, np.where(lacks.any(axis=-1), 3, 0))


def compared(new: Floats, base: Floats) -> int:
    """Return the exit code of one invocation by the verb's own rule; new and base (cells, runs)."""
    metric = Metric("cpu", "simulated", "core")

    def side(values: Floats) -> Side:
        estimates = [value_over_runs(metric, {"c": i}, row, 1) for i, row in enumerate(values)]
        return Side("simulated", estimates, [e.cell for e in estimates], values.shape[1])

    return compare_sides(side(base), side(new), ["cpu"], THRESHOLD).exit_code


def codes_of(draw: Callable[[int], tuple[Floats, Floats]], count: int) -> Ints:
    """Return exit codes of `count` invocations; the first ones are checked against the verb.

    Parameters
    ----------
    draw
        Function from a number of invocations to their values of new and base.
    """
    parts: list[Ints] = []
    for begin in range(0, count, 500):
        new, base = draw(min(500, count - begin))
        codes = exit_codes(new, base)
        if not parts:
            for i in range(min(20, len(codes))):
                if compared(new[i], base[i]) != codes[i]:
                    raise AssertionError("the simulation's rule is not that of compare")
        parts.append(codes)
    return np.concatenate(parts)


def comparisons(count: int) -> Section:
    """Simulate the exit codes of compare."""
    title = "roslens compare"
    results = []
    for change, cells, runs, cv in (
        (0.1, 1, 10, 0.02),
        (0.1, CELLS, 10, 0.02),
        (0.0, CELLS, 10, 0.02),
        (0.0, CELLS, 10, 0.1),
        (0.0, CELLS, 5, 0.02),
        (0.0, CELLS, 5, 0.3),
        (0.0, CELLS, 3, 0.1),
    ):
        rng = generator("compare", change, cells, runs, cv)
        codes = codes_of(partial(_normal, rng, (cells, runs), cv, change), count)
        cell = {
            "change": f"{100 * change:g} %",
            "cells": str(cells),
            "runs": str(runs),
            "cv": f"{100 * cv:g} %",
        }
        results += by_code(title, cell, codes, injected=change > 0)
    text = (
        "Exit codes with a threshold of 5 %. A change of 0 compares A with itself: there, exit 1 "
        "is a false alarm."
    )
    return Section(title, text, (), results)


def _normal(
    rng: np.random.Generator, shape: tuple[int, int], cv: float, change: float, invocations: int
) -> tuple[Floats, Floats]:
    base = np.abs(1 + cv * rng.standard_normal((invocations, *shape)))
    return (1 + change) * np.abs(1 + cv * rng.standard_normal((invocations, *shape))), base


def unequal(count: int) -> Section:
    """Simulate false alarms of compare, A against A: unequal numbers of runs, skewed values."""
    title = "roslens compare with unequal numbers of runs"
    results = []
    sizes = ((3, 10), (10, 3), (5, 20), (20, 5), (3, 3))
    for shape, sd, (n, m), cells in product(
        ("normal", "lognormal", "gamma", "exponential"), (0.1, 0.6), sizes, (1, CELLS)
    ):
        if shape == "normal" and sd > SYMMETRIC_UP_TO:
            continue
        rng = generator("unequal", shape, sd, n, m, cells)
        codes = codes_of(partial(_positive, rng, (shape, sd), cells, (n, m)), count)
        cell = {
            "runs differ by": shape,
            "sd": f"{sd:g}",
            "new": f"{n} runs",
            "base": f"{m} runs",
            "cells": f"{cells} cell{'s' * (cells > 1)}",
        }
        alarms = int((codes == 1).sum())
        results.append(Result(title, cell, "exit 1", alarms, count, None, 0.05))
    text = "A is compared with itself, with a threshold of 5 %: exit 1 is a false alarm."
    return Section(title, text, ("cells",), results)


def _positive(
    rng: np.random.Generator,
    kind: tuple[str, float],
    cells: int,
    runs: tuple[int, int],
    invocations: int,
) -> tuple[Floats, Floats]:
    new, base = (positive_values(rng, *kind, (invocations, cells, n)) for n in runs)
    return new, base


def by_code(title: str, cell: dict[str, str], codes: Ints, *, injected: bool) -> list[Result]:
    """Return a result per exit code; exit 1 must come in 95 % of regressions and 5 % of A/A."""
    bar: dict[int, tuple[float | None, float | None]] = {
        1: (0.95, None) if injected else (None, 0.05)
    }
    return [
        Result(
            title,
            cell,
            f"exit {code}",
            int((codes == code).sum()),
            codes.size,
            *bar.get(code, (None, None)),
        )
        for code in (0, 1, 3)
    ]


def splits(pools: Sequence[Floats], count: int, name: str) -> Section:
    """Count exit codes of compare on pieces of real recordings, split at random: A against A.

    Parameters
    ----------
    pools
        One per cell: a statistic of each piece of its runs, in an arbitrary order, at least 6.
    name
        Name of what was recorded.
    """
    title = f"roslens compare on splits of real recordings, {name}"
    results = []
    drawn = generator("splits", name).permutation(len(pools))
    for first in range(0, len(pools), CELLS):
        chosen = [pools[i] for i in drawn[first : first + CELLS]]
        if len(chosen) < CELLS and first:
            break
        half = min(pool.size // 2 for pool in chosen)
        codes = codes_of(partial(_split, generator("split", name, first), chosen, half), count)
        cell = {
            "cells": f"{len(chosen)}, from the {first + 1}.",
            "runs": str(half),
        }
        results += by_code(title, cell, codes, injected=False)
    text = (
        "Every run is cut into pieces of equal numbers of messages, and each piece gives one "
        "statistic. The pieces of a cell are dealt to BASE and NEW at random, so that nothing but "
        "chance distinguishes the sides. Shapes, drifts and outliers are real; the threshold is "
        "5 %."
    )
    return Section(title, text, (), results)


def _split(
    rng: np.random.Generator, pools: Sequence[Floats], half: int, invocations: int
) -> tuple[Floats, Floats]:
    tiled = (np.tile(pool, (invocations, 1)) for pool in pools)
    dealt = np.stack([rng.permuted(pool, axis=1)[:, : 2 * half] for pool in tiled], 1)
    return dealt[..., :half], dealt[..., half:]


def leaks(count: int) -> Section:
    """Simulate false alarms and power of the verdict on memory."""
    title = "Leaks"
    seconds = np.arange(0, 600.0, 4.0)
    results = []
    for phi in (0.0, 0.5, 0.9, 0.97):
        alarms, stated = _climbing(seconds, phi, 0.0, count)
        detected, _ = _climbing(seconds, phi, stated, count)
        cell = {"phi": f"{phi:g}", "minimum detectable": f"{stated:,.0f} B/s"}
        results.append(Result(title, cell, "false alarms", alarms, count, None, 0.06))
        results.append(Result(title, cell, "power there", detected, count, 0.75, 0.85))
    text = (
        "Five runs have 150 samples each over 600 s, stationary AR(1) noise of 300 kB, and a "
        "margin of 1 B/s. The minimum detectable is the mean of what these experiments state; this "
        "slope is injected into others."
    )
    return Section(title, text, (), results)


def _climbing(seconds: Floats, phi: float, slope: float, count: int) -> tuple[int, float]:
    """Return how many experiments climb, and the mean of the least slope that they state."""
    rng = generator("leak", phi, slope > 0)
    hits, stated = 0, 0.0
    for _ in range(count):
        noise = 300e3 * autoregressive(rng, (5, seconds.size), phi)
        runs = [Series(seconds, 5e7 + slope * seconds + row) for row in noise]
        judged = leak("heap", {}, runs, margin=1.0)
        hits += judged.verdict == "climbs"
        stated += not_none(judged.per_second.minimum_detectable)
    return hits, stated / count


PIECES = 4
"""Number of pieces of each run; with three runs per cell 12, six for either side."""

STATISTICS: Mapping[str, Callable[[Floats], float]] = {
    "mean": lambda values: float(values.mean()),
    "P50": lambda values: quantile(values, 0.5),
    "P90": lambda values: quantile(values, 0.9),
}

LEAST = 30
"""Least number of samples per piece: the least for a P90 (29) and one more."""


def pools(
    messages: pl.LazyFrame,
    callbacks: pl.LazyFrame,
    runs: Sequence[Run],
    pieces: int = PIECES,
) -> dict[str, Floats]:
    """Return statistics of pieces of the runs of each cell, by cell, series and statistic.

    Parameters
    ----------
    messages, callbacks
        The tables ``messages`` and ``callback_instances`` with a column ``run``.
    pieces
        Number of pieces, of equal numbers of samples, that each run is cut into.

    Returns
    -------
    One array per name, one value per piece: latencies by topic, durations by callback. Runs with
    fewer than `LEAST` samples per piece are left out, and so are series that never vary.
    """
    latencies = messages.filter(
        (pl.col("outcome") == "delivered") & ~pl.col("topic").is_in(INFRASTRUCTURE)
    ).select("run", series="topic", at="publish_ns", value="latency_ns")
    durations = callbacks.filter(~pl.col("name").is_in(INFRASTRUCTURE)).select(
        "run",
        series=pl.format("{} callback of {}", "kind", "name"),
        at="start_ns",
        value="duration_ns",
    )
    rows = pl.concat([latencies, durations]).drop_nulls().sort("run", "series", "at").collect()
    label = {run.name: f"{run.suite or ''} {run.label}".strip() for run in runs if run.complete}
    by_name: dict[str, list[float]] = {}
    for (run, series), part in rows.partition_by("run", "series", as_dict=True).items():
        if run not in label or part.height < pieces * LEAST:
            continue
        values = part["value"].to_numpy().astype(np.float64)
        for piece in np.array_split(values, pieces):
            for name, statistic in STATISTICS.items():
                key = f"{label[str(run)]}, {series}: {name}"
                by_name.setdefault(key, []).append(statistic(piece))
    arrays = {key: np.array(values) for key, values in by_name.items()}
    return {key: array for key, array in arrays.items() if array.size >= 6 and np.ptp(array) > 0}
