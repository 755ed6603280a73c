"""The tracks of one run, from its tables.

Columns are read only as far as they are drawn, and text becomes numbers as it is read: a recording
has millions of callbacks and few names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from roslens.analysis.measures.callbacks import readable
from roslens.analysis.timeline.tracks import Floats, Int64, Timeline, Track

UNKNOWN_NODE = "(node unknown)"
_PROCESS = -1
"""In the place of a thread's number: tracks of the whole process come first."""

_CALLBACK, _RUNNING, _WAIT, _BLOCKED = range(4)
_STATES = {"wait": (_WAIT, "waiting for work"), "blocked": (_BLOCKED, "waiting for the lock")}
"""Of executors' stretches: where each is drawn, and what it is called."""


@dataclass(frozen=True)
class TrackTables:
    """What the tracks of one run are made of; None where it was not recorded.

    Attributes
    ----------
    callbacks
        ``callback_instances``: callback_instance_id, host, vpid, vtid, node, kind, name, start_ns,
        end_ns.
    waits
        ``executor_intervals``: host, vpid, vtid, state, begin_ns, end_ns.
    processes
        ``processes``: host, vpid, procname.
    resources
        ``resources``: host, vpid, time_ns, cpu_time_ns.
    scheduling
        ``callback_scheduling``: callback_instance_id, host, vpid, vtid, start_ns, duration_ns,
        cpu_ns.
    """

    callbacks: pl.LazyFrame
    waits: pl.LazyFrame
    processes: pl.LazyFrame
    resources: pl.LazyFrame | None = None
    scheduling: pl.LazyFrame | None = None


Place = tuple[str, int, int, int, str]
"""Where a track is drawn: host, process, thread, kind, label."""


def build_timeline(tables: TrackTables) -> Timeline:
    """Tracks of one run.

    Per process its use of CPUs as sampled; per thread and node the callbacks; per thread how far
    its callbacks ran on a CPU, where the kernel's scheduler was recorded, and the executor's
    waiting for work and for its lock.
    """
    labelled, waiting, processes = pl.collect_all(
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
        ]
    )
    called, number = _numbered(labelled["called"])
    labelled = labelled.with_columns(number.alias("number"))
    places = _Places({(str(host), vpid): name for host, vpid, name in processes.iter_rows()})
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
    found += _running(tables.scheduling, places, cpu)
    found += _sampled(tables.resources, places, cpu)
    found.sort(key=lambda pair: pair[0])
    tracks = [track for _, track in found]
    # What was sampled before the first and after the last callback is not of interest.
    spanning = recorded or tracks
    if not spanning:
        return Timeline([], names, 0, 1)
    begin = min(int(t.begin_ns[0]) for t in spanning)
    end = max(int(t.end_ns.max()) for t in spanning)
    return Timeline(tracks, names, begin, max(end, begin + 1))


class _Places:
    """Makes tracks; knows the names of processes."""

    def __init__(self, processes: Mapping[tuple[str, int], str | None]) -> None:
        self.processes = processes

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
        )

    def _group(self, place: Place) -> str:
        host, vpid, vtid, *_ = place
        name = self.processes.get((host, vpid)) or "process"
        return f"{host} {name} {vpid}" + ("" if vtid == _PROCESS else f", thread {vtid}")


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


def _parts(frame: pl.DataFrame, time: str, *keys: str) -> Iterator[tuple[Any, pl.DataFrame]]:
    """The rows of each key, by time."""
    # With keys in the parts: to have them beside, polars would look for them once more.
    for part in frame.partition_by(keys):
        key = part.select(keys).row(0)
        yield key, part if part[time].is_sorted() else part.sort(time)


def _numbered(text: pl.Series) -> tuple[list[str], pl.Series]:
    """Its values in order, and the index of each."""
    known = text.unique().cast(pl.String).sort().to_list()
    numbers = {name: index for index, name in enumerate(known)}
    return known, text.replace_strict(numbers, return_dtype=pl.Int32)


def _int(value: object) -> int:
    return value if isinstance(value, int) else _PROCESS
