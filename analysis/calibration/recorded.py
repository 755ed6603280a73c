"""Statistics of pieces of recorded runs, to hold A against A."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import polars as pl

from roslens.analysis.calibration.series import Floats
from roslens.analysis.runs import Run
from roslens.analysis.statistics.quantiles import quantile
from roslens.collectors.topics import INFRASTRUCTURE

PIECES = 4
"""Of each run; with three runs per cell 12, six for either side."""

STATISTICS: Mapping[str, Callable[[Floats], float]] = {
    "mean": lambda x: float(x.mean()),
    "P50": lambda x: quantile(x, 0.5),
    "P90": lambda x: quantile(x, 0.9),
}

LEAST = 30
"""Samples per piece: the least for a P90 (29) and one more."""


def pools(
    messages: pl.LazyFrame,
    callbacks: pl.LazyFrame,
    runs: Sequence[Run],
    pieces: int = PIECES,
) -> dict[str, Floats]:
    """Statistics of pieces of the runs of each cell, by cell, series and statistic.

    Parameters
    ----------
    messages, callbacks
        The tables ``messages`` and ``callback_instances`` with a column ``run``.
    pieces
        Each run is cut into so many pieces of equal numbers of samples.

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
    found: dict[str, list[float]] = {}
    for (run, series), part in rows.partition_by("run", "series", as_dict=True).items():
        if run not in label or part.height < pieces * LEAST:
            continue
        values = part["value"].to_numpy().astype(np.float64)
        for piece in np.array_split(values, pieces):
            for name, statistic in STATISTICS.items():
                key = f"{label[str(run)]}, {series}: {name}"
                found.setdefault(key, []).append(statistic(piece))
    arrays = {key: np.array(values) for key, values in found.items()}
    return {key: x for key, x in arrays.items() if x.size >= 6 and np.ptp(x) > 0}
