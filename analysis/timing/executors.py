"""Find the threads and the kind of each executor, and callbacks that exclude each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl

from roslens.analysis.runs import Run
from roslens.analysis.timing.schema import OF_ONE_THREAD, ExecutorKind, TimedExecutor
from roslens.collectors.ros2.blocked import executors_of
from roslens.recording.arrays import np

EXECUTOR_NAMES: Mapping[str, ExecutorKind] = {
    "single": "SingleThreaded", "singlethreaded": "SingleThreaded",
    "multi": "MultiThreaded", "multithreaded": "MultiThreaded",
    "events": "Events", "events_cbg": "EventsCBG", "eventscbg": "EventsCBG",
    "eventscbgmultithreaded": "EventsCBG",
}  # fmt: skip
"""Executor kinds by their names, in lower case, in the factor ``executor`` of suites."""
ON_WAIT_SETS = ("SingleThreaded", "MultiThreaded")
_THREAD = ("host", "vpid", "vtid")


def recorded_executors(
    rows: pl.DataFrame, intervals: pl.DataFrame, run: Run
) -> list[TimedExecutor]:
    """Group threads that executed the same callbacks, in the order of their first execution.

    Parameters
    ----------
    rows
        Executions in order: ``host``, ``vpid``, ``vtid``, ``callback_id``, ``start_ns``,
        ``end_ns``.
    intervals
        ``executor_intervals`` of the run.
    """
    is_known, intervals = not intervals.is_empty(), on_wait_sets(intervals)
    pairs = rows.select(*_THREAD, "callback_id").unique(maintain_order=True)
    members = executors_of(
        ((host, vpid, vtid), callback) for host, vpid, vtid, callback in pairs.iter_rows()
    )
    first = dict.fromkeys(
        tuple(members[host, vpid, vtid]) for host, vpid, vtid, _ in pairs.iter_rows()
    )
    waiting = set(intervals.select(_THREAD).unique().iter_rows())
    waits = intervals.select(*_THREAD, start_ns="begin_ns", end_ns="end_ns").drop_nulls()
    spans = (
        pl.concat([rows.select(*_THREAD, "start_ns", "end_ns"), waits])
        .group_by(_THREAD)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
    )
    active = {(host, vpid, vtid): span for host, vpid, vtid, *span in spans.iter_rows()}
    return [
        _executor(
            threads,
            _most_at_once([active[thread] for thread in threads]),
            not waiting.isdisjoint(threads),
            run,
            is_known=is_known,
        )
        for threads in first
    ]


def _most_at_once(spans: Sequence[Sequence[int]]) -> int:
    """Return how many of the threads were active at once; one thread may follow another."""
    return max(1, *(sum(a <= start < b for a, b in spans) for start, _ in spans))


def _executor(
    threads: Sequence[tuple[str, int, int]], count: int, waits: bool, run: Run, *, is_known: bool
) -> TimedExecutor:
    host, vpid, _ = threads[0]
    kind: ExecutorKind
    kind_from: Literal["manifest", "events", "guess"] = "manifest"
    named = EXECUTOR_NAMES.get(str(run.cell.get("executor")).lower())
    if named is not None and (count == 1 or named not in OF_ONE_THREAD):
        kind = named
        threads_named = run.cell.get("threads")
        if named not in OF_ONE_THREAD and isinstance(threads_named, int):
            count = max(count, threads_named)
    else:
        # An executor without events is of another kind than those with them, if any has them.
        kind_from = "events" if is_known else "guess"
        several = count > 1
        kind = ("MultiThreaded" if several else "SingleThreaded") if waits else (
            "EventsCBG" if several else "Events"
        )  # fmt: skip
    return TimedExecutor(
        kind=kind,
        kind_from=kind_from,
        threads=count,
        host=host,
        vpid=vpid,
        vtids=[vtid for _, _, vtid in threads],
    )


def with_executor(rows: pl.DataFrame, executors: Sequence[TimedExecutor]) -> pl.DataFrame:
    """Add ``executor``, the number of the executor, to executions."""
    numbers = pl.DataFrame(
        [
            (executor.host, executor.vpid, vtid, number)
            for number, executor in enumerate(executors)
            for vtid in executor.vtids
        ],
        schema={
            "host": pl.String, "vpid": pl.Int32, "vtid": pl.Int32, "executor": pl.Int64,
        },
        orient="row",
    )  # fmt: skip
    return rows.join(numbers, on=_THREAD, how="left", maintain_order="left")


def grouped(rows: pl.DataFrame) -> pl.DataFrame:
    """Add ``group`` and ``reentrant``, as far as they show, and ``excluding`` to executions.

    No event states a callback group. A callback that ran at the same time as itself is reentrant,
    and one that ran at the same time as an earlier one of its node is in another group.
    ``excluding`` is the assumed group: where nothing shows it, that of the callback's node, as by
    default.
    """
    pairs = _concurrent_pairs(rows)
    reentrant = sorted({a for a, b in pairs if a == b})
    separate = sorted({max(a, b) for a, b in pairs if a != b} - set(reentrant))
    own_group = pl.format("{}#{}", pl.col("node").fill_null("?"), "callback_id")
    of_node = pl.format("{}|{}", "executor", pl.col("node").fill_null("?"))
    shown = pl.col("callback_id").is_in([*reentrant, *separate])
    return rows.with_columns(
        group=pl.when(shown).then(own_group),
        reentrant=pl.when(pl.col("callback_id").is_in(reentrant)).then(pl.lit(value=True)),
        excluding=pl.when(shown).then(own_group).otherwise(of_node),
    )


def _concurrent_pairs(rows: pl.DataFrame) -> set[tuple[int, int]]:
    """Return pairs of callbacks of one node that ran at the same time."""
    pairs: set[tuple[int, int]] = set()
    for of_node in rows.sort("start_ns", "end_ns").partition_by("host", "vpid", "node"):
        places = np.arange(of_node.height)
        # All that started after an execution and before its end ran beside it.
        ended = of_node["start_ns"].search_sorted(of_node["end_ns"], "left").to_numpy()
        counts = np.maximum(ended.astype(np.int64) - places - 1, 0)
        later = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts - places - 1, counts)
        callbacks = of_node["callback_id"]
        overlaps = pl.DataFrame({"a": callbacks[np.repeat(places, counts)], "b": callbacks[later]})
        pairs |= set(overlaps.unique().iter_rows())
    return pairs


def on_wait_sets(intervals: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of ``executor_intervals`` of threads that ever waited on a wait set."""
    waiting = intervals.filter(pl.col("timeout_ns").is_not_null()).select(_THREAD).unique()
    return intervals.join(waiting, on=_THREAD, how="semi", maintain_order="left")


