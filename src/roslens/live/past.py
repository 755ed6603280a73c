"""Whether the latencies of a topic changed, compared with all before them; no limit is given.

Latencies are cut into blocks, and each block has its P99. The level is the smallest P99 of the last
`IN_A_ROW` blocks, so that a single slow block changes nothing. It has changed upwards if it is a
tenth larger than it ever was, larger than its mean by `FAR` standard deviations of its logarithm,
and if at most a part `RARE` of all earlier blocks reached it. Downwards it is the same with the
largest P99.

If values come in random order, the n-th is the largest yet with a probability of 1 / n, whatever
their distribution is; something that comes back, such as a slow minute each hour, is new once. The
standard deviations keep the first hours quiet. ``benchmarks/p99_changed.py`` counts false alarms.
"""

from __future__ import annotations

import math
from collections import deque

import numpy as np
from numpy.typing import NDArray

from roslens.analysis.statistics.quantiles import least_samples, quantile

IN_A_ROW = 3
LEAST_BLOCKS = 30
FAR = 5.0
RARE = 0.02
_REMEMBERED = 8640
"""Blocks; a day of them, where each is of 10 s."""
_TENTH = math.log(1.1)
_LEAST = least_samples(0.99)


class Past:
    """The latencies so far of one topic.

    Parameters
    ----------
    block_ns
        A block is of so long and of as many latencies as P99 needs, at least.
    """

    def __init__(self, block_ns: int) -> None:
        self._block_ns = block_ns
        self._times = np.empty(0, np.int64)
        self._latencies = np.empty(0, np.int64)
        self._logs: list[float] = []
        self._blocks: deque[float] = deque(maxlen=_REMEMBERED)
        # Upwards, and downwards.
        self._exceeded = (_Exceeded(), _Exceeded())

    def feed(self, times: NDArray[np.int64], latencies: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Take in what came since; the times at which there was a change, and P99 in ns then.

        Parameters
        ----------
        times
            When each latency was known, in order.
        """
        self._times = np.concatenate([self._times, times])
        self._latencies = np.concatenate([self._latencies, latencies])
        found = []
        while len(self._times):
            due = int(np.searchsorted(self._times, self._times[0] + self._block_ns))
            end = max(due, _LEAST - 1)
            if end >= len(self._times):
                break
            p99 = quantile(self._latencies[: end + 1], 0.99)
            at = int(self._times[end])
            self._times, self._latencies = self._times[end + 1 :], self._latencies[end + 1 :]
            if self.add(p99):
                found.append((at, round(p99)))
        return found

    def add(self, p99: float) -> bool:
        """Take in a block; whether there is a change with it."""
        if len(self._logs) == IN_A_ROW:
            self._blocks.append(self._logs.pop(0))
        self._logs.append(math.log(max(p99, 1.0)))
        if len(self._logs) < IN_A_ROW:
            return False
        up, down = self._exceeded
        least, most = min(self._logs), max(self._logs)
        # Both take it in.
        is_up, is_down = up.is_new(least), down.is_new(-most)
        if not (is_up or is_down):
            return False
        blocks = np.array(self._blocks)
        return bool(np.mean(blocks >= least if is_up else blocks <= most) <= RARE)


class _Exceeded:
    """What so many blocks in a row exceeded so far: mean and deviation as Welford (1962) has them.

    Those that share a block with the one that is looked at are left out of both.
    """

    def __init__(self) -> None:
        self._recent: deque[float] = deque()
        self._largest, self._count, self._mean, self._squares = -math.inf, 0, 0.0, 0.0
        self._was_far = False

    def is_new(self, value: float) -> bool:
        """Whether a value begins to be beyond all before, which it then is one of."""
        far = False
        if self._count >= LEAST_BLOCKS:
            deviation = math.sqrt(self._squares / (self._count - 1))
            far = value > self._mean + FAR * deviation
        is_new = far and not self._was_far and value > self._largest + _TENTH
        self._was_far = far
        self._largest = max(self._largest, value)
        self._recent.append(value)
        if len(self._recent) == IN_A_ROW:
            apart = self._recent.popleft()
            self._count += 1
            off = apart - self._mean
            self._mean += off / self._count
            self._squares += off * (apart - self._mean)
        return is_new
