"""Tracks of intervals, and what of them can be drawn in a window of so many pixels.

At most so many marks leave the kernel, however many intervals a window holds: a track with few is
sent as it is, one with many as the busy part of each pixel column, from sums over its beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

Int64 = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_MARKS = 10_000
"""So many marks are sent at most, over all tracks."""

UNFINISHED_NS = 0
"""An interval without an end is drawn as long as nothing: its beginning."""


@dataclass(frozen=True)
class Track:
    """The intervals of one kind in one thread.

    Attributes
    ----------
    key
        Unique among the tracks.
    label, group
        For people: the track, and what it is drawn under (a process).
    kind
        ``callback``, ``wait`` or ``cpu``.
    begin_ns, end_ns
        Sorted by begin, shape (n,); nested intervals are allowed.
    names
        Index into the timeline's names, shape (n,).
    ids
        Of the row that an interval is made from, shape (n,).
    """

    key: str
    label: str
    group: str
    kind: str
    begin_ns: Int64
    end_ns: Int64
    names: NDArray[np.int32]
    ids: Int64

    @cached_property
    def _latest_end(self) -> Int64:
        """The latest end so far, for intervals that began long before a window."""
        return np.maximum.accumulate(self.end_ns) if self.end_ns.size else self.end_ns

    @cached_property
    def _outer(self) -> tuple[Int64, Int64, Floats]:
        """Union of the intervals: begins, ends, and how long they were in all before each."""
        if not self.begin_ns.size:
            return self.begin_ns, self.end_ns, np.zeros(1)
        before = np.concatenate(([np.iinfo(np.int64).min], self._latest_end[:-1]))
        first = np.flatnonzero(self.begin_ns > before)
        last = np.concatenate((first[1:] - 1, [self.begin_ns.size - 1]))
        begins, ends = self.begin_ns[first], self._latest_end[last]
        return begins, ends, np.concatenate(([0.0], np.cumsum(ends - begins, dtype=np.float64)))

    def range(self, begin_ns: int, end_ns: int) -> tuple[int, int]:
        """First and one past the last interval that touch the window (some between may not)."""
        last = int(np.searchsorted(self.begin_ns, end_ns, side="right"))
        first = int(np.searchsorted(self._latest_end[:last], begin_ns, side="left"))
        return first, last

    def busy(self, edges: Int64) -> Floats:
        """Part of each stretch between edges in which an interval lasts, 0..1, shape (n - 1,)."""
        begins, ends, before = self._outer
        if not begins.size:
            return np.zeros(edges.size - 1)
        index = np.searchsorted(begins, edges, side="right")
        inside = (
            np.minimum(edges, ends[np.maximum(index - 1, 0)]) - begins[np.maximum(index - 1, 0)]
        )
        until = np.where(index > 0, before[np.maximum(index - 1, 0)] + inside, 0.0)
        return np.asarray(np.diff(until) / np.diff(edges), dtype=np.float64)

    def starts(self, edges: Int64) -> NDArray[np.int64]:
        """How many intervals begin in each stretch, shape (n - 1,)."""
        return np.diff(np.searchsorted(self.begin_ns, edges, side="left")).astype(np.int64)


@dataclass(frozen=True)
class Slices:
    """Marks of tracks with few intervals: one each.

    Attributes
    ----------
    track
        Index of the track.
    begin_ns, end_ns, names, ids
        As in `Track`.
    """

    track: NDArray[np.int32]
    begin_ns: Int64
    end_ns: Int64
    names: NDArray[np.int32]
    ids: Int64


@dataclass(frozen=True)
class Bins:
    """Marks of tracks with many intervals: the busy part of each pixel column.

    Attributes
    ----------
    track
        Index of the track.
    column
        From 0, of `columns` over the window.
    busy
        Part of the column in which an interval lasts, 0..1.
    count
        Intervals that begin in it.
    """

    track: NDArray[np.int32]
    column: NDArray[np.int32]
    busy: Floats
    count: NDArray[np.int64]
    columns: int


@dataclass(frozen=True)
class Picture:
    """What is drawn of a window."""

    begin_ns: int
    end_ns: int
    slices: Slices
    bins: Bins

    @property
    def marks(self) -> int:
        """How many marks it is made of."""
        return int(self.slices.ids.size + self.bins.column.size)


@dataclass
class Timeline:
    """Tracks of a recording.

    Attributes
    ----------
    tracks
        In the order in which they are drawn.
    names
        What intervals are called.
    begin_ns, end_ns
        Of everything.
    """

    tracks: Sequence[Track]
    names: Sequence[str]
    begin_ns: int
    end_ns: int
    kinds: Sequence[str] = field(default=("callback", "wait"))

    def picture(
        self,
        begin_ns: int,
        end_ns: int,
        columns: int,
        shown: Sequence[int] | None = None,
        most: int = MOST_MARKS,
    ) -> Picture:
        """What to draw of a window.

        Parameters
        ----------
        columns
            Pixels that the window is wide.
        shown
            Indices of the tracks; all by default.
        most
            Marks at most, at least one per track.
        """
        indices = list(range(len(self.tracks))) if shown is None else list(shown)
        end_ns = max(end_ns, begin_ns + 1)
        share = most // max(1, len(indices))
        columns = max(1, min(columns, share, end_ns - begin_ns))
        whole, binned = [], []
        edges = np.linspace(begin_ns, end_ns, columns + 1).astype(np.int64)
        for index in indices:
            first, last = self.tracks[index].range(begin_ns, end_ns)
            if last - first <= share:
                whole.append((index, first, last))
            else:
                binned.append(index)
        return Picture(begin_ns, end_ns, self._slices(whole), self._bins(binned, edges, columns))

    def _slices(self, parts: Sequence[tuple[int, int, int]]) -> Slices:
        def gather(name: str, kind: type[np.generic]) -> NDArray[np.generic]:
            arrays = [getattr(self.tracks[i], name)[a:b] for i, a, b in parts]
            return np.concatenate(arrays) if arrays else np.zeros(0, dtype=kind)

        counts = [b - a for _, a, b in parts]
        return Slices(
            np.repeat(np.array([i for i, _, _ in parts], dtype=np.int32), counts),
            gather("begin_ns", np.int64),  # type: ignore[arg-type]
            gather("end_ns", np.int64),  # type: ignore[arg-type]
            gather("names", np.int32),  # type: ignore[arg-type]
            gather("ids", np.int64),  # type: ignore[arg-type]
        )

    def _bins(self, indices: Sequence[int], edges: Int64, columns: int) -> Bins:
        tracks, places, busy, counts = [], [], [], []
        for index in indices:
            part = self.tracks[index].busy(edges)
            begun = self.tracks[index].starts(edges)
            there = np.flatnonzero((part > 0) | (begun > 0))
            tracks.append(np.full(there.size, index, dtype=np.int32))
            places.append(there.astype(np.int32))
            busy.append(part[there])
            counts.append(begun[there])
        empty = np.zeros(0)
        return Bins(
            np.concatenate(tracks) if tracks else empty.astype(np.int32),
            np.concatenate(places) if places else empty.astype(np.int32),
            np.concatenate(busy) if busy else empty,
            np.concatenate(counts) if counts else empty.astype(np.int64),
            columns,
        )

    def at(self, track: int, time_ns: int, within_ns: int = 0) -> int | None:
        """Index of the innermost interval of a track at a moment, or else the nearest close by."""
        found = self.tracks[track]
        first, last = found.range(time_ns - within_ns, time_ns + within_ns)
        if first >= last:
            return None
        begins, ends = found.begin_ns[first:last], found.end_ns[first:last]
        away = np.maximum(begins - time_ns, 0) + np.maximum(time_ns - ends, 0)
        nearest = np.flatnonzero(away == away.min())
        if away.min() > within_ns:
            return None
        return first + int(nearest[-1])


def build_timeline(
    callbacks: pl.LazyFrame, waits: pl.LazyFrame, processes: pl.LazyFrame
) -> Timeline:
    """Tracks of one run: callbacks per thread and node, and below them the executor's waiting.

    Parameters
    ----------
    callbacks
        ``callback_instances``: callback_instance_id, host, vpid, vtid, node, kind, name, start_ns,
        end_ns.
    waits
        ``executor_intervals``: host, vpid, vtid, state, begin_ns, end_ns.
    processes
        ``processes``: host, vpid, procname.
    """
    names_of = {
        (host, vpid): name
        for host, vpid, name in processes.select("host", "vpid", "procname").collect().rows()
    }
    # Text as numbers: a recording has millions of callbacks and few names.
    text = pl.col("called", "node", "host").cast(pl.Categorical)
    labelled = (
        callbacks.select(
            *("callback_instance_id", "host", "vpid", "vtid", "start_ns"),
            called=pl.coalesce("name", "kind", pl.lit("callback")),
            node=pl.col("node").fill_null("(node unknown)"),
            end_ns=pl.col("end_ns").fill_null(pl.col("start_ns") + UNFINISHED_NS),
        )
        .with_columns(text)
        .sort("start_ns")
        .collect()
    )
    called = labelled["called"].unique().cast(pl.String).sort().to_list()
    number = {name: index for index, name in enumerate(called)}
    labelled = labelled.with_columns(
        number=pl.col("called").replace_strict(number, return_dtype=pl.Int32)
    )
    found: list[tuple[tuple[object, ...], Track]] = []
    keys = ["host", "vpid", "vtid", "node"]
    for key, part in labelled.partition_by(keys, as_dict=True).items():
        host, vpid, vtid, node = key
        found.append(
            (
                (str(host), _number(vpid), _number(vtid), 0, str(node)),
                Track(
                    f"callback/{host}/{vpid}/{vtid}/{node}",
                    str(node),
                    _process(names_of, host, vpid, vtid),
                    "callback",
                    part["start_ns"].to_numpy(),
                    part["end_ns"].to_numpy(),
                    part["number"].to_numpy(),
                    part["callback_instance_id"].to_numpy(),
                ),
            )
        )
    waiting = (
        waits.filter((pl.col("state") == "wait") & pl.col("end_ns").is_not_null())
        .select("host", "vpid", "vtid", "begin_ns", "end_ns")
        .with_columns(pl.col("host").cast(pl.Categorical))
        .sort("begin_ns")
        .collect()
    )
    for key, part in waiting.partition_by(["host", "vpid", "vtid"], as_dict=True).items():
        host, vpid, vtid = key
        found.append(
            (
                (str(host), _number(vpid), _number(vtid), 1, ""),
                Track(
                    f"wait/{host}/{vpid}/{vtid}",
                    "waiting for work",
                    _process(names_of, host, vpid, vtid),
                    "wait",
                    part["begin_ns"].to_numpy(),
                    part["end_ns"].to_numpy(),
                    np.full(part.height, len(called), dtype=np.int32),
                    np.arange(part.height, dtype=np.int64),
                ),
            )
        )
    found.sort(key=lambda pair: tuple(map(str, pair[0][:1])) + pair[0][1:])
    tracks = [track for _, track in found]
    if not tracks:
        return Timeline([], [*called, "wait"], 0, 1)
    begin = min(int(t.begin_ns[0]) for t in tracks)
    end = max(int(t.end_ns.max()) for t in tracks)
    return Timeline(tracks, [*called, "wait"], begin, max(end, begin + 1))


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


def _process(
    names: dict[tuple[object, object], str | None], host: object, vpid: object, vtid: object
) -> str:
    name = names.get((host, vpid)) or "process"
    return f"{host} {name} {vpid}, thread {vtid}"
