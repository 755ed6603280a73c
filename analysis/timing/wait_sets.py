"""In which order executors look through their wait sets, as far as it shows."""

from __future__ import annotations

import numpy as np
import polars as pl

_THREAD = ("host", "vpid", "vtid")


def on_wait_sets(intervals: pl.DataFrame) -> pl.DataFrame:
    """Of the table ``executor_intervals`` the threads that ever waited on a wait set."""
    waiting = intervals.filter(pl.col("timeout_ns").is_not_null()).select(_THREAD).unique()
    return intervals.join(waiting, on=_THREAD, how="semi", maintain_order="left")


def wait_set_places(rows: pl.DataFrame, intervals: pl.DataFrame) -> dict[int, int]:
    """The place of each callback among those of its kind in its executor's wait set.

    rclcpp keeps the entities of an executor in a hash map, whose order is that of the wait set. It
    shows in what was executed between two waits: each callback once, in that order. Callbacks are
    ranked by how many others came after them more often than before them (Copeland's method), and
    by number where nothing tells.

    Parameters
    ----------
    rows
        Executions: ``executor``, ``callback_id``, ``kind``, ``intra_process``, ``start_ns`` and
        their thread.
    intervals
        From `on_wait_sets`.

    Returns
    -------
    By ``callback_id``, from 0; none for executors that wait without a wait set.
    """
    threads = rows.select(*_THREAD, "executor").unique()
    waits = intervals.filter(pl.col("state") == "wait").join(threads, on=_THREAD)
    found: dict[int, int] = {}
    kinds = rows.group_by("executor", "kind", pl.col("intra_process").fill_null(value=False))
    for (executor, *_), of in kinds:
        begins = waits.filter(pl.col("executor") == executor)["begin_ns"].sort()
        if begins.len():
            found |= _ranked(of.sort("start_ns"), begins)
    return found


def _ranked(rows: pl.DataFrame, begins: pl.Series) -> dict[int, int]:
    known = rows["callback_id"].unique().sort()
    places = np.searchsorted(known.to_numpy(), rows["callback_id"].to_numpy())
    rounds = np.searchsorted(begins.to_numpy(), rows["start_ns"].to_numpy(), "right")
    before = np.zeros((len(known), len(known)), dtype=np.int64)
    for one in np.split(places, np.flatnonzero(np.diff(rounds)) + 1):
        first, second = np.triu_indices(len(one), 1)
        np.add.at(before, (one[first], one[second]), 1)
    won = np.sign(before - before.T).sum(axis=1)
    order = np.argsort(-won, kind="stable")
    return {int(known[int(number)]): place for place, number in enumerate(order)}
