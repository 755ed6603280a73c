"""Find late messages, and what took longer than usual in each, also over runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from roslens.analysis.estimate import Estimate, Metric, largest_first
from roslens.analysis.path.kinds import CODE, KIND, KINDS
from roslens.analysis.path.path import Paths
from roslens.analysis.reports.numbers import counted, duration
from roslens.analysis.runs import Run, cells_of
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.statistics.quantiles import least_samples, quantile
from roslens.recording.arrays import Floats, Ints, np

LATE_ABOVE = 0.99
"""Without a deadline, a message above this quantile of its subscription in its run is late."""
_WAITED: Mapping[str, str] = {
    "publishing": "it spent {time} in the publishing call of {publisher}",
    "transport": "it was on its way for {time}",
    "queue": "it waited {time} behind earlier messages of the same subscription",
    "callback_group": "it waited {time} for the {who}, which is in the same mutually exclusive "
    "group",
    "executor": "it waited {time} for the {who}, which ran on the same thread",
    "lock": "it waited {time} for the lock of its executor",
    "preempted": "its thread could have gone on for {time}, and {who} had its CPU",
    "interrupt": "interrupts took {time} on the CPU of its thread, first of all {who}",
    "futex": "its thread slept {time} until {who} woke it",
    "syscall": "its thread slept {time} in a system call",
    "page_fault": "page faults took {time} of its thread",
    "disk": "its thread waited {time} as for a disk, and no signal could wake it",
    "throttled": "its cgroup had used up its CPU time for {time}",
    "running": "the callback itself ran {time}",
    "transport_or_waiting": "it was on its way or waiting for {time}",
    "unexplained": "it waited {time} for something that nothing recorded explains",
}
_OF_FEW = "the P99 of its subscription's few messages"
_NOBODY = {
    "executor": "it waited {time} for the overhead of its executor",
    "preempted": "its thread could have gone on for {time}, and had no CPU",
    "futex": "its thread slept {time} until another thread woke it",
}
_SCHEMA: Mapping[str, pl.DataType] = {
    "message_id": pl.Int64(), "subscription_id": pl.Int64(), "topic": pl.String(),
    "subscription_node": pl.String(), "publish_ns": pl.Int64(), "latency_ns": pl.Int64(),
    "late_by_ns": pl.Int64(), "cause": KIND, "share": pl.Float64(), "who": pl.String(),
    "sentence": pl.String(),
}  # fmt: skip
_VERDICT = {name: _SCHEMA[name] for name in ("cause", "share", "who", "sentence")}


@dataclass(frozen=True)
class Late:
    """The late messages of a run.

    Attributes
    ----------
    messages
        Rows of `Paths.messages`, with ``latency_ns`` and ``few`` (whether their subscription has
        too few messages for the limit to be called its P99).
    path
        Paths of these messages, as `Paths.of` returns them; ``message`` is the row of `messages`.
    late_by
        Time beyond the limit in ns, shape (messages,).
    spent
        Time by kind in ns, in the order of `KINDS`, shape (messages, kinds).
    excess
        Time of each kind beyond the usual in ns, shape (messages, kinds).
    judged
        Number of messages of which it can be told whether they were late.
    untold
        Number of messages between hosts whose clocks may be as far apart as those are from the
        limit. They are not counted in `judged`.
    left_out
        Number of messages before `since_ns`, which are counted in neither.
    limit
        The limit as text.
    to_start
        Whether all times end at callback_start instead of callback_end.
    """

    messages: pl.DataFrame
    path: pl.DataFrame
    late_by: Floats
    spent: Floats
    excess: Floats
    judged: int
    untold: int
    left_out: int
    limit: str = "its P99"
    to_start: bool = False

    @cached_property
    def cause(self) -> Ints:
        """Code of the kind with most excess; unexplained where no kind took longer than usual."""
        most = self.excess.argmax(1) if len(self.excess) else np.empty(0, np.int64)
        return np.where(self.excess.sum(1) > 0, most, CODE["unexplained"])

    @cached_property
    def with_causes(self) -> pl.DataFrame:
        """`messages` with ``late_by_ns``, ``cause``, ``share``, ``who`` and ``sentence``."""
        names = np.array(list(KINDS))
        total = self.excess.sum(1)
        most = self.excess.max(1, initial=0)
        share = np.divide(most, total, out=np.full(total.size, np.nan), where=total > 0)
        rows = self.messages.with_row_index("message").with_columns(
            pl.col("message").cast(pl.Int64),
            pl.Series("late_by_ns", self.late_by.round().astype(np.int64)),
            pl.Series("cause", names[self.cause], dtype=pl.String).cast(KIND),
            pl.Series("share", share).fill_nan(None),
            pl.Series("spent_ns", self.spent[np.arange(total.size), self.cause]),
        )
        by_nobody = pl.col("by_ns").filter(pl.col("who").is_null()).sum().over("message")
        who = (
            self.path.join(rows.select("message", kind="cause"), on=["message", "kind"])
            .group_by("message", "who", "who_node", maintain_order=True)
            .agg(pl.col("duration_ns").sum().alias("by_ns"))
            .with_columns(told=by_nobody <= pl.col("by_ns").sum().over("message") / 2)
            .sort(pl.col("who").is_null(), -pl.col("by_ns"), maintain_order=True)
            .unique("message", keep="first")
            .select("message", "by_ns", who=pl.when("told").then("who"))
        )
        rows = rows.join(who, on="message", how="left", maintain_order="left")
        sentences = pl.Series(
            "sentence",
            [_sentence(row, self) for row in rows.iter_rows(named=True)],
            pl.String,
        )
        return rows.with_columns(sentences)

    def frame(self) -> pl.DataFrame:
        """Return one row per message, the worst first, with its cause and a sentence."""
        return self.with_causes.select(
            pl.col(name).cast(kind) for name, kind in _SCHEMA.items()
        ).sort("late_by_ns", descending=True, maintain_order=True)


def late_messages(
    paths: Paths,
    deadline_ns: int | None = None,
    *,
    among: pl.Expr | None = None,
    chosen: pl.Expr | None = None,
    since_ns: int = 0,
    to_start: bool = False,
) -> Late:
    """Find the late messages of a run, and what took longer than usual.

    The usual time of a kind is its median among messages of the same subscription that were not
    late, at most `MOST_USUAL` of them, spread evenly over the run. With fewer than `LEAST_USUAL`
    such messages it is 0, so all time counts. Only late messages and this sample get a path.

    A message is late from 1 ns beyond the limit on, and between hosts if it is further beyond it
    than their clocks may be apart.

    Parameters
    ----------
    deadline_ns
        Limit from publish to callback_end; none: the P99 of the subscription in this run.
    among
        Filter on the columns that `Paths.messages` and `Paths.without_times` share; none: all
        messages.
    chosen
        Filter for messages to return instead, whether late or not.
    since_ns
        Messages published before this time are left out, unless they are chosen.
    to_start
        Whether all times end at callback_start instead of callback_end.
    """
    end = pl.col("callback_start_ns" if to_start else "callback_end_ns")
    rows = paths.messages.with_columns((end - pl.col("publish_ns")).alias("latency_ns"))
    rows = rows.with_row_index("row")
    without_times = paths.without_times
    if among is not None:
        rows, without_times = rows.filter(among), without_times.filter(among)
    count = rows.height + without_times.height
    warm = pl.col("publish_ns") >= since_ns
    without_times = without_times.filter(warm)
    rows = rows.filter(warm if chosen is None else warm | chosen)
    keys = rows["subscription_id"].fill_null(-1).to_numpy()
    order = np.argsort(keys, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(keys[order])) + 1) if keys.size else []
    latency = rows["latency_ns"].to_numpy().astype(np.float64)
    bound = rows["clock_bound_ns"].to_numpy().astype(np.float64)
    late_by = np.zeros(latency.size)
    few = np.zeros(latency.size, bool)
    asked = None if chosen is None else rows.select(chosen.fill_null(value=False)).to_series()
    kept = np.zeros(latency.size, bool) if asked is None else asked.to_numpy()
    usual_of: list[tuple[Ints, Ints]] = []
    for group in groups:
        allowed = quantile(latency[group], LATE_ABOVE) if deadline_ns is None else deadline_ns
        late_by[group] = latency[group] - allowed
        few[group] = deadline_ns is None and group.size < least_samples(LATE_ABOVE)
        in_time = group[late_by[group] <= 0]
        if asked is None:
            kept[group] = (late_by[group] >= 1) & (late_by[group] > bound[group])
        if in_time.size >= LEAST_USUAL and kept[group].any():
            at = np.linspace(0, in_time.size - 1, min(in_time.size, MOST_USUAL)).round()
            usual_of.append((group, in_time[at.astype(np.int64)]))
    late = np.flatnonzero(kept)
    needed = np.unique(np.concatenate([late, *(sample for _, sample in usual_of)]))
    number = rows["row"].to_numpy().astype(np.int64)
    path = paths.segments_of(number[needed], to_start=to_start)
    place = np.searchsorted(number[needed], path["message"].to_numpy())
    cell = place * len(KINDS) + path["kind"].to_physical().to_numpy()
    spent = np.bincount(cell, path["duration_ns"].to_numpy(), needed.size * len(KINDS))
    spent = spent.reshape(needed.size, len(KINDS))
    is_late, usual = kept[needed], np.zeros((needed.size, len(KINDS)))
    for group, sample in usual_of:
        usual[np.isin(needed, group)] = np.median(spent[np.searchsorted(needed, sample)], 0)
    message = pl.Series("message", np.searchsorted(late, needed[place]))
    excess = np.maximum(spent - usual, 0)[is_late]
    path = path.with_columns(message).filter(is_late[place])
    limit = "its P99" if deadline_ns is None else "the deadline"
    left_out = count - rows.height - without_times.height
    within = int(((bound > 0) & (np.abs(late_by) <= bound)).sum())
    rows = rows.with_columns(few=few)
    return Late(
        rows[late], path, late_by[late], spent[is_late], excess, rows.height - within,
        within + without_times.height, left_out, limit, to_start,
    )  # fmt: skip


def explained(worst: pl.DataFrame, paths: Callable[[str], Paths]) -> pl.DataFrame:
    """Explain why some messages were late, from publish to callback_start.

    Parameters
    ----------
    worst
        ``run``, ``callback_instance_id`` (of the callback that received the message), and more.
    paths
        Returns the paths of a run by its name.

    Returns
    -------
    `worst` with ``cause``, ``share``, ``who`` and ``sentence``, as in ``run.why``; null for a
    message without a path.
    """
    number = "callback_instance_id"
    parts = [pl.DataFrame(schema={"run": pl.String, number: pl.Int64, **_VERDICT})]
    for (run,), rows in worst.group_by("run", maintain_order=True):
        late = late_messages(
            paths(str(run)), chosen=pl.col(number).is_in(rows[number].implode()), to_start=True
        )
        verdicts = late.with_causes.select(
            pl.lit(run).alias("run"), pl.col(number).cast(pl.Int64), *_VERDICT
        )
        parts.append(verdicts.unique(number, keep="first"))
    return worst.join(pl.concat(parts), on=["run", number], how="left", maintain_order="left")


_NEARLY_ALL = 0.9
"""If one thread or callback has less than this part of a cause's time, the total is named, too."""
LEAST_USUAL = 10
MOST_USUAL = 1000
"""Least and most messages in time from which the usual time is derived."""


