"""Bound the response times of callbacks, valid as long as the recorded load and times hold.

The published analysis of Casini et al. (*Response-Time Analysis of ROS 2 Processing Chains under
Reservation-Based Scheduling*, ECRTS 2019, Lemmas 4 and 5) uses two curves of each callback: how
often it became ready within any length of time, and how long any number of consecutive executions
took. Both are taken from the recording. The bound holds for each order of dispatch, so for all
executors that run one callback at a time, and as long as no callback becomes ready more often, is
handed over later, or takes longer than in the recording; beyond that it guarantees nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from roslens.analysis.flow.chain import Tables, flow_tables
from roslens.analysis.measures.measured_part import start_up_s
from roslens.collectors._native import response_time_bounds
from roslens.recording.arrays import Ints, np

LEAST = 3
"""Least number of executions from which curves are derived."""
MOST_JOBS = 400
"""Greatest number of consecutive executions in a curve; longer sequences are composed of these."""
THREADS = "its executor uses several threads"
NESTED = "executions on its thread overlap"
UNENDED = "the end of an execution on its thread was not recorded"
LOST = "the tracer lost something in this run, so executions may be missing"
UNKNOWN = "no event shows when it became ready"
FEW = f"fewer than {LEAST} executions after the start-up"
OVERLOAD = (
    "the largest recorded bursts and the longest executions of its thread together have no end: "
    "shorten or split its callbacks"
)
_NEVER = 2**62
_THREAD = ("host", "vpid", "vtid")
_SCHEMA = {
    "run": pl.String(), "host": pl.String(), "vpid": pl.Int32(), "vtid": pl.Int32(),
    "callback_id": pl.Int64(), "kind": pl.String(), "name": pl.String(), "node": pl.String(),
    "executions": pl.Int64(), "longest_ns": pl.Int64(), "handover_ns": pl.Int64(),
    "bound_ns": pl.Int64(), "tested": pl.Int64(), "beyond": pl.Int64(), "refused": pl.String(),
}  # fmt: skip


def callback_bounds(tables: Tables, warm_up_s: float | None = None) -> pl.DataFrame:
    """Bound the time of each callback from when it became ready to its end.

    Parameters
    ----------
    tables
        Tables of one run or of several.
    warm_up_s
        Time left out at the start of each thread, s; none: a tenth of its time, at most 5 s.

    Returns
    -------
    One row per callback of a run: ``run``, ``host``, ``vpid``, ``vtid``, ``callback_id``, ``kind``,
    ``name``, ``node``; ``executions``: the number that count; ``longest_ns``: the longest recorded
    time to ``callback_end`` from the first publish event of the message, or from when the timer was
    due (ns; null where no event shows when it became ready); ``handover_ns``: the longest recorded
    time until an idle thread took it up (ns), which is part of the bound; ``bound_ns``: the bound
    (ns), null where there is none; ``beyond`` of ``tested``: the number of executions in the second
    half of the time that took longer than a bound from the first half alone, which shows how far
    the curves had settled; ``refused``: why there is no bound.
    """
    rows = [row for thread in executor_threads(tables, warm_up_s) for row in _executions_of(thread)]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


@dataclass(frozen=True)
class Thread:
    """The executions of one thread of a run.

    Attributes
    ----------
    rows
        The executions in order. ``ready`` (ns): when each became ready, null where that is not
        ``known``; ``counts``: whether it is after the start-up.
    middle
        Middle of the time that counts, ns.
    refused
        Why no callback of the thread has a bound.
    """

    rows: pl.DataFrame
    middle: int
    refused: str | None

    @property
    def first_and_second_half(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The rows, first with only executions of the first half counting, then of the second."""
        early = pl.col("start_ns") < self.middle
        return (
            self.rows.with_columns(pl.col("counts") & early),
            self.rows.with_columns(pl.col("counts") & ~early),
        )


