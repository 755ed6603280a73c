"""The tracks of one run, from its tables.

Columns are read only as far as they are drawn, and text becomes numbers as it is read: a recording
has millions of callbacks and few names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from roslens.analysis.measures.callbacks import readable
from roslens.analysis.measures.cpu_waits import find_waits
from roslens.analysis.timeline.tracks import Floats, Int64, Timeline, Track
from roslens.collectors.ros2.blocked import executors_of

UNKNOWN_NODE = "(node unknown)"
_PROCESS = -1
"""In the place of a thread's number: tracks of the whole process come first."""

_CALLBACK, _RUNNING, _RUNNABLE, _WAIT, _BLOCKED = range(5)
_STATES = {"wait": (_WAIT, "waiting for work"), "blocked": (_BLOCKED, "waiting for the lock")}
"""Of executors' stretches: where each is drawn, and what it is called."""


@dataclass(frozen=True)
class TrackTables:
    """What the tracks of one run are made of; None where it was not recorded.

    Attributes
    ----------
    callbacks
        ``callback_instances``: callback_instance_id, callback_id, host, vpid, vtid, node, kind,
        name, start_ns, end_ns.
    waits
        ``executor_intervals``: host, vpid, vtid, state, begin_ns, end_ns.
    processes
        ``processes``: host, vpid, procname.
    resources
        ``resources``: host, vpid, time_ns, cpu_time_ns.
    scheduling
        ``callback_scheduling``: callback_instance_id, host, vpid, vtid, start_ns, duration_ns,
        cpu_ns; drawn where there are no events of the kernel.
    kernel
        Events of the kernel by name, as of `roslens.analysis.timeline.build.kernel_intervals`.
    """

    callbacks: pl.LazyFrame
    waits: pl.LazyFrame
    processes: pl.LazyFrame
    resources: pl.LazyFrame | None = None
    scheduling: pl.LazyFrame | None = None
    kernel: Mapping[str, pl.LazyFrame] = field(default_factory=dict)


Thread = tuple[str, int, int]
"""Host, process, thread."""
Place = tuple[str, int, int, int, str]
"""Where a track is drawn: host, process, thread, kind, label."""


