"""Bound the offsets between the clocks of hosts over time, from the messages between them.

A message is taken after it was sent. Let c be how far the clock of a host is ahead of the first
host's, as a function of the host's own time: a message sent at ``s`` by host i and taken at ``t``
by host j shows that c_j(t) - c_i(s) <= t - s, whatever the delay. Near a moment each c is a line,
from which it departs by no more than half the `WANDER` times the squared distance in time; so all
messages are linear constraints on two numbers per host, its offset at that moment and its rate, and
one linear program each gives the least and the greatest offset that fit: true bounds, which do not
assume equal delays. (M. Jabbarifar et al. do the same in "Optimum offline trace synchronization",
DEXA 2012, with one line for a whole trace.) Only points of the convex hulls of the messages in each
direction count.

Where nothing fits, a clock stepped or a machine was suspended: the longest beginning and the
longest end that fit show between which messages. Between these neither side is preferred: the
bounds hold for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from scipy.optimize import linprog
from scipy.sparse import block_diag
from scipy.spatial import ConvexHull, QhullError

from roslens.recording.arrays import Bools, Floats, Ints, NDArray, np

WANDER = 20.0
"""Limit in ns/s^2: the rates of two clocks diverge by no more than 0.02 ppm per second, which is a
quartz of 1 ppm per kelvin in a housing that warms by more than a kelvin a minute."""
FASTEST = 1_000_000.0
"""Limit in ns/s: no clock runs 1,000 ppm faster than another; the kernel slews by 500 at most."""
_KNOTS = 64
_BEYOND_S = 10.0
_MOST_STEPS = 20
_CHUNKS = 256
_ROUNDING_NS = 2


@dataclass(frozen=True)
class Step:
    """A step of a clock: it jumped against the first host's, or stood still.

    Attributes
    ----------
    host
        Label of the host whose clock stepped.
    begin_ns, end_ns
        Times of the first host's clock between which it happened.
    low_ns, high_ns
        Bounds of how much further ahead the clock is since then.
    """

    host: str
    begin_ns: int
    end_ns: int
    low_ns: int
    high_ns: int


@dataclass(frozen=True)
class _Stretch:
    """A time without steps, with bounds of how far host j is ahead of host i at some moments."""

    core: tuple[float, float]
    at: Floats
    low: Floats
    high: Floats

    def bounds(self, i: int, j: int, at: Floats) -> tuple[Floats, Floats]:
        return np.interp(at, self.at, self.low[i, j]), np.interp(at, self.at, self.high[i, j])


@dataclass(frozen=True)
class Fit:
    """The result of a fit: what messages show about the clocks of hosts.

    Attributes
    ----------
    hosts
        Labels of the hosts; the first is the reference for the others.
    steps
        Steps of clocks.
    messages
        Number of messages of each pair of hosts, from and to.
    """

    hosts: Sequence[str]
    steps: Sequence[Step]
    messages: Mapping[tuple[str, str], int]
    rough_ns: Ints
    base_ns: int
    stretches: Sequence[_Stretch]

    def offset_bounds(self, host: str, time_ns: Ints) -> tuple[Floats, Floats]:
        """Return the least and greatest ns that a host's clock is ahead of the first host's.

        Parameters
        ----------
        time_ns
            Times by the clock of the host.

        Returns
        -------
        low, high
            Infinite where no message bounds it, and more than 10 s from all messages.
        """
        place = self.hosts.index(host)
        at = (time_ns - self.base_ns - self.rough_ns[place]) / 1e9
        low, high = self._bounds_across_steps(0, place, at)
        return low + self.rough_ns[place], high + self.rough_ns[place]

    @property
    def span_s(self) -> float:
        """Seconds from the first message between hosts to the last one."""
        return self.stretches[-1].core[1] - self.stretches[0].core[0]

    def ends(self, host: str) -> tuple[Floats, Floats] | tuple[None, None]:
        """Return bounds of a host's lead in ns at the first message and the last.

        None where no message bounds it.
        """
        place = self.hosts.index(host)
        at = np.array([self.stretches[0].core[0], self.stretches[-1].core[1]])
        low, high = self._bounds_across_steps(0, place, at)
        if not np.isfinite(high - low).all():
            return None, None
        return low + self.rough_ns[place], high + self.rough_ns[place]

    def corrections(self) -> dict[str, list[tuple[int, int]]]:
        """Return what to add to each host's times to express them by the first host's clock.

        Returns
        -------
        dict
            By label of a host whose offset is bounded: times of its own clock and ns to add to
            them, interpolated linearly. Where a clock jumped backwards against another one, the
            other machine may have been suspended: all other clocks wait there, so that no time
            line goes back.
        """
        lines: dict[str, list[tuple[int, int]]] = {host: [] for host in self._bounded}
        waited = 0
        before: dict[str, int] = {}
        for stretch, (begin, end) in zip(self.stretches, self._pieces(), strict=True):
            at = np.unique(np.clip(stretch.at, begin, end))
            ahead = {host: self._middle(stretch, self.hosts.index(host), at) for host in lines}
            jumps = [
                int(offsets[0]) - before[host] for host, offsets in ahead.items() if host in before
            ]
            waited += max(0, *jumps) if jumps else 0
            for host, line in lines.items():
                place = self.hosts.index(host)
                times = self._offsets_at(place, at)
                times[0] += bool(line) and line[-1][0] >= times[0]
                add = waited - self.rough_ns[place] - ahead[host]
                line.extend(zip(times.tolist(), add.tolist(), strict=True))
                before[host] = int(ahead[host][-1])
        return {host: points for host, points in lines.items() if any(a for _, a in points)}

    def bounds(self, *, aligned: bool) -> dict[tuple[str, str], list[tuple[int, int]]]:
        """Return the largest error of the difference between times on two hosts.

        Parameters
        ----------
        aligned
            Whether `corrections` were added to all times.

        Returns
        -------
        dict
            By pair of hosts that bound each other: times by the aligned clocks and the bounds in
            ns, interpolated linearly; a single bound for all times if clocks are not aligned.
        """
        bounds: dict[tuple[str, str], list[tuple[int, int]]] = {}
        added = self.corrections() if aligned else {}
        for i, host in enumerate(self.hosts):
            for j, earlier in enumerate(self.hosts[:i]):
                points = self._pair(i, j, added)
                if points:
                    bounds[host, earlier] = bounds[earlier, host] = points
        return bounds

    def _pair(
        self, i: int, j: int, added: Mapping[str, Sequence[tuple[int, int]]]
    ) -> list[tuple[int, int]]:
        at = self._moments()
        low, high = self._bounds_across_steps(i, j, at)
        # Times of host i, never the first; j is ahead of it by this once the offsets are added.
        local = self._offsets_at(i, at)
        more = [
            _line(self._offsets_at(k, at), added.get(self.hosts[k])) + self.rough_ns[k]
            for k in (i, j)
        ]
        width = np.maximum(np.abs(low + more[1] - more[0]), np.abs(high + more[1] - more[0]))
        gap = np.diff(at, prepend=at[0], append=at[-1])
        width += WANDER * np.maximum(gap[:-1], gap[1:]) ** 2 / 8 + _ROUNDING_NS
        if not added:
            # The clock of a time is unknown: use one bound from the first message to the last.
            inner = (at >= self.stretches[0].core[0]) & (at <= self.stretches[-1].core[1])
            most = width[inner].max()
            return [(0, int(np.ceil(most)))] if np.isfinite(most) else []
        times = local + _line(local, added.get(self.hosts[i])).astype(np.int64)
        finite = np.isfinite(width)
        return list(
            zip(times[finite].tolist(), np.ceil(width[finite]).astype(int).tolist(), strict=True)
        )

    def _offsets_at(self, place: int, at: Floats) -> Ints:
        times: Ints = self.base_ns + self.rough_ns[place] + np.round(at * 1e9).astype(np.int64)
        return times

    def _moments(self) -> Floats:
        """Return the knots of all stretches, and both sides of the moments at which they change."""
        edges = [moment for piece in self._windows() for moment in (*piece, sum(piece) / 2)]
        close = [edge + side for edge in edges for side in (-1e-9, 1e-9)]
        inner = [
            at[(at >= s.core[0]) & (at <= s.core[1])] for s in self.stretches for at in (s.at,)
        ]
        ends = [self.stretches[0].at[:1], self.stretches[-1].at[-1:]]
        return np.unique(np.concatenate([*inner, *ends, np.array(close, dtype=np.float64)]))

    def _windows(self) -> list[tuple[float, float]]:
        """Return for each step the times between which it happened."""
        pairs = zip(self.stretches, self.stretches[1:], strict=False)
        return [(min(a.core[1], b.core[0]), max(a.core[1], b.core[0])) for a, b in pairs]

    def _pieces(self) -> list[tuple[float, float]]:
        """Return for each stretch the begin and end of the time that it is used for."""
        middles = [(a + b) / 2 for a, b in self._windows()]
        return list(
            zip(
                [self.stretches[0].at[0], *middles],
                [*middles, self.stretches[-1].at[-1]],
                strict=True,
            )
        )

    def _bounds_across_steps(self, i: int, j: int, at: Floats) -> tuple[Floats, Floats]:
        """Return bounds of j against i; where a step is possible, they hold on both sides of it."""
        low, high = np.full(at.size, np.inf), np.full(at.size, -np.inf)
        for stretch in self.stretches:
            inside = (at >= stretch.at[0]) & (at <= stretch.at[-1])
            least, most = stretch.bounds(i, j, at[inside])
            low[inside] = np.minimum(low[inside], least)
            high[inside] = np.maximum(high[inside], most)
        nothing = low > high
        low[nothing], high[nothing] = -np.inf, np.inf
        return low, high

    @property
    def _bounded(self) -> list[str]:
        finite = [np.isfinite(s.high[0] - s.low[0]).any(axis=1) for s in self.stretches]
        return [host for host, fine in zip(self.hosts, np.all(finite, axis=0), strict=True) if fine]

    def _middle(self, stretch: _Stretch, j: int, at: Floats) -> Ints:
        low, high = stretch.low[0, j], stretch.high[0, j]
        finite = np.isfinite(low) & np.isfinite(high)
        middle = (low[finite] + high[finite]) / 2
        offsets: Ints = np.round(np.interp(at, stretch.at[finite], middle)).astype(np.int64)
        return offsets


def _line(times: Ints, points: Sequence[tuple[int, int]] | None) -> Floats:
    if not points:
        return np.zeros(times.size)
    at, add = (np.array(column, dtype=np.int64) for column in zip(*points, strict=True))
    added: Floats = np.interp((times - at[0]).astype(float), (at - at[0]).astype(float), add)
    return added


def fit_clocks(crossings: pl.DataFrame, hosts: Sequence[str]) -> Fit | None:
    """Bound how far the clocks of hosts are ahead of the first host's.

    Parameters
    ----------
    crossings
        from_host, to_host, sent_ns, taken_ns: each by the clock of its host. Names that are not
        in `hosts` are other clocks, such as that of a time server.
    hosts
        Labels of all hosts.

    Returns
    -------
    Fit or None
        None where no message went between hosts, or where the clocks jumped more than 20 times.
    """
    foreign = {*crossings["from_host"], *crossings["to_host"]} - {*hosts}
    names = [*hosts, *sorted(foreign)]
    if crossings.is_empty():
        return None
    number = {name: place for place, name in enumerate(names)}
    i, j = (
        crossings[c].replace_strict(number, return_dtype=pl.Int64).to_numpy()
        for c in ("from_host", "to_host")
    )
    sent, taken = (crossings[c].to_numpy() for c in ("sent_ns", "taken_ns"))
    rough = _rough_offsets(i, j, taken - sent, len(names))
    sent, taken = sent - rough[i], taken - rough[j]
    base = int(min(sent.min(), taken.min()))
    messages = _Messages(i, j, (sent - base) / 1e9, (taken - base) / 1e9, taken - sent)
    cores = _cores(messages, len(names))
    if cores is None:
        return None
    # No bounds are given farther than this from all messages.
    ends = [float(messages.at.min()) - _BEYOND_S, float(messages.at.max()) + _BEYOND_S]
    stretches = []
    for place, (part, core) in enumerate(cores):
        begin = min([ends[0]] if place == 0 else [core[0], cores[place - 1][1][1]])
        end = max([ends[1]] if core is cores[-1][1] else [core[1], cores[place + 1][1][0]])
        stretches.append(_stretch(part.hull(), len(names), begin, end, core))
    counts = crossings.group_by("from_host", "to_host").len().rows()
    fit = Fit(names, [], {(a, b): n for a, b, n in counts}, rough, base, stretches)
    return Fit(
        hosts, list(_steps(fit, hosts)), fit.messages, rough[: len(hosts)], base,
        [_between_hosts(stretch, len(hosts)) for stretch in stretches],
    )  # fmt: skip


def _between_hosts(stretch: _Stretch, count: int) -> _Stretch:
    low, high = (side[:count, :count] for side in (stretch.low, stretch.high))
    return _Stretch(stretch.core, stretch.at, low, high)


def _steps(fit: Fit, hosts: Sequence[str]) -> Iterator[Step]:
    pairs = zip(fit.stretches, fit.stretches[1:], strict=False)
    for (before, after), (begin, end) in zip(pairs, fit._windows(), strict=True):
        at = np.array([(begin + end) / 2])
        for j, host in enumerate(hosts[1:], 1):
            (low, high), (low2, high2) = (s.bounds(0, j, at) for s in (before, after))
            least, most = (low2 - high)[0], (high2 - low)[0]
            if np.isfinite([least, most]).all() and (least > 0 or most < 0):
                from_ns, to_ns = (fit.base_ns + round(moment * 1e9) for moment in (begin, end))
                yield Step(host, from_ns, to_ns, int(np.floor(least)), int(np.ceil(most)))


def _rough_offsets(i: Ints, j: Ints, ahead: Ints, count: int) -> Ints:
    """Estimate how far each clock is ahead of the first one, so that the remainder is small."""
    offsets: dict[int, int] = {0: 0}
    waiting = [0]
    while waiting:
        host = waiting.pop()
        for peer in range(count):
            forth, back = ahead[(i == host) & (j == peer)], -ahead[(i == peer) & (j == host)]
            bounds = [
                int(side.min() if side is forth else side.max())
                for side in (forth, back)
                if side.size
            ]
            if peer not in offsets and bounds:
                offsets[peer] = offsets[host] + sum(bounds) // len(bounds)
                waiting.append(peer)
    return np.array([offsets.get(place, 0) for place in range(count)], dtype=np.int64)


@dataclass(frozen=True)
class _Messages:
    """Messages: sender and receiver, seconds of sending and taking, and their difference in ns."""

    i: Ints
    j: Ints
    s: Floats
    t: Floats
    d: Ints

    @property
    def at(self) -> Floats:
        """Time at which each message bears on a clock: that of the host that is not the first."""
        return np.where(self.i == 0, self.t, self.s)

    def take(self, rows: NDArray[np.intp] | Bools | slice) -> _Messages:
        return _Messages(self.i[rows], self.j[rows], self.s[rows], self.t[rows], self.d[rows])

    def hull(self, chunks: int = 1) -> _Messages:
        """Return the messages that bound something, for each stretch of time and direction."""
        at = self.at
        if not at.size:
            return self
        edges = np.linspace(at.min(), at.max(), chunks + 1)[1:-1]
        place = np.searchsorted(edges, at)
        kept = [
            rows[corners(at[rows], self.d[rows] + WANDER / 2 * (at[rows] - at[rows].mean()) ** 2)]
            for key in np.unique(np.stack([self.i, self.j, place]), axis=1).T
            for rows in [
                np.flatnonzero((self.i == key[0]) & (self.j == key[1]) & (place == key[2]))
            ]
        ]
        chosen = np.concatenate(kept)
        return self.take(chosen[np.argsort(at[chosen], kind="stable")])


def corners(x: Floats, y: Floats) -> NDArray[np.intp]:
    """Return the corners of the convex hull: no other point bounds a line; all points if few."""
    if x.size <= 8:
        return np.arange(x.size)
    points = np.stack([x, y], axis=1)
    points -= points.min(axis=0)
    try:
        return np.sort(ConvexHull(points / np.maximum(points.max(axis=0), 1e-9)).vertices)
    except QhullError:  # all points on one line
        return np.arange(x.size)


def _greatest(
    messages: _Messages, count: int, at: Floats, goals: Sequence[tuple[int, int]]
) -> Floats:
    """Return the most ns that host j can be ahead of i, for moments and goals (i, j).

    NaN where nothing fits; infinite where no message bounds it.
    """
    about = _rough_offsets(messages.i, messages.j, messages.d, count)
    # Microseconds, and microseconds per second: numbers of similar size.
    ahead = (messages.d - about[messages.j] + about[messages.i]) / 1e3
    fastest = FASTEST / 1e3
    limits = [(0.0, 0.0), (0.0, 0.0), *[(None, None), (-fastest, fastest)] * (count - 1)]
    rows = np.arange(ahead.size)
    lefts, rights = [], []
    for moment in at:
        left, right = np.zeros((ahead.size, 2 * count)), ahead
        for sign, host, time in ((-1.0, messages.i, messages.s), (1.0, messages.j, messages.t)):
            since = time - moment
            left[rows, 2 * host] += sign
            left[rows, 2 * host + 1] += sign * since
            right = right + np.where(host > 0, WANDER / 2e3 * since**2, 0.0)
        lefts.append(left)
        rights.append(right)
    aims = np.zeros((len(goals), 2 * count))
    for aim, (i, j) in zip(aims, goals, strict=True):
        aim[2 * i] += 1
        aim[2 * j] -= 1

    def solve(places: Sequence[tuple[int, int]]) -> Floats:
        """Solve moments and goals as one program, as starting a program takes most of the time."""
        # The stubs of linprog know no sparse matrices.
        solver: Any = linprog
        result = solver(
            np.concatenate([aims[goal] for _, goal in places]),
            A_ub=block_diag([lefts[place] for place, _ in places], format="csc"),
            b_ub=np.concatenate([rights[place] for place, _ in places]),
            bounds=limits * len(places),
            method="highs",
        )
        if result.status == 0:
            best = result.x.reshape(len(places), -1)
            return np.array([-aims[g] @ x for (_, g), x in zip(places, best, strict=True)])
        if len(places) > 1:
            half = len(places) // 2
            return np.concatenate([solve(places[:half]), solve(places[half:])])
        return np.array([np.nan if result.status == 2 else np.inf])

    places = [(place, goal) for place in range(at.size) for goal in range(len(goals))]
    most: Floats = solve(places).reshape(at.size, len(goals)) * 1e3
    most += np.array([about[j] - about[i] for i, j in goals])
    return most


def _knots(begin: float, end: float) -> Floats:
    return np.linspace(begin, end, int(np.clip(np.ceil(end - begin), 1, _KNOTS)) + 1)


def _is_explained(messages: _Messages, count: int, *, end: float | None = None) -> bool:
    """Return whether clocks without a step explain messages; with `end`, mainly before it."""
    if messages.d.size < 2:
        return True
    at = messages.at
    knots = _knots(at.min(), at.max())
    if end is not None:
        # Knots get closer and closer to the end.
        knots = np.unique(end + (at[0] - end) * np.geomspace(1e-4, 1, 10))
    greatest = _greatest(messages.hull(), count, knots, [(0, 0)])
    return not np.isnan(greatest).any()


def _cores(messages: _Messages, count: int) -> list[tuple[_Messages, tuple[float, float]]] | None:
    """Return stretches without a step: their certain messages, and first and last time of these."""
    at = messages.at
    if _is_explained(messages, count):
        return [(messages, (float(at.min()), float(at.max())))]
    few = messages.hull(_CHUNKS)
    size = few.d.size

    def begins(part: _Messages) -> list[int] | None:
        """Return where each piece but the first begins, for the least number from the left."""
        starts: list[int] = []
        begin = 0
        while not _is_explained(part.take(slice(begin, None)), count):
            good, bad = begin, size
            while bad - good > 1:
                middle = (good + bad) // 2
                piece = part.take(slice(begin, middle))
                fits = _is_explained(piece, count, end=float(piece.at[-1]))
                good, bad = (middle, bad) if fits else (good, middle)
            begin = bad - 1
            starts.append(begin)
            if len(starts) > _MOST_STEPS:
                return None
        return starts

    latest = begins(few)
    back = begins(few.take(slice(None, None, -1)))
    if latest is None or back is None or len(latest) != len(back):
        return None
    moments = few.at
    after = [float(moments[place]) for place in latest]
    before = [float(moments[size - 1 - place]) for place in reversed(back)]
    edges = zip([float(at.min()), *after], [*before, float(at.max())], strict=True)
    return [(messages.take((at >= a) & (at <= b)), (a, b)) for a, b in edges]


def _stretch(
    hull: _Messages, count: int, begin: float, end: float, core: tuple[float, float]
) -> _Stretch:
    at = np.unique(np.concatenate([_knots(begin, end), np.clip(core, begin, end)]))
    goals = [(i, j) for i in range(count) for j in range(count) if i != j]
    most = _greatest(hull, count, at, goals) + _ROUNDING_NS
    low, high = (np.zeros((count, count, at.size)) for _ in range(2))
    for place, (i, j) in enumerate(goals):
        high[i, j] = low[j, i] = np.where(np.isnan(most[:, place]), np.inf, most[:, place])
    return _Stretch(core, at, -low, high)
