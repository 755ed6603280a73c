"""Represent threads as lines of time, cut wherever something on them begins or ends.

All lines lie one behind the other on one axis of integers, so that each question about all
threads is one binary search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from roslens.recording.arrays import Ints, np


@dataclass(frozen=True)
class Axis:
    """Axis with the places of (line, time): each line has `span` ns from `first_ns` on."""

    first_ns: int
    span: int

    def at(self, line: Ints, time_ns: Ints) -> Ints:
        """Return the places of times on lines; times beyond the axis are moved to its ends."""
        inside = np.clip(time_ns - self.first_ns, 0, self.span - 1)
        return np.asarray(line * self.span + inside, np.int64)


@dataclass(frozen=True)
class Layer:
    """Disjoint stretches in order, as places; `row` is the caller's number for each stretch."""

    begin: Ints
    end: Ints
    row: Ints

    @classmethod
    def of(cls, axis: Axis, line: Ints, begin_ns: Ints, end_ns: Ints) -> Self:
        """Build a layer from stretches in any order; overlaps are cut where the next one begins."""
        begin, end = axis.at(line, begin_ns), axis.at(line, end_ns)
        row = np.flatnonzero((end > begin) & (line >= 0))
        row = row[np.argsort(begin[row], kind="stable")]
        begin, end = begin[row], end[row]
        return cls(begin, np.minimum(end, np.append(begin[1:], np.iinfo(np.int64).max)), row)

    def row_at(self, place: Ints) -> Ints:
        """Return the row of the stretch at each place, -1 without one."""
        number = np.searchsorted(self.begin, place, "right")
        covered = np.append(place.min(initial=0), self.end)[number] > place
        return np.where(covered, np.append(-1, self.row)[number], -1)

    def row_before(self, place: Ints) -> Ints:
        """Return the row of the last stretch begun at or before a place, on any line, or -1."""
        return np.append(-1, self.row)[np.searchsorted(self.begin, place, "right")]

    def within(self, begin: Ints, end: Ints) -> Ints:
        """Return for how many ns each given stretch is covered by the layer."""
        total = np.append(0, np.cumsum(self.end - self.begin))

        def up_to(place: Ints) -> Ints:
            number = np.searchsorted(self.begin, place, "right")
            over = np.append(0, self.end)[number] - place
            return np.asarray(total[number] - np.maximum(over, 0), np.int64)

        return up_to(end) - up_to(begin)


def edges_of(layers: Sequence[Layer]) -> Ints:
    """Return the sorted places at which a stretch of a layer begins or ends."""
    edges = np.concatenate([places for layer in layers for places in (layer.begin, layer.end)])
    edges.sort(kind="stable")  # the array consists of a few sorted runs
    new = np.ones(edges.size, bool)
    new[1:] = edges[1:] > edges[:-1]
    return edges[new]


def cut(
    axis: Axis, line: Ints, begin_ns: Ints, end_ns: Ints, edges: Ints
) -> tuple[Ints, Ints, Ints]:
    """Cut stretches of time on lines at edges.

    Returns
    -------
    For each piece the number of its stretch, its begin and its end, in the order of the stretches.
    A stretch without a length has no pieces.
    """
    begin, end = axis.at(line, begin_ns), axis.at(line, end_ns)
    first = np.searchsorted(edges, begin, "right")
    count = np.maximum(np.searchsorted(edges, end, "left") - first, 0) + 1
    count[end <= begin] = 0
    origin = np.repeat(np.arange(begin.size), count)
    number = np.arange(origin.size) - np.repeat(np.cumsum(count) - count, count)
    edge = np.append(edges, 0)[np.minimum(first[origin] + number, edges.size)]
    from_place = np.where(number == 0, begin[origin], np.append(0, edge)[:-1])
    to_place = np.where(number == count[origin] - 1, end[origin], edge)
    moved = begin_ns[origin] - begin[origin]
    return origin, from_place + moved, to_place + moved