def executor_threads(tables: Tables, warm_up_s: float | None = None) -> list[Thread]:
    """Return the threads that executed callbacks; parameters as in `callback_bounds`."""
    messages, _, instances, _ = flow_tables(tables, calls=False)
    timers, losses = pl.collect_all(
        [
            tables.table("timer_activations").select("run", "callback_instance_id", "release_ns"),
            tables.table("losses").select("run", "kind"),
        ]
    )
    on = ["run", "callback_instance_id"]
    own_host = pl.col("publisher_host").eq_missing(pl.col("subscription_host"))
    published = (
        messages.filter((pl.col("outcome") == "delivered") & own_host)
        .drop_nulls([*on, "publish_ns"])
        .group_by(on)
        .agg(pl.col("publish_ns").min())
    )
    rows = instances.join(published, on=on, how="left").join(
        timers.drop_nulls(on), on=on, how="left"
    )
    ready = pl.coalesce("publish_ns", "release_ns")
    rows = rows.with_columns(
        ready=pl.when(ready.is_not_null()).then(pl.min_horizontal(ready, "start_ns"))
    ).drop_nulls(["callback_id", "vtid"])
    ran = pl.struct(_THREAD).n_unique().over("run", "callback_id")
    rows = rows.with_columns(several=ran > 1).with_columns(
        pl.col("several").any().over("run", *_THREAD),
        lost=pl.col("run").is_in(losses["run"].implode(), nulls_equal=True),
    )
    return [
        _thread(executions, warm_up_s)
        for executions in rows.sort("start_ns", "end_ns").partition_by(
            "run", *_THREAD, maintain_order=True
        )
    ]


