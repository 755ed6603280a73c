"""The worst messages: what each is blamed on, and a picture of the threads around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from roslens.analysis.figures.drawing import Drawing
from roslens.analysis.latency.blame import Around, Blame, blamed
from roslens.analysis.measures.culprits import culprits, waits_of
from roslens.analysis.reports.given import Tables
from roslens.analysis.reports.numbers import milliseconds
from roslens.analysis.timeline.build import TrackTables, build_timeline

PICTURED = 10
"""So many pictures are enough; the table has all messages."""
_CULPRITS = {"message": pl.Int64, "kind": pl.String, "by_tid": pl.Int64, "by_name": pl.String,
             "by_process": pl.String, "by_ns": pl.Int64}  # fmt: skip


@dataclass(frozen=True)
class _Run:
    around: Around
    processes: pl.DataFrame


def around_runs(tables: Tables, names: Sequence[str]) -> dict[str, _Run]:
    """What is known of these runs, by name."""
    chosen = pl.LazyFrame({"run": list(names)}, schema={"run": pl.String})

    def rows(frame: pl.LazyFrame, time: str) -> pl.DataFrame:
        return frame.join(chosen, on="run", how="semi").sort(time).collect()

    found = {
        "callbacks": rows(tables.table("callback_instances"), "start_ns"),
        "waits": rows(tables.table("executor_intervals"), "begin_ns"),
        "scheduling": rows(tables.table("callback_scheduling"), "start_ns"),
        "processes": rows(tables.resources, "time_ns"),
        "threads": rows(tables.threads, "time_ns"),
        "system": rows(tables.system, "time_ns"),
    }
    named = rows(tables.table("processes"), "process_id")
    runs = {}
    for name in names:
        own = {what: frame.filter(pl.col("run") == name) for what, frame in found.items()}
        events = tables.kernel_events(name)
        threads = _threads(own["callbacks"], own["scheduling"])
        off_cpu = waits_of(threads, events) if "sched_switch" in events else None
        runs[name] = _Run(Around(**own, off_cpu=off_cpu), named.filter(pl.col("run") == name))
    return runs


def culprits_of(worst: pl.DataFrame, tables: Tables, *, back_ns: int | None = None) -> pl.DataFrame:
    """Who kept the receiving threads of messages from going on, by the kernel's events.

    Parameters
    ----------
    worst
        Of `callbacks.worst_messages`.
    back_ns
        Read the kernel's events only from so long before each message on, which takes less time:
        who had a CPU since longer is then not told. None: all of them.

    Returns
    -------
    ``message`` (the row of `worst`, from 0), ``kind`` (of `culprits.KINDS`), ``by_tid``,
    ``by_name`` (the thread's, or the interrupt's), ``by_process`` (null where nobody told it),
    ``by_ns``; of each message the longest first, no rows where the kernel was not recorded.
    """
    number = "callback_instance_id"
    parts = [pl.DataFrame(schema=_CULPRITS)]
    for (run,), rows in worst.with_row_index("message").group_by("run", maintain_order=True):
        found, of_run = tables.kernel_events(str(run)), pl.col("run") == run
        executions = tables.table("callback_instances").filter(of_run).collect()
        scheduled = tables.table("callback_scheduling").filter(of_run).collect()
        threads = _threads(executions, scheduled)
        spans = (
            rows.join(executions.select(number, "host", "vtid"), on=number)
            .select(
                pl.col("message").cast(pl.Int64).alias("span"), "host",
                pl.col("vtid").cast(pl.Int64).alias("tid"),
                begin_ns="publish_ns", end_ns="callback_start_ns",
            )
            .join(threads, on=["host", "tid"], how="semi")
        )  # fmt: skip
        if back_ns is not None and spans.height:
            near = pl.any_horizontal(
                pl.col("time_ns").is_between(begin - back_ns, end)
                for begin, end in spans.select("begin_ns", "end_ns").iter_rows()
            )
            found = {name: rows.filter(near) for name, rows in found.items()}
        processes = tables.table("processes").filter(of_run).collect()
        parts.append(
            culprits(spans, found)
            .join(spans.select("span", "host"), on="span", maintain_order="left")
            .join(
                _processes(executions, processes), left_on=["host", "by_tid"],
                right_on=["host", "tid"], how="left", maintain_order="left",
            )
            .rename({"span": "message"})
            .select(_CULPRITS.keys())
        )  # fmt: skip
    return pl.concat(parts)


def _threads(executions: pl.DataFrame, scheduled: pl.DataFrame) -> pl.DataFrame:
    """Threads that ran callbacks and whose numbers the kernel's events know: host, tid."""
    own = executions.join(scheduled, on=["host", "vpid", "vtid"], how="semi")
    return own.select("host", pl.col("vtid").cast(pl.Int64).alias("tid")).unique()


def _processes(executions: pl.DataFrame, processes: pl.DataFrame) -> pl.DataFrame:
    """Of which process a thread is, where callbacks tell or it is the first one: host, tid."""
    ran = executions.select("host", "vpid", tid="vtid")
    first = processes.select("host", "vpid", tid="vpid")
    named = processes.select("host", "vpid", by_process="procname")
    return (
        pl.concat([ran, first])
        .unique()
        .join(named, on=["host", "vpid"])
        .unique(["host", "tid"], keep="none")
        .select("host", pl.col("tid").cast(pl.Int64), "by_process")
    )


def blamed_and_drawn(
    worst: pl.DataFrame, runs: Mapping[str, _Run], culprits_found: pl.DataFrame
) -> tuple[list[Blame], list[Drawing]]:
    """Each message's blame, and the pictures of the first `PICTURED`.

    Parameters
    ----------
    worst
        Of `callbacks.worst_messages`.
    runs
        Of `around_runs`.
    culprits_found
        Of `culprits_of`.
    """
    blames, drawings = [], []
    for number, message in enumerate(worst.iter_rows(named=True), 1):
        run = runs[message["run"]]
        own = culprits_found.filter(pl.col("message") == number - 1)
        blame = blamed(message, run.around, own.rows(named=True))
        blames.append(blame)
        if number <= PICTURED:
            drawings.append(_drawn(number, message, run, blame))
    return blames, drawings


def _drawn(number: int, message: Mapping[str, Any], run: _Run, blame: Blame) -> Drawing:
    from roslens.analysis.figures.timeline import draw_timeline  # noqa: PLC0415  (a second)

    begin, end = message["publish_ns"], message["callback_start_ns"]
    room = max(1, (end - begin) // 4)
    first, last = begin - room, end + room
    of_process = (pl.col("host") == message["subscription_host"]) & (
        pl.col("vpid") == message["subscription_vpid"]
    )

    def within(rows: pl.DataFrame, start: str, stop: pl.Expr) -> pl.LazyFrame:
        touching = (pl.col(start) <= last) & (stop.fill_null(last) >= first)
        return rows.filter(of_process, touching).lazy()

    around = run.around
    scheduled = pl.col("start_ns") + pl.col("duration_ns")
    timeline = build_timeline(
        TrackTables(
            within(around.callbacks, "start_ns", pl.col("end_ns")),
            within(around.waits, "begin_ns", pl.col("end_ns")),
            run.processes.lazy(),
            scheduling=within(around.scheduling, "start_ns", scheduled),
        )
    )
    return draw_timeline(
        timeline,
        first,
        last,
        marks={"published": begin, "callback": end},
        caption=f"{number}. {message['topic'] or '-'}, {milliseconds(message['latency_ns'])} ms, "
        f"{message['run']}: {blame.words}.",
    )
