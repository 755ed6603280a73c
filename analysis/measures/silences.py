"""Find threads that fell silent while their process lived, and programs that hang.

Nothing in a trace tells that a timer was cancelled or that a process ended. A thread therefore
counts as hung only if something was due and something else shows that the silence is not
intentional: the thread is still inside a callback, messages wait for it, or its run failed. A
silence that may be intentional is reported only if it is longer than all that was seen before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from roslens.analysis.measures.waits_for import (
    Thread,
    Wait,
    deadlocked,
    in_words,
    waits_for,
)
from roslens.analysis.reports.numbers import counted, duration, significant
from roslens.collectors.ros2.blocked import executors_of
from roslens.collectors.ros2.callbacks import is_callback
from roslens.collectors.times import LEAST_NS

TIMES = 10
"""Factor by which a silence exceeds the longest pause or execution before it, to be reported."""
LEAST_SEEN = 20
"""Least number of executions or publications that show how long pauses are."""
LEAST_SAMPLES = 3
"""Least number of samples that show whether a process used the CPU."""
LEAST_WAITING = 3
"""Least number of messages whose not being taken is no accident."""
NEEDED = ("callback_instances", "executor_intervals", "publications", "messages", "callbacks",
          "processes", "losses", "service_calls", "services", "health")  # fmt: skip
SCHEMA: Mapping[str, pl.DataType] = {
    "run": pl.String(), "state": pl.Enum(["hung", "stopped_or_hung", "ended_or_hung"]),
    "host": pl.String(), "vpid": pl.Int32(), "vtid": pl.Int32(), "process": pl.String(),
    "node": pl.String(), "callback": pl.String(), "since_ns": pl.Int64(), "until_ns": pl.Int64(),
    "silent_ns": pl.Int64(), "waiting": pl.Int64(), "sentence": pl.String(),
}  # fmt: skip

_THREAD = ["host", "vpid", "vtid"]
_PROCESS = ["host", "vpid"]


def silences(
    tables: Mapping[str, pl.LazyFrame],
    recorded_until_ns: int | None,
    sampled: pl.DataFrame,
    failure: str | None = None,
) -> pl.DataFrame:
    """Return executors and threads of one run that fell silent for longer than they did before.

    Parameters
    ----------
    tables
        The tables named in `NEEDED`.
    recorded_until_ns
        Time until which the tracer recorded; None if it does not tell. Of several hosts, each was
        recorded until its own last event.
    sampled
        ``host``, ``vpid``, ``time_ns``, ``cpu_time_ns`` (may be null): the samples of processes.
    failure
        How the run failed; None if it did not, or if that is unknown.

    Returns
    -------
    One row per thread that is still inside a callback, and per executor (all threads that ran the
    same callbacks) or other thread that fell silent: ``state``, ``host``, ``vpid``, ``vtid`` (null
    for several), ``process``, ``node``, ``callback`` (the one that the thread is inside of),
    ``since_ns``, ``until_ns`` (until when the silence is known), ``silent_ns``, ``waiting``
    (number of messages published to it since then and not taken), ``sentence``. A state is
    ``hung``; ``stopped_or_hung`` if its process lived and it may have stopped intentionally;
    ``ended_or_hung`` if nothing tells whether its process lived. The last two are reported only
    if the silence is longer than all that was seen before it. There is no row if the tracer lost
    events during the silence.
    """
    schema = {name: kind for name, kind in SCHEMA.items() if name != "run"}
    ran = tables["callback_instances"].filter(is_callback())
    tables = {**tables, "callback_instances": ran}
    processes = tables["processes"].collect()
    last_event = pl.col("end_ns").max().over("host")
    if recorded_until_ns is not None and processes["host"].n_unique() < 2:
        last_event = pl.lit(recorded_until_ns, pl.Int64)
    last = sampled.group_by(_PROCESS).agg(sampled_ns=pl.col("time_ns").max())
    alive = processes.join(last, on=_PROCESS, how="left").select(
        *_PROCESS, "begin_ns", "sampled_ns", process="procname", process_ns="end_ns",
        until_ns=pl.max_horizontal("end_ns", pl.min_horizontal("sampled_ns", last_event)),
    )  # fmt: skip
    threads = (
        _events(tables)
        .group_by(_THREAD)
        .agg(first_ns=pl.col("time_ns").min(), since_ns=pl.col("time_ns").max())
        .collect()
        .join(alive, on=_PROCESS)
    )
    waits = waits_for(tables)
    silent = threads.filter(pl.col("until_ns") - pl.col("since_ns") >= LEAST_NS)
    if silent.is_empty() and not waits:
        return pl.DataFrame(schema=schema)
    silent_threads = _Silent(tables, threads, waits, sampled, failure)
    return pl.DataFrame(list(silent_threads.rows()), schema=schema)


def _events(tables: Mapping[str, pl.LazyFrame]) -> pl.LazyFrame:
    """Return the times at which threads did something."""
    ran = tables["callback_instances"]
    return pl.concat([
        ran.select(*_THREAD, time_ns="start_ns"),
        ran.select(*_THREAD, time_ns="end_ns"),
        tables["executor_intervals"].select(*_THREAD, time_ns="begin_ns"),
        tables["publications"].select(*_THREAD, time_ns="publish_ns"),
    ]).drop_nulls()  # fmt: skip


def unfinished(ran: pl.LazyFrame, acts: pl.LazyFrame) -> pl.DataFrame:
    """Return the executions that threads have not left: nested ones after those they began in.

    An execution without an end is over, as by an exception, if its thread began something else
    since, unless its callback is known to run other work within itself, as by spinning, and did not
    begin again.

    Parameters
    ----------
    ran
        Rows of ``callback_instances``.
    acts
        ``host``, ``vpid``, ``vtid``, ``time_ns``: when threads began something.
    """
    start = pl.col("start_ns")
    open_ = ran.filter(pl.col("end_ns").is_null()).join(
        acts.group_by(_THREAD).agg(last_ns=pl.col("time_ns").max()), on=_THREAD, how="left"
    )
    nests = (
        ran.join(open_, on=[*_THREAD, "callback_id"], how="semi")
        .drop_nulls("end_ns")
        .sort("start_ns")
        .join_asof(
            acts.sort("time_ns"), left_on="start_ns", right_on="time_ns", by=_THREAD,
            strategy="forward", allow_exact_matches=False, check_sortedness=False,
        )
        .filter(pl.col("time_ns") < pl.col("end_ns"))
        .select(*_THREAD, "callback_id", nests=True)
        .unique()
    )  # fmt: skip
    again = ran.group_by(*_THREAD, "callback_id").agg(latest_ns=start.max())
    return (
        open_.join(again, on=[*_THREAD, "callback_id"], how="left", nulls_equal=True)
        .join(nests, on=[*_THREAD, "callback_id"], how="left", nulls_equal=True)
        .filter(
            (start >= pl.col("last_ns").fill_null(start))
            | (pl.col("nests").fill_null(value=False) & (start == pl.col("latest_ns")))
        )
        .drop("last_ns", "latest_ns", "nests")
        .sort("start_ns")
        .collect()
    )


class _Silent:
    """Threads of one run that are silent at its end."""

    def __init__(
        self,
        tables: Mapping[str, pl.LazyFrame],
        threads: pl.DataFrame,
        waits: Mapping[Thread, list[Wait]],
        sampled: pl.DataFrame,
        failure: str | None,
    ) -> None:
        self.failure, self.sampled = failure, sampled
        self.waits, self.stuck = waits, deadlocked(waits)
        self.losses = tables["losses"].collect()
        apart = pl.col("kind").cast(pl.String) == "clocks_not_bounded"
        self.apart = set(tables["health"].filter(apart).select("host").collect()["host"])
        self.threads = {_key(row): row for row in threads.iter_rows(named=True)}
        silent = threads.filter(pl.col("until_ns") - pl.col("since_ns") >= LEAST_NS)
        self.silent = {_key(row) for row in silent.iter_rows(named=True)}
        ran = tables["callback_instances"]
        pairs = ran.select(*_THREAD, "callback_id").unique().drop_nulls().collect()
        self.executors = executors_of([((a, b, c), callback) for a, b, c, callback in pairs.rows()])
        # Include what other threads of the same executors ran.
        callbacks = pairs.join(silent, on=_THREAD, how="semi").select("callback_id").unique()
        self.ran = ran.join(callbacks.lazy(), on="callback_id").sort("start_ns").collect()
        acts = ran.select(*_THREAD, time_ns="start_ns")
        self.inside = {
            _key(row): row
            for row in unfinished(ran, acts)
            .unique(_THREAD, keep="first", maintain_order=True)
            .iter_rows(named=True)
        }
        self.sent = (
            tables["publications"]
            .filter(pl.col("callback_instance_id").is_null())
            .join(silent.lazy().select(_THREAD), on=_THREAD)
            .sort("publish_ns")
            .collect()
        )
        open_ = tables["executor_intervals"].filter(pl.col("end_ns").is_null()).filter(
            pl.col("state").cast(pl.String) == "wait"
        )  # fmt: skip
        self.asleep = set(open_.select(_THREAD).cast({"host": pl.String}).collect().rows())
        self.subscriptions = tables["callbacks"].filter(
            pl.col("kind").cast(pl.String) == "subscription"
        ).select("callback_id", subscription_id="owner_id").collect()  # fmt: skip
        self.messages = tables["messages"].select(
            "message_id", "subscription_id", "topic", "publish_ns",
            host=pl.col("publisher_host").cast(pl.String),
            taken=pl.col("take_ns").is_not_null() | pl.col("callback_start_ns").is_not_null(),
        )  # fmt: skip

    def rows(self) -> Iterator[dict[str, Any]]:
        done: set[Thread] = set()
        for key in sorted(self.stuck - self.silent):
            row = self._ended(key)
            if row is not None:
                done.add(key)
                yield row
        for key in sorted(self.silent):
            call = self.inside.get(key)
            row = None if call is None else self._row([key], call)
            if row is not None:
                done.add(key)
                yield row
        for key in sorted(self.silent):
            executor = self.executors.get(key, [key])
            # Whatever waits for a thread inside a callback was reported with that thread.
            if done.isdisjoint(executor) and self.silent.issuperset(executor):
                done.update(executor)
                row = self._row(executor)
                if row is not None:
                    yield row

    def _was_idle(self, key: Thread, since: int, until: int, waits: list[Wait]) -> bool | None:
        """Return whether a process used less than half a CPU meanwhile; None if that is unknown.

        Its CPU use says nothing either if other threads wait for work: those of rclcpp ask again
        and again for work that their callback group keeps from them.
        """
        if any(wait.idle for wait in waits):
            return None
        samples = self.sampled.filter(
            pl.col("vpid") == key[1], pl.col("host").cast(pl.String) == key[0],
            pl.col("time_ns").is_between(since, until),
        ).drop_nulls("cpu_time_ns").sort("time_ns")  # fmt: skip
        if samples.height < LEAST_SAMPLES:
            return None
        time, used = (samples[name][-1] - samples[name][0] for name in ("time_ns", "cpu_time_ns"))
        return bool(used < time / 2)

    def _ended(self, key: Thread) -> dict[str, Any] | None:
        """Return the row of a deadlock that lasted until its program was ended, or None."""
        thread, waits = self.threads[key], self.waits[key]
        call = waits[0].call
        since, until = call["start_ns"], call["end_ns"] or thread["until_ns"]
        idle = self._was_idle(key, since, until, waits)
        if until - call["asked_ns"] < LEAST_NS or idle is False:
            return None
        if self._lost(key[0], since, until):
            return None
        reasons = "; ".join([
            self._sentence(thread, call, (since, until), None),
            *(in_words(wait, self.waits, self.stuck, idle=idle) for wait in waits),
        ])  # fmt: skip
        nodes = {call["node"]} - {None}
        return _silence(
            thread, "hung", (since, until), reasons, vtid=key[2], nodes=nodes, call=call
        )

    def _row(
        self, executor: list[Thread], call: dict[str, Any] | None = None
    ) -> dict[str, Any] | None:
        """Return the row of a thread in a callback, or of an executor or other thread, or None."""
        threads = [self.threads[key] for key in executor]
        thread = max(threads, key=lambda row: row["since_ns"])
        since = thread["since_ns"] if call is None else call["start_ns"]
        until, first = thread["until_ns"], min(row["first_ns"] for row in threads)
        members = self.executors.get(executor[0], executor)
        ran, sent = self._rows_of(members, self.ran), self._rows_of(executor, self.sent)
        timers = ran.filter(pl.col("kind").cast(pl.String) == "timer")
        due = [
            *(f"its {name} timer did not fire again"
              for name in _overdue(timers, "callback_id", "name", "start_ns", until)),
            *(f"nothing more was published on {topic}"
              for topic in _overdue(sent, "publisher_id", "topic", "publish_ns", until)),
        ]  # fmt: skip
        waiting = self._waiting(thread["host"], ran, since, until)
        not_taken = sum(count for _, count, _ in waiting)
        many = sum(overdue for _, _, overdue in waiting) >= LEAST_WAITING
        longest = None
        if call is not None:
            same = ran.filter(pl.col("callback_id") == call["callback_id"])
            longest = same.select(pl.col("duration_ns").max()).item()
        too_long = longest is not None and until - since >= max(LEAST_NS, TIMES * longest)
        waits = [] if call is None else self.waits.get(executor[0], [])
        idle = self._was_idle(executor[0], since, until, waits)
        if idle is False:
            waits = []
        stuck = executor[0] in self.stuck and any(
            until - wait.call["asked_ns"] >= LEAST_NS for wait in waits
        )
        if self._lost(thread["host"], since, until) or not (due or many or too_long or stuck):
            return None
        proven = thread["sampled_ns"] is not None
        lived = proven or thread["process_ns"] - since >= LEAST_NS
        # Ending takes a while, too.
        failed = proven and self.failure is not None and until - since >= TIMES * LEAST_NS
        if stuck or (lived and (too_long or many or failed)):
            state = "hung"
        elif until - since < since - first:
            return None
        else:
            state = "stopped_or_hung" if lived else "ended_or_hung"
        node = None if call is None else call["node"]
        nodes = {*ran["node"].drop_nulls(), *sent["node"].drop_nulls()} if node is None else {node}
        reasons = "; ".join([
            self._sentence(thread, call, (since, until), longest),
            *(in_words(wait, self.waits, self.stuck, idle=idle) for wait in waits), *due,
            *(f"{counted(count, 'message')} published on {topic} since then "
              f"{'was' if count == 1 else 'were'} not taken" for topic, count, _ in waiting),
            *(["its wait set was not woken"] if many and self.asleep.issuperset(executor) else []),
            *([f"the run failed: {self.failure}"] if failed else []),
        ])  # fmt: skip
        vtid = thread["vtid"] if len(executor) == 1 else None
        return _silence(
            thread, state, (since, until), reasons,
            vtid=vtid, nodes=nodes, call=call, waiting=not_taken,
        )  # fmt: skip

    @staticmethod
    def _sentence(
        thread: Mapping[str, Any], call: Mapping[str, Any] | None, span: tuple[int, int],
        longest: int | None,
    ) -> str:  # fmt: skip
        begin = thread["begin_ns"]
        after, whole = (significant((moment - begin) / 1e9, 3) for moment in span)
        if call is None:
            return f"it fell silent after {after} s of {whole} s"
        callback = f"the {call['kind'] or ''} callback {call['name'] or '?'}".replace("  ", " ")
        before = "" if longest is None else f", which took at most {duration(longest)} before"
        inside = f"has been inside {callback} since {after} s of {whole} s"
        if call["end_ns"] is not None:
            inside = f"was inside {callback} from {after} s until {whole} s"
        return f"its thread {thread['vtid']} {inside}{before}"

    def _lost(self, host: str, since: int, until: int) -> bool:
        lost = (pl.col("begin_ns").fill_null(since) <= until) & (
            pl.col("end_ns").fill_null(until) >= since
        )
        return not self.losses.filter(lost, pl.col("host").cast(pl.String) == host).is_empty()

    def _waiting(
        self, host: str, ran: pl.DataFrame, since: int, until: int
    ) -> list[tuple[str, int, int]]:
        """Count, by topic, the messages since `since` that were not taken.

        Topics of which none was published in time to be taken are left out; the second count is of
        those that were. A message of which the recording says that nobody subscribed to it counts,
        too: the subscription is thought to have ended with its last event. Those of another host
        do not count if nothing bounds how far its clock and that of `host` are apart.
        """
        far = pl.lit(value=True) if host in self.apart else pl.col("host").is_in(self.apart)
        elsewhere = (pl.col("host") != host).fill_null(value=False)
        of_ran = self.subscriptions.join(ran.select("callback_id").unique(), on="callback_id")
        own = self.messages.filter(
            pl.col("subscription_id").is_in(of_ran["subscription_id"].to_list())
        )
        overdue = (pl.col("publish_ns") <= until - LEAST_NS).sum()
        return (
            self.messages.filter(pl.col("publish_ns").is_between(since, until), ~(elsewhere & far))
            .select("message_id", "topic", "publish_ns")
            .unique()
            .join(own.select("subscription_id", "topic").unique(), on="topic")
            .join(own.filter("taken"), on=["message_id", "subscription_id"], how="anti")
            .unique("message_id")
            .group_by("topic")
            .agg(pl.len(), overdue=overdue)
            .filter(pl.col("overdue") > 0)
            .sort("topic")
            .collect()
            .rows()
        )

    @staticmethod
    def _rows_of(threads: list[Thread], frame: pl.DataFrame) -> pl.DataFrame:
        schema = {"host": pl.String, "vpid": pl.Int32, "vtid": pl.Int32}
        wanted = pl.DataFrame(threads, schema=schema, orient="row")
        return frame.join(wanted.cast({"host": frame.schema["host"]}), on=_THREAD)


_SAID = {
    "hung": "hangs",
    "stopped_or_hung": "stopped working, by intention or because it hangs",
    "ended_or_hung": "ended or hangs",
}


def _silence(
    thread: Mapping[str, Any], state: str, span: tuple[int, int], reasons: str, *, vtid: int | None,
    nodes: set[str], call: Mapping[str, Any] | None, waiting: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Return a row of `silences`."""
    since, until = span
    names = ", ".join(sorted(nodes)) or None
    who = (thread["process"] or f"process {thread['vpid']}") + (f" ({names})" if names else "")
    return {
        "state": state, "host": thread["host"], "vpid": thread["vpid"], "vtid": vtid,
        "process": thread["process"], "node": names,
        "callback": None if call is None else call["name"],
        "since_ns": since, "until_ns": until, "silent_ns": until - since, "waiting": waiting,
        "sentence": f"{who} {_SAID[state]}: {reasons}.",
    }  # fmt: skip


def _key(row: Mapping[str, Any]) -> Thread:
    return row["host"], row["vpid"], row["vtid"]


def _overdue(rows: pl.DataFrame, key: str, name: str, time: str, until: int) -> list[str]:
    """Return the names of sources that were active regularly and then no more."""
    sources = rows.group_by(key, name, maintain_order=True).agg(
        pl.len(), last=pl.col(time).max(), pause=pl.col(time).diff().max()
    )
    allowed = pl.max_horizontal(pl.lit(LEAST_NS), TIMES * pl.col("pause"))
    late = (pl.col("len") >= LEAST_SEEN) & (until - pl.col("last") >= allowed)
    return sources.filter(late)[name].fill_null("?").to_list()