def _sentence(row: Mapping[str, Any], late: Late) -> str:
    """Return ``/scan took 52.4 ms until the callback of /planner ended, 42.1 ms more than ...``."""
    more = "more" if row["late_by_ns"] > 0 else "less"
    compared = f"{duration(abs(row['late_by_ns']))} {more} than" if row["late_by_ns"] else "as"
    node = row["subscription_node"]
    sentence = (
        f"{row['topic'] or 'A message'} took {duration(row['latency_ns'])} until "
        f"{f'the callback of {node}' if node else 'its callback'} "
        f"{'began' if late.to_start else 'ended'}, {compared} "
        f"{_OF_FEW if row['few'] else late.limit}"
    )
    if row["clock_bound_ns"]:
        sentence += f", within {duration(row['clock_bound_ns'])} by the clocks of its hosts"
    if row["share"] is None:
        return f"{sentence}: no part of it took longer than usual"
    kind = row["cause"]
    nobody = row["who"] is None
    words = _NOBODY.get(kind, _WAITED[kind]) if nobody else _WAITED[kind]
    everything = nobody or kind == "interrupt" or row["by_ns"] is None
    spent = row["spent_ns"] if everything else row["by_ns"]
    sentence = f"{sentence}: " + words.format(
        publisher=row["publisher_node"] or "its publisher", who=row["who"], time=duration(spent)
    )
    if spent < _NEARLY_ALL * row["spent_ns"]:
        sentence += f"; {duration(row['spent_ns'])} in all"
    return sentence


