"""Perfetto's clocks joined with the monotonic one, by snapshots that tell several at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Snapshot = Mapping[int, int]
"""Times in ns, by Perfetto's numbers of clocks."""
REALTIME, MONOTONIC, MONOTONIC_RAW, BOOTTIME = 1, 3, 5, 6
_NAMES = {MONOTONIC_RAW: "monotonic_raw", BOOTTIME: "boottime"}


@dataclass(frozen=True)
class Join:
    """How far the monotonic clock is from another one.

    Attributes
    ----------
    name
        Of the other clock.
    times, differences
        Its times, rising, and what to add then; in between it changes evenly.
    epoch_ns
        The monotonic clock's offset to the epoch, where a snapshot tells it.
    """

    name: str
    times: Ints
    differences: Ints
    epoch_ns: int | None = None

    @property
    def known(self) -> bool:
        """Whether the two can be joined."""
        return len(self.times) > 0

    @property
    def error_ns(self) -> int | None:
        """The largest change from one snapshot to the next; None with fewer than two."""
        steps = np.abs(np.diff(self.differences))
        return int(steps.max()) if len(steps) else None

    def monotonic(self, times: Ints) -> Ints:
        """Times of the other clock as those of the monotonic one; as they are if not `known`."""
        if not self.known:
            return times
        # Relative to the first, which floats hold to the nanosecond.
        first, base = self.times[0], self.differences[0]
        since, more = (self.times - first).astype(float), (self.differences - base).astype(float)
        changed = np.interp((times - first).astype(float), since, more)
        found: Ints = times + base + np.rint(changed).astype(np.int64)
        return found

    def __str__(self) -> str:
        """Between which clocks, by what, and how well, for people."""
        count = len(self.times)
        error = self.error_ns
        told = "which tells no error" if error is None else f"within {error:,} ns"
        return f"clock {self.name} joined with monotonic by {count} snapshots, {told}"


def join(snapshots: Sequence[Snapshot], clock: int) -> Join:
    """How a clock is joined with the monotonic one by snapshots of both."""
    both = {x[clock]: x[MONOTONIC] - x[clock] for x in snapshots if {clock, MONOTONIC} <= x.keys()}
    epochs = [x[REALTIME] - x[MONOTONIC] for x in snapshots if {REALTIME, MONOTONIC} <= x.keys()]
    times = sorted(both)
    return Join(
        _NAMES.get(clock, "perfetto"),
        np.array(times, dtype=np.int64),
        np.array([both[x] for x in times], dtype=np.int64),
        max(0, int(median(epochs))) if epochs else None,
    )
