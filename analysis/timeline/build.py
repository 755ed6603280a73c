"""Build the tracks of one run from its tables.

Only the columns that are drawn are read, and text is converted to numbers while reading: a
recording has millions of callbacks and few names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import polars as pl

from roslens.analysis.measures.callbacks import readable
from roslens.analysis.measures.cpu_waits import find_turns, find_waits
from roslens.analysis.timeline.tracks import Timeline, Track
from roslens.collectors.ros2.blocked import executors_of
from roslens.collectors.ros2.callbacks import is_callback
from roslens.recording.arrays import np

UNKNOWN_NODE = "(node unknown)"
_PROCESS = -1
"""Stands for the number of a thread: tracks of the whole process come first."""

_OF_TRACK = ("begin_ns", "end_ns", "name", "id", "level")
_CALLBACK, _RUNNING, _RUNNABLE, _WAIT, _BLOCKED = range(5)
_STATES = {"wait": (_WAIT, "waiting for work"), "blocked": (_BLOCKED, "waiting for the lock")}
"""States of executors: the place and the label of each track."""
_WAITS = {"preempted": "preempted", "woken": "woken, waits for a CPU"}
"""Why a runnable thread was not running."""


Thread = tuple[str, int, int]
"""Host, process and thread."""
Place = tuple[str, int, int, int, str]
"""Position of a track: host, process, thread, kind, label."""


def build_timeline(
    callbacks: pl.LazyFrame,
    waits: pl.LazyFrame,
    processes: pl.LazyFrame,
    *,
    resources: pl.LazyFrame | None = None,
    scheduling: pl.LazyFrame | None = None,
    kernel: Mapping[str, pl.LazyFrame] = MappingProxyType({}),
) -> Timeline:
    """Build the tracks of one run.

    Each process has a track of its sampled CPU use; each thread and node a track of callbacks; each
    thread tracks of when it ran on a CPU or waited for one, where the kernel was recorded (else of
    the CPU use of its callbacks), and of its executor's waits for work and for the lock. The last
    tracks show which thread had each CPU.

    Parameters
    ----------
    callbacks
        ``callback_instances``: callback_instance_id, callback_id, host, vpid, vtid, node, kind,
        name, start_ns, end_ns.
    waits
        ``executor_intervals``: host, vpid, vtid, state, begin_ns, end_ns.
    processes
        ``processes``: host, vpid, procname.
    resources
        ``resources``: host, vpid, time_ns, cpu_time_ns; None where processes were not sampled.
    scheduling
        ``callback_scheduling``: callback_instance_id, host, vpid, vtid, start_ns, duration_ns,
        cpu_ns; drawn where there are no kernel events.
    kernel
        Kernel events by name: ``sched_switch`` and ``sched_waking`` are read.
    """
    threads = ("host", "vpid", "vtid")
    labelled, waiting, programs, executing = pl.collect_all(
        [
            callbacks.select(
                *threads,
                id="callback_instance_id",
                begin_ns="start_ns",
                called=pl.coalesce(readable(pl.col("name")), "kind", pl.lit("callback")).cast(
                    pl.Categorical
                ),
                label=pl.col("node").fill_null(UNKNOWN_NODE).cast(pl.Categorical),
                # A callback without an end is drawn as its beginning.
                end_ns=pl.coalesce("end_ns", "start_ns"),
            ).with_columns(pl.col("host").cast(pl.Categorical)),
            waits.filter(pl.col("state").is_in(list(_STATES)) & pl.col("end_ns").is_not_null())
            .select(*threads, "state", "begin_ns", "end_ns")
            .with_columns(pl.col("host").cast(pl.Categorical)),
            processes.select("host", "vpid", "procname"),
            callbacks.filter(is_callback())
            .select(*threads, "callback_id")
            .drop_nulls(threads)
            .unique()
            .sort(pl.all()),
        ]
    )
    called, number = _distinct_and_index(labelled["called"])
    places = _Places(
        {(str(host), vpid): name for host, vpid, name in programs.iter_rows()},
        executors_of(
            ((str(host), vpid, vtid), callback)
            for host, vpid, vtid, callback in executing.iter_rows()
        ),
    )
    placed = list(places.tracks(labelled.with_columns(number.alias("name")), _CALLBACK, "callback"))
    names = [*called, *_STATES, "CPU"]
    for state, (place, label) in _STATES.items():
        name = pl.lit(names.index(state, len(called)), dtype=pl.Int32)
        intervals = waiting.filter(pl.col("state") == state).with_columns(name=name)
        placed += places.tracks(intervals, place, state, label)
    recorded = [t for _, t in placed]
    cpu = pl.lit(len(names) - 1, dtype=pl.Int32)
    cores: list[Track] = []
    if "sched_switch" in kernel:
        turns = find_turns(kernel["sched_switch"]).filter(pl.col("by_tid") > 0)
        turns = turns.drop_nulls("until_ns").cast({"host": pl.String})
        placed += _thread_tracks(kernel, turns, executing, places, names)
        cores = list(_cores(turns, names))
    else:
        placed += _running(scheduling, places, cpu)
    placed += _sampled(resources, places, cpu)
    placed.sort(key=lambda pair: pair[0])
    tracks = [track for _, track in placed] + cores
    # Samples before the first and after the last callback are not shown.
    spanning = recorded or tracks
    if not spanning:
        return Timeline([], names, 0, 1)
    begin = min(int(t.begin_ns[0]) for t in spanning)
    end = max(int(t.end_ns.max()) for t in spanning)
    return Timeline(tracks, names, begin, max(end, begin + 1))


class _Places:
    """Builder of tracks that knows the names of processes."""

    def __init__(
        self,
        processes: Mapping[tuple[str, int], str | None],
        executors: Mapping[Thread, Sequence[Thread]],
    ) -> None:
        self.processes, self.executors = processes, executors

    def tracks(
        self, rows: pl.DataFrame, number: int, kind: str, label: str | None = None
    ) -> Iterator[tuple[Place, Track]]:
        """Yield one track per thread, and per label where no label is given.

        Parameters
        ----------
        rows
            host, vpid, vtid, begin_ns, end_ns, name (its number), optionally label, id and level.
        number
            Position of the track among those of its thread.
        """
        more_keys = [] if label else ["label"]
        for (host, vpid, vtid, *own_label), part in _parts(
            rows, "host", "vpid", "vtid", *more_keys
        ):
            text = label or str(own_label[0])
            place = (str(host), _int(vpid), _int(vtid), number, "" if label else text)
            column = {name: part[name].to_numpy() for name in part.columns if name in _OF_TRACK}
            yield (
                place,
                Track(
                    "/".join(map(str, place)),
                    text,
                    self._group(place),
                    kind,
                    column["begin_ns"],
                    column["end_ns"],
                    column["name"],
                    column.get("id", np.arange(part.height, dtype=np.int64)),
                    column.get("level"),
                    self._places(place, text),
                ),
            )

    def _process(self, place: Place) -> str:
        host, vpid, *_ = place
        return f"{host} {self.processes.get((host, vpid)) or 'process'} {vpid}"

    def _group(self, place: Place) -> str:
        vtid = place[2]
        return self._process(place) + ("" if vtid == _PROCESS else f", thread {vtid}")

    def _places(self, place: Place, label: str) -> Mapping[str, tuple[str, str]]:
        """Return heading and label of a track, by grouping."""
        host, vpid, vtid, kind, _ = place
        process = self._process(place)
        members = [str(member) for *_, member in self.executors.get((host, vpid, vtid), ())]
        many = "s" if len(members) > 1 else ""
        executor = f"executor of thread{many} {', '.join(members)}" if members else "no executor"
        # The first thread of a process has the process's number.
        suffix = f", thread {vtid}" if vtid not in (_PROCESS, vpid) else ""
        return {
            "process": (process, label + suffix),
            "node": (label, process + suffix)
            if kind == _CALLBACK
            else ("processes and threads", f"{label}, {process}{suffix}"),
            "executor": (f"{process}, {executor}", label + suffix),
        }


def _sampled(
    resources: pl.LazyFrame | None, places: _Places, name: pl.Expr
) -> Iterator[tuple[Place, Track]]:
    """Yield the CPU use of each traced process, from sample to sample."""
    if resources is None:
        return
    process = ["host", "vpid"]
    processes = [f"{host}/{vpid}" for host, vpid in places.processes]
    took, used = (pl.col(column).diff().over(process) for column in ("time_ns", "cpu_time_ns"))
    rows = (
        resources.select(*process, "time_ns", "cpu_time_ns")
        .drop_nulls()
        .filter(pl.format("{}/{}", *process).is_in(processes))
        .sort(*process, "time_ns")
        .with_columns(took=took, used=used, vtid=pl.lit(_PROCESS), name=name)
        # If another process takes over the number of a process, the CPU time begins again.
        .filter((pl.col("took") > 0) & (pl.col("used") >= 0))
        .with_columns(
            begin_ns=pl.col("time_ns") - pl.col("took"),
            end_ns="time_ns",
            level=pl.col("used") / pl.col("took"),
        )
        .collect()
    )
    yield from places.tracks(rows, _RUNNING, "cpu", "CPU of the process")


def _running(
    scheduling: pl.LazyFrame | None, places: _Places, name: pl.Expr
) -> Iterator[tuple[Place, Track]]:
    """Yield the part of time that callbacks ran on a CPU, for callbacks that enclose no other."""
    if scheduling is None:
        return
    thread = ["host", "vpid", "vtid"]
    end = pl.col("start_ns") + pl.col("duration_ns")
    rows = (
        scheduling.select(*thread, "start_ns", "duration_ns", "cpu_ns")
        .filter(pl.col("duration_ns") > 0)
        .drop_nulls()
        .sort(*thread, "start_ns")
        .filter((end <= pl.col("start_ns").shift(-1).over(thread)).fill_null(value=True))
        .with_columns(
            begin_ns="start_ns",
            end_ns=end,
            level=(pl.col("cpu_ns") / pl.col("duration_ns")).clip(0, 1),
            name=name,
        )
        .collect()
    )
    yield from places.tracks(rows, _RUNNING, "cpu", "on a CPU in callbacks")


def _thread_tracks(
    events: Mapping[str, pl.LazyFrame],
    turns: pl.DataFrame,
    executing: pl.DataFrame,
    places: _Places,
    names: list[str],
) -> Iterator[tuple[Place, Track]]:
    """Yield when each thread with callbacks was on which CPU, and why it was on none."""
    threads = executing.select(
        pl.col("host").cast(pl.String), "vpid", vtid=pl.col("vtid").cast(pl.Int64)
    ).unique(["host", "vtid"], keep="last", maintain_order=True)
    wanted = threads["vtid"].unique().to_list()
    concerned = pl.col("prev_tid").is_in(wanted) | pl.col("next_tid").is_in(wanted)
    wakes = events.get("sched_waking")
    waits = find_waits(
        events["sched_switch"].filter(concerned),
        None if wakes is None else wakes.filter(pl.col("tid").is_in(wanted)),
    )
    running = turns.select(
        "host", vtid="by_tid", begin_ns="from_ns", end_ns="until_ns",
        called=pl.format("on CPU {}", "cpu_id"),
    )  # fmt: skip
    runnable = waits.select(
        pl.col("host").cast(pl.String), "begin_ns", "end_ns", vtid="tid",
        called=pl.col("kind").replace_strict(_WAITS, return_dtype=pl.String),
    )  # fmt: skip
    for kind, number, label, rows in (
        ("running", _RUNNING, "on a CPU", running),
        ("runnable", _RUNNABLE, "waits for a CPU", runnable),
    ):
        traced = rows.join(threads, on=["host", "vtid"])
        named = traced.with_columns(_more_names(traced["called"], names))
        yield from places.tracks(named, number, kind, label)


def _cores(turns: pl.DataFrame, names: list[str]) -> Iterator[Track]:
    """Yield a track per CPU with the threads that had it."""
    called = turns.select(pl.format("{} {}", "by_name", "by_tid")).to_series()
    rows = turns.rename({"from_ns": "begin_ns"}).with_columns(_more_names(called, names))
    parts = dict(_parts(rows, "host", "cpu_id"))
    for (host, cpu), part in sorted(parts.items()):
        heading, label = f"{host} CPUs", f"CPU {cpu}"
        yield Track(
            f"{host}/{label}",
            label,
            heading,
            "core",
            part["begin_ns"].to_numpy(),
            part["until_ns"].to_numpy(),
            part["name"].to_numpy(),
            np.arange(part.height, dtype=np.int64),
            places=dict.fromkeys(("process", "node", "executor"), (heading, label)),
        )


def _more_names(called: pl.Series, names: list[str]) -> pl.Series:
    """Append new names to `names` and return the index of each name."""
    more, number = _distinct_and_index(called)
    names += more
    return (number + (len(names) - len(more))).cast(pl.Int32).alias("name")


def _parts(frame: pl.DataFrame, *keys: str) -> Iterator[tuple[Any, pl.DataFrame]]:
    """Yield the rows of each key, sorted by time."""
    # The parts include the keys: partitioning again to separate them would cost another search.
    for part in frame.partition_by(keys):
        key = part.select(keys).row(0)
        yield key, part if part["begin_ns"].is_sorted() else part.sort("begin_ns")


def _distinct_and_index(text: pl.Series) -> tuple[list[str], pl.Series]:
    """Return the distinct values in order, and the index of each entry."""
    values = text.unique().cast(pl.String).sort().to_list()
    if not values:
        return values, pl.Series(dtype=pl.Int32)
    numbers = {name: index for index, name in enumerate(values)}
    return values, text.replace_strict(numbers, return_dtype=pl.Int32)


def _int(value: object) -> int:
    return value if isinstance(value, int) else _PROCESS
