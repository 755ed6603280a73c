"""Sample resource use and deaths of the processes of watched nodes while they are watched."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from statistics import median

import polars as pl

from roslens.analysis.overview.live import USED
from roslens.tracing.proc import own_namespace
from roslens.tracing.sampling.periodic import Periodic
from roslens.tracing.sampling.processes import ProcessReader, Sample

_TICK_S = 0.5
_TICKS = 10
"""The minimum number of samples in a window."""
_LEAST = 5
"""With fewer readings in a window, growth cannot be told from a step."""
_SPARE_NS = 60_000_000_000
_POINTS = 20
"""The number of memory readings in a window; each takes a millisecond."""


class Processes(Periodic):
    """Processes of nodes, sampled in a thread; all nodes in a process share its samples.

    Parameters
    ----------
    window_s
        Seconds over which CPU use and growth are computed.
    memory
        Whether to read memory.
    shows
        Whether `used` returns anything; otherwise only deaths were asked for.

    Attributes
    ----------
    died
        Nodes whose process is gone and was seen before, or began while processes were watched;
        with the time when that was found.
    lived_ns
        When each process that could be found was last seen to live, by its number; one that was
        gone before its first sample: when its node was created.
    """

    thread_name = "processes"

    def __init__(self, window_s: float, *, memory: bool, shows: bool = True) -> None:
        tick_s = min(_TICK_S, window_s / _TICKS)
        super().__init__(1 / tick_s, gives_way=False)
        # Half a tick less, because rounds come a little early or late.
        seconds = max(tick_s, window_s / _POINTS) - tick_s / 2
        self._memory_seconds = seconds if memory else math.inf
        self._window_ns = round(window_s * 1e9)
        self._shows = shows
        self._pids: dict[str, list[int]] = {}
        self._readers: dict[int, ProcessReader] = {}
        self._samples: dict[int, deque[Sample]] = {}
        self._begun_ns = time.time_ns()
        self.lived_ns: dict[int, int] = {}
        self.died: deque[tuple[str, int]] = deque(maxlen=1000)

    @property
    def nodes(self) -> list[str]:
        """List the nodes with samples, including those of a process that is gone."""
        pids = list(self._pids.items())
        return [node for node, node_pids in pids if any(pid in self._samples for pid in node_pids)]

    def used(self) -> pl.DataFrame:
        """Return the use of each node's process, the last if there are several, while it runs.

        ``cpu`` (of CPUs) is over the window, and null until that has passed; ``rss_bytes`` is the
        last reading. There is no row unless it `shows` use.
        """
        rows: list[tuple[str, float | None, int | None]] = []
        for node in self.nodes if self._shows else ():
            pid = self._pids[node][-1]
            if pid not in self._readers:
                continue
            now = time.time_ns()
            cpu = [value for _, value in self._values("cpu", pid, self._window_ns, 0, now)]
            samples = list(self._samples.get(pid, ()))
            sizes = [sample.rss_bytes for sample in samples if sample.rss_bytes is not None]
            rows.append((node, cpu[-1] if cpu else None, sizes[-1] if sizes else None))
        return pl.DataFrame(rows, schema=USED, orient="row")

    def add(self, found: Iterable[tuple[str, int, int, int]]) -> None:
        """Add nodes with their process, its PID namespace (0 if unknown), and their creation in ns.

        For each name the last entry counts, and those that began since processes are watched.
        Processes of another namespace have other numbers here, so they cannot be sampled.
        """
        own = own_namespace()
        here = [entry for entry in found if entry[2] in (0, own)]
        last = {entry[0]: entry for entry in here}
        gone: list[tuple[str, int, int]] = []
        for node, pid, _, created_ns in here:
            is_new = created_ns >= self._begun_ns
            pids = self._pids.setdefault(node, [])
            if pid in pids or not (is_new or last[node][1] == pid):
                continue
            pids.append(pid)
            if pid in self._readers:
                continue
            try:
                self._readers[pid] = ProcessReader(pid, memory_seconds=self._memory_seconds)
                self.lived_ns[pid] = time.time_ns()
            except OSError:
                if is_new:
                    gone.append((node, pid, created_ns))
        # Where none is found, they may be of another namespace.
        for node, pid, created_ns in gone if self._readers else ():
            self.died.append((node, time.time_ns()))
            self.lived_ns[pid] = created_ns

    def _round(self) -> None:
        now = time.time_ns()
        for pid, reader in list(self._readers.items()):
            try:
                sample = reader.sample()
                self._samples.setdefault(pid, deque()).append(sample)
                self.lived_ns[pid] = sample.time_ns
            except OSError:
                pids = list(self._pids.items())
                self.died += [(node, now) for node, node_pids in pids if pid in node_pids]
                del self._readers[pid]
        # Samples are kept for a while after a process has ended, because they are examined later.
        for pid, samples in list(self._samples.items()):
            while samples and samples[0].time_ns < now - self._window_ns - _SPARE_NS:
                samples.popleft()
            if not samples:
                del self._samples[pid]

    def values(
        self, what: str, node: str, window_ns: int, since_ns: int, until_ns: int
    ) -> Iterator[tuple[int, float]]:
        """Yield the use of a node's process over the window before each sample between two times.

        Nothing is yielded until the process was seen for a whole window.

        Parameters
        ----------
        what
            ``cpu``, in CPUs; or ``memory``, the growth of its resident set in bytes per second, in
            the half of the window in which it grew less: no single allocation counts as growth.
        """
        for pid in self._pids[node]:
            yield from self._values(what, pid, window_ns, since_ns, until_ns)

    def _values(
        self, what: str, pid: int, window_ns: int, since_ns: int, until_ns: int
    ) -> Iterator[tuple[int, float]]:
        key = "cpu_time_ns" if what == "cpu" else "rss_bytes"
        # Copy at once: the deque grows meanwhile.
        samples = list(self._samples.get(pid, ()))
        points = [
            (sample.time_ns, used)
            for sample in samples
            if (used := getattr(sample, key)) is not None
        ]
        begin = 0
        for end, (at, value) in enumerate(points):
            while begin + 1 < end and points[begin + 1][0] <= at - window_ns:
                begin += 1
            then, before = points[begin]
            if not since_ns < at <= until_ns or then > at - window_ns:
                continue
            if what == "cpu":
                yield at, (value - before) / (at - then)
            elif end - begin + 1 >= _LEAST:
                window = points[begin : end + 1]
                middle = len(window) // 2
                yield at, min(_slope(window[: middle + 1]), _slope(window[middle:]))


def _slope(points: Sequence[tuple[int, int]]) -> float:
    """Return bytes per second: the median of all pairs' slopes (Theil 1950; Sen 1968)."""
    pairs = combinations(points, 2)
    return 1e9 * median((y - b) / (x - a) for (a, b), (x, y) in pairs if x != a)