def wait_set_places(rows: pl.DataFrame, intervals: pl.DataFrame) -> dict[int, int]:
    """Return each callback's place among those of its kind in its executor's wait set.

    The place is the order in which callbacks were added. It shows in the executions between two
    waits: each callback runs once, in that order. Callbacks are ranked by how many others came
    after them more often than before them (Copeland's method), and by number where this does not
    decide.

    Parameters
    ----------
    rows
        Executions: ``executor``, ``callback_id``, ``kind``, ``intra_process``, ``start_ns``.
    intervals
        Intervals from `on_wait_sets`, with ``executor``.

    Returns
    -------
    Places by ``callback_id``, from 0; executors that wait without a wait set have none.
    """
    waits = intervals.filter(pl.col("state") == "wait")
    places: dict[int, int] = {}
    kinds = rows.group_by("executor", "kind", pl.col("intra_process").fill_null(value=False))
    for (executor, *_), executions in kinds:
        begins = waits.filter(pl.col("executor") == executor)["begin_ns"].sort()
        if begins.len():
            places |= _ranked(executions.sort("start_ns"), begins)
    return places


def _ranked(rows: pl.DataFrame, begins: pl.Series) -> dict[int, int]:
    callbacks = rows["callback_id"].unique().sort()
    places = np.searchsorted(callbacks.to_numpy(), rows["callback_id"].to_numpy())
    rounds = np.searchsorted(begins.to_numpy(), rows["start_ns"].to_numpy(), "right")
    before = np.zeros((len(callbacks), len(callbacks)), dtype=np.int64)
    for executed in np.split(places, np.flatnonzero(np.diff(rounds)) + 1):
        first, second = np.triu_indices(len(executed), 1)
        np.add.at(before, (executed[first], executed[second]), 1)
    won = np.sign(before - before.T).sum(axis=1)
    order = np.argsort(-won, kind="stable")
    return {int(callbacks[int(number)]): place for place, number in enumerate(order)}