def build_timeline(tables: TrackTables) -> Timeline:
    """Tracks of one run.

    Per process its use of CPUs as sampled; per thread and node the callbacks; per thread when it
    ran on a CPU or waited for one, where the kernel was recorded (else how far its callbacks did),
    and the executor's waiting for work and for its lock. Below all these who had each CPU.
    """
    threads = ("host", "vpid", "vtid")
    labelled, waiting, processes, executing = pl.collect_all(
        [
            tables.callbacks.select(
                *("callback_instance_id", "host", "vpid", "vtid", "start_ns"),
                called=pl.coalesce(readable(pl.col("name")), "kind", pl.lit("callback")).cast(
                    pl.Categorical
                ),
                node=pl.col("node").fill_null(UNKNOWN_NODE).cast(pl.Categorical),
                # One without an end is drawn as its beginning.
                end_ns=pl.coalesce("end_ns", "start_ns"),
            ).with_columns(pl.col("host").cast(pl.Categorical)),
            tables.waits.filter(
                pl.col("state").is_in(list(_STATES)) & pl.col("end_ns").is_not_null()
            )
            .select("host", "vpid", "vtid", "state", "begin_ns", "end_ns")
            .with_columns(pl.col("host").cast(pl.Categorical)),
            tables.processes.select("host", "vpid", "procname"),
            tables.callbacks.select(*threads, "callback_id")
            .drop_nulls(threads)
            .unique()
            .sort(pl.all()),
        ]
    )
    called, number = _numbered(labelled["called"])
    labelled = labelled.with_columns(number.alias("number"))
    places = _Places(
        {(str(host), vpid): name for host, vpid, name in processes.iter_rows()},
        executors_of(((str(a), b, c), x) for a, b, c, x in executing.iter_rows()),
    )
    found: list[tuple[Place, Track]] = []
    for (host, vpid, vtid, node), part in _parts(
        labelled, "start_ns", "host", "vpid", "vtid", "node"
    ):
        place = (str(host), _int(vpid), _int(vtid), _CALLBACK, str(node))
        track = places.track(
            place,
            kind="callback",
            label=str(node),
            begins=part["start_ns"].to_numpy(),
            ends=part["end_ns"].to_numpy(),
            names=part["number"].to_numpy(),
            ids=part["callback_instance_id"].to_numpy(),
        )
        found.append((place, track))
    names = [*called, *_STATES, "CPU"]
    for (host, vpid, vtid, state), part in _parts(
        waiting, "begin_ns", "host", "vpid", "vtid", "state"
    ):
        kind, label = _STATES[str(state)]
        place = (str(host), _int(vpid), _int(vtid), kind, "")
        track = places.track(
            place,
            kind=str(state),
            label=label,
            begins=part["begin_ns"].to_numpy(),
            ends=part["end_ns"].to_numpy(),
            names=names.index(str(state), len(called)),
        )
        found.append((place, track))
    recorded = [t for _, t in found]
    cpu = len(names) - 1
    kernel = kernel_intervals(tables.kernel, executing.select("host", pl.col("vtid").alias("tid")))
    cores: list[Track] = []
    if kernel is None:
        found += _running(tables.scheduling, places, cpu)
    else:
        found += _of_threads(kernel, executing, places, names)
        cores = list(_cores(kernel.cpus, names))
    found += _sampled(tables.resources, places, cpu)
    found.sort(key=lambda pair: pair[0])
    tracks = [track for _, track in found] + cores
    # What was sampled before the first and after the last callback is not of interest.
    spanning = recorded or tracks
    if not spanning:
        return Timeline([], names, 0, 1)
    begin = min(int(t.begin_ns[0]) for t in spanning)
    end = max(int(t.end_ns.max()) for t in spanning)
    return Timeline(tracks, names, begin, max(end, begin + 1))


class _Places:
    """Makes tracks; knows the names of processes."""

    def __init__(
        self,
        processes: Mapping[tuple[str, int], str | None],
        executors: Mapping[Thread, Sequence[Thread]],
    ) -> None:
        self.processes, self.executors = processes, executors

    def track(
        self,
        place: Place,
        *,
        kind: str,
        label: str,
        begins: Int64,
        ends: Int64,
        names: NDArray[np.int32] | int,
        ids: Int64 | None = None,
        levels: Floats | None = None,
    ) -> Track:
        """A track; one name for all intervals, and their own numbers, unless given."""
        named = np.full(begins.size, names, np.int32) if isinstance(names, int) else names
        return Track(
            "/".join(map(str, place)),
            label,
            self._group(place),
            kind,
            begins,
            ends,
            named,
            np.arange(begins.size, dtype=np.int64) if ids is None else ids,
            levels,
            self._places(place, label),
        )

    def _process(self, place: Place) -> str:
        host, vpid, *_ = place
        return f"{host} {self.processes.get((host, vpid)) or 'process'} {vpid}"

    def _group(self, place: Place) -> str:
        vtid = place[2]
        return self._process(place) + ("" if vtid == _PROCESS else f", thread {vtid}")

    def _places(self, place: Place, label: str) -> Mapping[str, tuple[str, str]]:
        """Heading and label, by what tracks are grouped."""
        host, vpid, vtid, kind, _ = place
        process = self._process(place)
        members = [str(x) for *_, x in self.executors.get((host, vpid, vtid), ())]
        many = "s" if len(members) > 1 else ""
        executor = f"executor of thread{many} {', '.join(members)}" if members else "no executor"
        # The first thread of a process has its number.
        other = f", thread {vtid}" if vtid not in (_PROCESS, vpid) else ""
        return {
            "process": (process, label + other),
            "node": (label, process + other)
            if kind == _CALLBACK
            else ("processes and threads", f"{label}, {process}{other}"),
            "executor": (f"{process}, {executor}", label + other),
        }


