"""Estimate which functions hold climbing memory, if call paths of allocations were recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from roslens.analysis.estimate import Cell, Estimate, Metric, largest_first
from roslens.analysis.leaks.leak import Leak
from roslens.analysis.leaks.series import Series
from roslens.analysis.measures.callbacks import number_namesakes
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.recording.arrays import np

GROWTH = Metric(
    "site_growth",
    "Theil and Sen's slope of the bytes that a function has allocated and not freed, over the time "
    "looked at, mean over runs",
    "byte/s",
    scale="signed",
)
_SITE = ("function", "file", "line", "module", "called_by")
_MOST = 10
"""Most functions of a cell that are looked at: those that gained most."""


def growth_of_sites(
    sites: pl.LazyFrame,
    begins: Mapping[str, int],
    leaks: Sequence[Leak],
    runs: Sequence[Run],
    level: float = 0.95,
) -> list[Estimate]:
    """Estimate ``site_growth`` of the functions that gained memory, the largest first.

    Cells gain ``function`` and ``called_by``. A function that held nothing in a run whose call
    paths were recorded has a known slope of 0 there.

    Parameters
    ----------
    sites
        The table ``allocation_sites`` with ``run``.
    begins
        Time in ns from which the seconds of `leaks` count, by name of the run.
    leaks
        One leak per cell, which says between which seconds to look.

    Returns
    -------
    At most `_MOST` per cell; none for cells in which nothing was recorded.
    """
    rows = sites.sort("run", "time_ns").collect()
    looked_at = {
        str(leak.per_second.cell): leak.looked_at_s
        for leak in leaks
        if leak.looked_at_s[1] > leak.looked_at_s[0]
    }
    estimates = []
    for members in cells_of(runs).values():
        cell = members[0].cell
        recorded = [
            (begins[run.name], rows.filter(pl.col("run") == run.name))
            for run in members
            if run.name in begins
        ]
        recorded = [(begin, frame) for begin, frame in recorded if frame.height]
        if recorded:
            # If too few memory samples give no slope, look at all of the time.
            longest = max(
                (int(frame["time_ns"].to_numpy()[-1]) - begin) / 1e9 for begin, frame in recorded
            )
            estimates += _estimates_of_cell(
                cell, recorded, looked_at.get(str(cell), (0.0, longest)), level
            )
    return sorted(estimates, key=largest_first)


def _estimates_of_cell(
    cell: Cell,
    runs: Sequence[tuple[int, pl.DataFrame]],
    window: tuple[float, float],
    level: float,
) -> list[Estimate]:
    held = [_bytes_held(frame, begin, window) for begin, frame in runs]
    gained: dict[tuple[object, ...], float] = {}
    for of_run in held:
        for site, series in of_run.items():
            gained[site] = gained.get(site, 0.0) + float(series.values[-1] - series.values[0])
    most = sorted((key for key in gained if gained[key] > 0), key=lambda key: -gained[key])[:_MOST]
    estimates = []
    for site in most:
        seen = [by_site[site] for by_site in held if site in by_site]
        slopes = [run.slope for run in seen] + [0.0] * (len(held) - len(seen))
        function, file, line, module, called_by = site
        place = f"{file}:{line}" if file else module
        about = {
            "function": f"{short_name(str(function or '(unknown)'))} ({place})",
            "called_by": str(called_by),
        }
        samples = sum(run.values.size for run in seen)
        estimates.append(value_over_runs(GROWTH, {**cell, **about}, slopes, samples, level))
    return [e for e in estimates if e.value is not None and e.value > 0]


def short_name(function: str) -> str:
    """Return the name of a C++ function without template arguments and parameters."""
    name, depth = "", 0
    for character in function.partition("(anonymous namespace)::")[2] or function:
        if character == "(" and not depth:
            break
        depth += (character == "<") - (character == ">")
        if not depth and character != ">":
            name += character
    return name if name and not depth else function


def _bytes_held(
    frame: pl.DataFrame, begin_ns: int, window: tuple[float, float]
) -> dict[tuple[object, ...], Series]:
    """Return what each function held at each step looked at, over all paths and processes."""
    gains = frame.with_columns(
        gain=pl.col("live_bytes")
        .diff()
        .over("host", "vpid", *_SITE, "path")
        .fill_null(pl.col("live_bytes"))
    )
    first, last = (begin_ns + round(second * 1e9) for second in window)
    steps = np.unique(frame["time_ns"].to_numpy())
    steps = np.unique(np.concatenate([[first], steps[(steps > first) & (steps < last)], [last]]))
    series_by_site = {}
    for site, rows in gains.partition_by(_SITE, as_dict=True).items():
        total = np.concatenate([[0], np.cumsum(rows["gain"].to_numpy())])
        at = np.searchsorted(rows["time_ns"].to_numpy(), steps, side="right")
        series_by_site[site] = Series((steps - begin_ns) / 1e9, total[at].astype(np.float64))
    return series_by_site


KEPT = Metric(
    "callback_kept",
    "bytes allocated in an execution of the callback and not freed by the end of the recording, "
    "mean over the executions of a run",
    "byte",
    scale="signed",
)


def kept_by_callback(
    allocations: pl.LazyFrame, instances: pl.LazyFrame, runs: Sequence[Run], level: float = 0.95
) -> list[Estimate]:
    """Estimate ``callback_kept`` of each cell and callback, those that keep most first.

    Cells gain ``callback``, its node and its name as in `number_namesakes`.

    Parameters
    ----------
    allocations, instances
        ``callback_allocations`` and ``callback_instances`` with ``run``.
    """
    names = number_namesakes(instances).select("run", "callback_instance_id", "name")
    called = pl.concat_str(
        [
            pl.col("node").fill_null("(node unknown)"),
            pl.coalesce("name", "kind", pl.lit("-")),
        ],
        separator=" ",
    )
    rows = (
        allocations.drop("name")
        .join(names, on=["run", "callback_instance_id"], how="left")
        .group_by("run", callback=called)
        .agg(kept=pl.col("kept_bytes").mean(), executions=pl.len())
        .collect()
    )
    estimates = []
    for members in cells_of(runs).values():
        of_cell = rows.filter(pl.col("run").is_in([run.name for run in members]))
        for (callback,), part in of_cell.partition_by("callback", as_dict=True).items():
            cell = {**members[0].cell, "callback": str(callback)}
            values = part["kept"].to_list()
            samples = int(part["executions"].sum())
            estimates.append(value_over_runs(KEPT, cell, values, samples, level))
    return sorted(estimates, key=largest_first)


def with_traced_heap(resources: pl.LazyFrame, heap: pl.LazyFrame) -> pl.LazyFrame:
    """Take the heap from the traced allocator for runs in which no sampler read it.

    Parameters
    ----------
    resources
        ``resources`` with ``run``.
    heap
        The ``heap`` table with ``run``: a row per step of 100 ms in which the heap changed.
    """
    sampled = resources.filter(pl.col("heap_bytes").is_not_null()).select("run").unique()
    traced = (
        heap.join(sampled, on="run", how="anti")
        .select("run", "host", "vpid", "time_ns", heap_bytes="live_bytes")
        .sort("time_ns")
    )
    from_samplers = resources.join(sampled, on="run", how="semi")
    return pl.concat([from_samplers, traced], how="diagonal")