def _thread(rows: pl.DataFrame, warm_up_s: float | None) -> Thread:
    start, end = rows["start_ns"], rows["end_ns"]
    refused = LOST if rows["lost"][0] else THREADS if rows["several"][0] else None
    if refused is None and end.null_count():
        refused = UNENDED
    if refused is None and (start < end.shift(1)).any():
        refused = NESTED
    span_s = float(start[-1] - start[0]) / 1e9
    cut = start[0] + round((start_up_s(span_s) if warm_up_s is None else warm_up_s) * 1e9)
    rows = rows.with_columns(
        known=pl.col("ready").is_not_null(),
        counts=(pl.col("start_ns") >= cut) & (pl.col("ready").fill_null(cut) >= cut),
    )
    return Thread(rows, (cut + (end.max() or cut)) // 2, refused)


def _executions_of(thread: Thread) -> list[dict[str, object]]:
    rows = thread.rows
    callbacks = (
        rows.filter("counts")
        .group_by("callback_id", maintain_order=True)
        .agg(
            pl.col("run", "host", "vpid", "vtid", "kind", "name", "node").first(),
            pl.len().alias("executions"),
            (pl.col("end_ns") - pl.col("ready")).max().alias("longest_ns"),
        )
    )
    if thread.refused is not None:
        return callbacks.with_columns(refused=pl.lit(thread.refused)).to_dicts()
    early, late = thread.first_and_second_half
    limits = _bounds(early).select("callback_id", limit="bound_ns")
    took = pl.col("end_ns") - pl.col("ready")
    beyond = (
        late.filter("counts")
        .join(limits, on="callback_id")
        .group_by("callback_id")
        .agg(tested=took.count(), beyond=(took > pl.col("limit")).sum())
    )
    callbacks = callbacks.join(_bounds(rows), on="callback_id", how="left", maintain_order="left")
    callbacks = callbacks.join(
        beyond, on="callback_id", how="left", maintain_order="left"
    ).with_columns(
        refused=pl.when(pl.col("longest_ns").is_null())
        .then(pl.lit(UNKNOWN))
        .when(pl.col("executions") < LEAST)
        .then(pl.lit(FEW))
        .when(pl.col("bound_ns").is_null())
        .then(pl.lit(OVERLOAD))
    )
    bounded = pl.col("refused").is_null()
    return callbacks.with_columns(
        pl.when(bounded).then(name).alias(name)
        for name in ("bound_ns", "handover_ns", "tested", "beyond")
    ).to_dicts()


def _bounds(rows: pl.DataFrame) -> pl.DataFrame:
    """Return ``callback_id``, ``bound_ns``, ``handover_ns``: the lesser of two bounds, if any."""
    bounds = [
        {"callback_id": callback, "bound_ns": bound, "handover_ns": handover}
        for by_kind in (True, False)
        for callback, (bound, handover) in analysed(rows, by_kind).items()
    ]
    schema = {name: _SCHEMA[name] for name in ("callback_id", "bound_ns", "handover_ns")}
    return pl.DataFrame(bounds, schema=schema).sort("bound_ns").unique("callback_id", keep="first")


def releases(rows: pl.DataFrame) -> Ints:
    """Return when each execution of a thread became ready, or began where that is unknown (ns)."""
    return rows["ready"].fill_null(rows["start_ns"]).to_numpy()


def longest_handovers(rows: pl.DataFrame, by_kind: bool) -> Ints:
    """Return for each execution the longest time an idle thread took to take one up (ns).

    A thread is idle while no callback waits. The maximum is over executions of its kind, or over
    all.
    """
    start, end, ready = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy(), releases(rows)
    known, counts = rows["known"].to_numpy(), rows["counts"].to_numpy()
    before = np.concatenate([start[:1], end[:-1]])
    idle = _least_from_each(np.where(known, ready, _NEVER)) > before
    next_one = np.searchsorted(start, ready)
    taken_up = known & counts & idle[next_one] & counts[next_one] & (ready > before[next_one])
    took = pl.Series("took", np.where(taken_up, start[next_one] - ready, 0))
    most = pl.col("took").max()
    return (
        rows.with_columns(took)
        .with_columns(most.over("kind") if by_kind else most)["took"]
        .to_numpy()
    )


def costs(rows: pl.DataFrame, longest: Ints) -> Ints:
    """Return the thread time that each execution took (ns), given the longest handovers.

    A message on its way does not wait yet: it, or a timer that is due, is handed over after the
    longest time. Time between two executions while a callback waits is work of the executor and
    belongs to the execution that follows.
    """
    start, end, ready = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy(), releases(rows)
    before = np.concatenate([start[:1], end[:-1]])
    handed = _least_from_each(np.where(rows["known"], ready + longest, _NEVER))
    cost: Ints = end - np.maximum(before, np.minimum(start, handed))
    return cost


def analysed(rows: pl.DataFrame, by_kind: bool) -> dict[int, tuple[int, int]]:
    """Return bound and handover [ns] of each callback of a thread that has a bound."""
    longest, released = longest_handovers(rows, by_kind), releases(rows)
    cost, callbacks = costs(rows, longest), rows["callback_id"].to_numpy()
    counts = rows["counts"].to_numpy()
    places = {
        int(c): np.flatnonzero(counts & (callbacks == c)) for c in np.unique(callbacks[counts])
    }
    if not places:
        return {}
    times = [np.sort(released[of_callback]) for of_callback in places.values()]
    begin = min(int(ready[0]) for ready in times)
    handovers = [int(longest[of_callback[0]]) for of_callback in places.values()]
    bounds = response_time_bounds(
        [(ready - begin).tolist() for ready in times],
        [cost[of_callback].tolist() for of_callback in places.values()],
        handovers,
        int(rows["end_ns"].to_numpy()[counts].max()) - begin,
        MOST_JOBS,
    )
    return {
        callback: (bound + later, later)
        for callback, bound, later in zip(places, bounds, handovers, strict=True)
        if bound is not None
    }


def _least_from_each(times: Ints) -> Ints:
    """Return for each entry the least of itself and all following entries."""
    return np.minimum.accumulate(times[::-1])[::-1]