def _sampled(
    resources: pl.LazyFrame | None, places: _Places, name: int
) -> Iterator[tuple[Place, Track]]:
    """CPUs that each traced process used, from sample to sample."""
    if resources is None:
        return
    samples = resources.select("host", "vpid", "time_ns", "cpu_time_ns").drop_nulls().collect()
    for (host, vpid), part in _parts(samples, "time_ns", "host", "vpid"):
        place = (str(host), _int(vpid), _PROCESS, _RUNNING, "")
        if place[:2] not in places.processes:
            continue
        time, used = part["time_ns"].to_numpy(), part["cpu_time_ns"].to_numpy()
        # A process that was replaced by another of its number begins again.
        good = (np.diff(time) > 0) & (np.diff(used) >= 0)
        if not good.any():
            continue
        yield (
            place,
            places.track(
                place,
                kind="cpu",
                label="CPU of the process",
                begins=time[:-1][good],
                ends=time[1:][good],
                names=name,
                levels=(np.diff(used) / np.maximum(np.diff(time), 1))[good],
            ),
        )


def _running(
    scheduling: pl.LazyFrame | None, places: _Places, name: int
) -> Iterator[tuple[Place, Track]]:
    """How far callbacks ran on a CPU, of those that enclose no other."""
    if scheduling is None:
        return
    rows = (
        scheduling.select("host", "vpid", "vtid", "start_ns", "duration_ns", "cpu_ns")
        .filter(pl.col("duration_ns") > 0)
        .drop_nulls()
        .collect()
    )
    for (host, vpid, vtid), part in _parts(rows, "start_ns", "host", "vpid", "vtid"):
        place = (str(host), _int(vpid), _int(vtid), _RUNNING, "")
        begins, took = part["start_ns"].to_numpy(), part["duration_ns"].to_numpy()
        apart = np.append(begins[:-1] + took[:-1] <= begins[1:], True)
        yield (
            place,
            places.track(
                place,
                kind="cpu",
                label="on a CPU in callbacks",
                begins=begins[apart],
                ends=(begins + took)[apart],
                names=name,
                levels=np.clip(part["cpu_ns"].to_numpy() / took, 0, 1)[apart],
            ),
        )


def _of_threads(
    kernel: KernelIntervals, executing: pl.DataFrame, places: _Places, names: list[str]
) -> Iterator[tuple[Place, Track]]:
    """What the kernel says of each thread that executed callbacks."""
    processes = {(str(h), t): p for h, p, t in executing.select("host", "vpid", "vtid").iter_rows()}
    for kind, number, label, rows in (
        ("running", _RUNNING, "on a CPU", kernel.running),
        ("runnable", _RUNNABLE, "waits for a CPU", kernel.runnable),
    ):
        named = rows.with_columns(_more_names(rows["called"], names))
        for (host, tid), part in _parts(named, "begin_ns", "host", "tid"):
            place = (str(host), processes[str(host), tid], tid, number, "")
            track = places.track(
                place,
                kind=kind,
                label=label,
                begins=part["begin_ns"].to_numpy(),
                ends=part["end_ns"].to_numpy(),
                names=part["number"].to_numpy(),
            )
            yield place, track


def _cores(rows: pl.DataFrame, names: list[str]) -> Iterator[Track]:
    """Who had each CPU."""
    named = _more_names(rows["called"], names)
    parts = dict(_parts(rows.with_columns(named), "begin_ns", "host", "cpu_id"))
    for (host, cpu), part in sorted(parts.items()):
        heading, label = f"{host} CPUs", f"CPU {cpu}"
        yield Track(
            f"{host}/{label}",
            label,
            heading,
            "core",
            part["begin_ns"].to_numpy(),
            part["end_ns"].to_numpy(),
            part["number"].to_numpy(),
            np.arange(part.height, dtype=np.int64),
            places=dict.fromkeys(("process", "node", "executor"), (heading, label)),
        )


def _more_names(called: pl.Series, names: list[str]) -> pl.Series:
    """The number of each name, which are put behind those that there are."""
    more, number = _numbered(called)
    names += more
    return (number + (len(names) - len(more))).cast(pl.Int32).alias("number")