def untold_in_words(late: Iterable[Late]) -> str | None:
    """Say of how many messages it cannot be told whether they were late; None if of all it can."""
    untold = sum(of_run.untold for of_run in late)
    if not untold:
        return None
    whether = "it was" if untold == 1 else "they were"
    return (
        f"Of {counted(untold, 'message')} between hosts it cannot be told whether {whether} late: "
        "the clocks of the hosts may be as far apart as that (roslens info)."
    )


def lateness_by_cause(runs: Sequence[Run], late: Mapping[str, Late]) -> list[Estimate]:
    """Return ``lateness_<cause>`` of each cell, the largest first, without causes of no share.

    Parameters
    ----------
    late
        Late messages by run name. Runs without lateness have no shares and are left out.
    """
    estimates: list[Estimate] = []
    for members in cells_of(runs).values():
        each = [late[run.name].excess.sum(0) for run in members]
        with_excess = [ns for ns in each if ns.sum() > 0]
        if not with_excess:
            continue
        shares = np.stack([ns / ns.sum() for ns in with_excess])
        count = sum(len(late[run.name].excess) for run in members)
        of_cell = [
            value_over_runs(_metric(kind), members[0].cell, shares[:, code].tolist(), count)
            for code, kind in enumerate(KINDS)
            if shares[:, code].any()
        ]
        estimates += sorted(of_cell, key=largest_first)
    return estimates


def _metric(kind: str) -> Metric:
    definition = (
        f"share of {kind} in what late messages took beyond the usual, publish -> callback_end"
    )
    return Metric(f"lateness_{kind}", definition, "1", None, "fraction")
