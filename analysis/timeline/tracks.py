"""Hold tracks of intervals, and reduce them to what a window of some pixels can show.

The number of marks sent is limited, however many intervals a window holds: a track with few
is sent as it is, one with many, or with more than pixels, as the busy part of each pixel column,
from cumulative sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from roslens.recording.arrays import Floats, Ints, NDArray, np
from roslens.recording.manifest import Hit

MOST_MARKS = 10_000
"""Most marks that are sent, over all tracks."""


@dataclass(frozen=True)
class Track:
    """The intervals of one kind in one thread.

    Attributes
    ----------
    key
        Text that is unique among the tracks.
    label, group
        Text for people: name of the track, and heading (a process) that it is drawn under.
    kind
        ``callback``, ``wait``, ``blocked``, ``cpu`` (the CPU time used), ``core`` (who ran
        on it), ``running`` or ``runnable`` (a thread on a CPU, or waiting for one).
    begin_ns, end_ns
        Times sorted by begin, shape (n,); nested intervals are allowed.
    names
        Index into the timeline's names, shape (n,).
    ids
        Number of the row from which an interval is made, shape (n,).
    levels
        CPUs in use in each interval, shape (n,); only for tracks of kind ``cpu``, whose intervals
        do not overlap.
    places
        Heading and label of the track, by grouping (process, node, executor).
    """

    key: str
    label: str
    group: str
    kind: str
    begin_ns: Ints
    end_ns: Ints
    names: NDArray[np.int32]
    ids: Ints
    levels: Floats | None = None
    places: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @cached_property
    def _latest_end(self) -> Ints:
        """The latest end up to each interval, to find intervals that began long before a window."""
        return np.maximum.accumulate(self.end_ns) if self.end_ns.size else self.end_ns

    @cached_property
    def _union(self) -> tuple[Ints, Ints, Floats]:
        """Union of the intervals: begins, ends, and the total length before each.

        With levels: the intervals themselves, and the sum of length times level.
        """
        if not self.begin_ns.size:
            return self.begin_ns, self.end_ns, np.zeros(1)
        if self.levels is not None:
            used = (self.end_ns - self.begin_ns) * self.levels
            return self.begin_ns, self.end_ns, np.concatenate(([0.0], np.cumsum(used)))
        before = np.concatenate(([np.iinfo(np.int64).min], self._latest_end[:-1]))
        first = np.flatnonzero(self.begin_ns > before)
        last = np.concatenate((first[1:] - 1, [self.begin_ns.size - 1]))
        begins, ends = self.begin_ns[first], self._latest_end[last]
        return begins, ends, np.concatenate(([0.0], np.cumsum(ends - begins, dtype=np.float64)))

    def range(self, begin_ns: int, end_ns: int) -> tuple[int, int]:
        """Return the first and one past the last interval that touch the window (some may not)."""
        last = int(np.searchsorted(self.begin_ns, end_ns, side="right"))
        first = int(np.searchsorted(self._latest_end[:last], begin_ns, side="left"))
        return first, last

    def busy(self, edges: Ints) -> Floats:
        """Return the busy part of each stretch between edges, 0..1, shape (n - 1,).

        With levels: the mean level, at least 0.
        """
        begins, ends, before = self._union
        if not begins.size:
            return np.zeros(edges.size - 1)
        index = np.searchsorted(begins, edges, side="right")
        last = np.maximum(index - 1, 0)
        inside: NDArray[Any] = np.minimum(edges, ends[last]) - begins[last]
        if self.levels is not None:
            inside = inside * self.levels[last]
        until = np.where(index > 0, before[last] + inside, 0.0)
        return np.asarray(np.diff(until) / np.diff(edges), dtype=np.float64)

    def starts(self, edges: Ints) -> Ints:
        """Return the number of intervals that begin in each stretch, shape (n - 1,)."""
        return np.diff(np.searchsorted(self.begin_ns, edges, side="left")).astype(np.int64)


@dataclass(frozen=True)
class Slices:
    """Marks of tracks with few intervals, one per interval.

    Attributes
    ----------
    track
        Index of the track.
    begin_ns, end_ns, names, ids
        As in `Track`.
    levels
        As in `Track`; 0 where the track has none.
    """

    track: NDArray[np.int32]
    begin_ns: Ints
    end_ns: Ints
    names: NDArray[np.int32]
    ids: Ints
    levels: Floats


@dataclass(frozen=True)
class Bins:
    """Marks of tracks with many intervals: the busy part of each pixel column.

    Attributes
    ----------
    track
        Index of the track.
    column
        Number of the pixel column, from 0, of `columns` over the window.
    busy
        Part of the column in which an interval lasts, 0..1; of ``cpu`` tracks the mean level.
    count
        Number of intervals that begin in the column.
    """

    track: NDArray[np.int32]
    column: NDArray[np.int32]
    busy: Floats
    count: Ints
    columns: int


@dataclass(frozen=True)
class Picture:
    """The marks that are drawn in a window."""

    begin_ns: int
    end_ns: int
    slices: Slices
    bins: Bins

    @property
    def marks(self) -> int:
        """Number of marks in the picture."""
        return int(self.slices.ids.size + self.bins.column.size)


@dataclass
class Timeline:
    """Tracks of a recording.

    Attributes
    ----------
    tracks
        In the order in which they are drawn.
    names
        Names of intervals.
    begin_ns, end_ns
        First begin and last end, ns.
    """

    tracks: Sequence[Track]
    names: Sequence[str]
    begin_ns: int
    end_ns: int

    def around(self, hits: Iterable[Hit]) -> tuple[Hit, int, int] | None:
        """Return the first trigger hit in the timeline, and begin and end around it in ns."""
        for hit in hits:
            if self.begin_ns <= hit.at_ns <= self.end_ns:
                begin, end = hit.around_ns
                return hit, max(begin, self.begin_ns), min(end, self.end_ns)
        return None

    def picture(
        self,
        begin_ns: int,
        end_ns: int,
        columns: int,
        shown: Sequence[int] | None = None,
        most: int = MOST_MARKS,
    ) -> Picture:
        """Return the marks to draw in a window.

        Parameters
        ----------
        columns
            Width of the window in pixels.
        shown
            Indices of the tracks; all tracks by default.
        most
            Most marks to return; at least one per track.
        """
        indices = list(range(len(self.tracks))) if shown is None else list(shown)
        end_ns = max(end_ns, begin_ns + 1)
        ranges = {index: self.tracks[index].range(begin_ns, end_ns) for index in indices}
        share = _share([last - first for first, last in ranges.values()], most)
        # Marks are at least a pixel wide: more of them than pixels would look like a busy thread.
        few = min(share, columns)
        whole = [(i, *ranges[i]) for i in indices if ranges[i][1] - ranges[i][0] <= few]
        binned = [i for i in indices if ranges[i][1] - ranges[i][0] > few]
        columns = max(1, min(columns, share, end_ns - begin_ns))
        # From 0 on: times since 1970 are as far apart as 256 ns in floating point.
        edges = begin_ns + np.linspace(0, end_ns - begin_ns, columns + 1).astype(np.int64)
        return Picture(begin_ns, end_ns, self._slices(whole), self._bins(binned, edges, columns))

    def _slices(self, parts: Sequence[tuple[int, int, int]]) -> Slices:
        ranges = [(self.tracks[index], slice(first, last)) for index, first, last in parts]
        counts = [last - first for _, first, last in parts]
        levels = (
            np.zeros(count) if track.levels is None else track.levels[part]
            for (track, part), count in zip(ranges, counts, strict=True)
        )
        none = np.zeros(0, np.int64)
        return Slices(
            np.repeat(np.array([i for i, _, _ in parts], dtype=np.int32), counts),
            np.concatenate([none, *(track.begin_ns[part] for track, part in ranges)]),
            np.concatenate([none, *(track.end_ns[part] for track, part in ranges)]),
            np.concatenate([none.astype(np.int32), *(track.names[part] for track, part in ranges)]),
            np.concatenate([none, *(track.ids[part] for track, part in ranges)]),
            np.concatenate([np.zeros(0), *levels]),
        )

    def _bins(self, indices: Sequence[int], edges: Ints, columns: int) -> Bins:
        shape = (len(indices), edges.size - 1)
        tracks = [self.tracks[index] for index in indices]
        busy = np.array([track.busy(edges) for track in tracks], np.float64).reshape(shape)
        begun = np.array([track.starts(edges) for track in tracks], np.int64).reshape(shape)
        row, column = np.nonzero((busy > 0) | (begun > 0))
        return Bins(
            np.array(indices, dtype=np.int32)[row],
            column.astype(np.int32),
            busy[row, column],
            begun[row, column],
            columns,
        )

    def at(self, track: int, time_ns: int, within_ns: int = 0) -> int | None:
        """Return the index of the innermost interval at a moment, or of the nearest close by."""
        chosen = self.tracks[track]
        first, last = chosen.range(time_ns - within_ns, time_ns + within_ns)
        if first >= last:
            return None
        begins, ends = chosen.begin_ns[first:last], chosen.end_ns[first:last]
        away = np.maximum(begins - time_ns, 0) + np.maximum(time_ns - ends, 0)
        nearest = np.flatnonzero(away == away.min())
        if away.min() > within_ns:
            return None
        return first + int(nearest[-1])

    def next(self, track: int, time_ns: int, by: int) -> int | None:
        """Return the index of a track's first interval from a moment on, or of the last up to it.

        Parameters
        ----------
        by
            1 for the first from the moment on, -1 for the last up to it.
        """
        begins = self.tracks[track].begin_ns
        side: Literal["left", "right"] = "left" if by > 0 else "right"
        index = int(np.searchsorted(begins, time_ns, side=side)) - (by < 0)
        return index if 0 <= index < begins.size else None

    def hit(
        self, names: AbstractSet[int], tracks: AbstractSet[int], time_ns: int, by: int
    ) -> tuple[int, int] | None:
        """Return track and place of the callback searched for, after or before a moment.

        Parameters
        ----------
        names, tracks
            The search: callbacks with these names, and all callbacks of these tracks.
        by
            1 for the next callback, -1 for the previous one.
        """
        hits = []
        for number, track in enumerate(self.tracks):
            if track.kind != "callback":
                continue
            side: Literal["left", "right"] = "right" if by > 0 else "left"
            edge = int(np.searchsorted(track.begin_ns, time_ns, side=side))
            part = slice(edge, None) if by > 0 else slice(0, edge)
            fits = (
                np.ones(track.ids[part].size, bool)
                if number in tracks
                else np.isin(track.names[part], list(names))
            )
            places = np.flatnonzero(fits)
            if places.size:
                place = int(places[0 if by > 0 else -1]) + (edge if by > 0 else 0)
                hits.append((by * int(track.begin_ns[place]), number, place))
        return min(hits)[1:] if hits else None


def _share(counts: Sequence[int], most: int) -> int:
    """Return the marks allowed per track, `most` in total; tracks with few intervals need fewer."""
    left, room = len(counts), most
    for count in sorted(counts):
        if count * left > room:
            break
        room -= count
        left -= 1
    return room // left if left else most