def _parts(frame: pl.DataFrame, time: str, *keys: str) -> Iterator[tuple[Any, pl.DataFrame]]:
    """The rows of each key, by time."""
    # With keys in the parts: to have them beside, polars would look for them once more.
    for part in frame.partition_by(keys):
        key = part.select(keys).row(0)
        yield key, part if part[time].is_sorted() else part.sort(time)


def _numbered(text: pl.Series) -> tuple[list[str], pl.Series]:
    """Its values in order, and the index of each."""
    known = text.unique().cast(pl.String).sort().to_list()
    if not known:
        return known, pl.Series(dtype=pl.Int32)
    numbers = {name: index for index, name in enumerate(known)}
    return known, text.replace_strict(numbers, return_dtype=pl.Int32)


def _int(value: object) -> int:
    return value if isinstance(value, int) else _PROCESS


_PLACE = ("host", "cpu_id")
_WAITS = {"preempted": "preempted", "woken": "woken, waits for a CPU"}


@dataclass(frozen=True)
class KernelIntervals:
    """What the kernel says, in ns; frames have host, begin_ns, end_ns and called.

    Attributes
    ----------
    cpus
        With cpu_id: the thread that ran there; nothing where it was idle, or where an event is
        missing.
    running, runnable
        With tid, of the threads asked for: on which CPU it ran; why it could have run and did not.
    """

    cpus: pl.DataFrame
    running: pl.DataFrame
    runnable: pl.DataFrame


def kernel_intervals(
    events: Mapping[str, pl.LazyFrame], threads: pl.DataFrame
) -> KernelIntervals | None:
    """Intervals from the kernel's events; None where its scheduler was not recorded.

    Parameters
    ----------
    events
        By name, as they were recorded; of these ``sched_switch`` and ``sched_waking`` are read.
    threads
        host, tid: those whose states are wanted, by their numbers in the kernel.
    """
    if "sched_switch" not in events:
        return None
    columns = (*_PLACE, "time_ns", "prev_tid", "next_tid", "next_comm", "prev_state")
    known = (
        events["sched_switch"]
        .select(*columns[:3], pl.col("prev_tid", "next_tid").cast(pl.Int64), *columns[5:])
        .with_columns(pl.col("host").cast(pl.String))
    )
    turns = (
        known.sort(*_PLACE, "time_ns", maintain_order=True)
        .with_columns(
            pl.col("time_ns").alias("begin_ns"),
            pl.col("time_ns", "prev_tid").shift(-1).over(_PLACE).name.prefix("then_"),
        )
        # Who leaves must be who came; thread 0 is each CPU's own when it has nothing to do.
        .filter((pl.col("then_prev_tid") == pl.col("next_tid")) & (pl.col("next_tid") > 0))
        .select(
            *_PLACE, "begin_ns", pl.col("next_tid").alias("tid"), "next_comm",
            pl.col("then_time_ns").alias("end_ns"),
        )
        .collect()
    )  # fmt: skip
    own = threads.select(pl.col("host").cast(pl.String), pl.col("tid").cast(pl.Int64)).unique()
    wanted = own["tid"].unique().to_list()
    concerned = pl.col("prev_tid").is_in(wanted) | pl.col("next_tid").is_in(wanted)
    wakes = events.get("sched_waking")
    waits = find_waits(
        known.filter(concerned),
        None
        if wakes is None
        else wakes.filter(pl.col("tid").is_in(wanted)).with_columns(pl.col("host").cast(pl.String)),
    )
    on = ["host", "tid"]
    return KernelIntervals(
        turns.with_columns(pl.format("{} {}", "next_comm", "tid").alias("called")),
        turns.join(own, on=on, how="semi").with_columns(
            pl.format("on CPU {}", "cpu_id").alias("called")
        ),
        waits.join(own, on=on, how="semi").with_columns(
            pl.col("kind").replace_strict(_WAITS, return_dtype=pl.String).alias("called")
        ),
    )
