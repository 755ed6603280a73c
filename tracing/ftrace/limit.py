"""What probes cost, and pauses in which they are off so that it stays below a limit.

A probe stops the program at each call of its function, some 10 us in a virtual machine, whatever is
recorded of it: only one that is off costs nothing. To switch one off takes the kernel some 30 ms,
so only those are that are called often.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from roslens.tracing.ftrace.recorder import Instance
from roslens.tracing.ftrace.tracefs import PROBES, group_of, write

FIRST_SECONDS, _LEAST_SECONDS = 0.6, 0.2
"""Probes are on for so long at first, and again: what is published then is seen to arrive."""
_RARE = 0.01
"""Of all calls: a function that has fewer keeps its probe in pauses."""


@dataclass(frozen=True)
class _Spent:
    """Up to a time: calls of each probed function, and CPU time of this process [s]."""

    time_s: float
    calls: Counter[str]
    own_s: float


class Limit:
    """Switches an instance's probes off when they have cost too much, until that is made up for.

    Parameters
    ----------
    instance
        Its probes are placed, and on.
    path
        Where begin and end of each pause are written.
    call_s
        What a probe adds to a call [s].
    share
        Of a CPU that may be used; infinite: there are no pauses.
    """

    def __init__(self, instance: Instance, path: Path, call_s: float, share: float) -> None:
        self._profile = instance.root / "uprobe_profile"
        self._probes = instance.path / "events" / group_of(instance.name)
        self._names = {x.partition(":")[2] for x in instance.formats if x.startswith(PROBES)}
        self._path, self._call_s, self._share = path, call_s, share
        self._off: list[str] = []
        self._paused_ns = 0
        self._since = self._begun = self._spent()

    @property
    def is_paused(self) -> bool:
        """Whether probes are off."""
        return bool(self._off)

    def step(self) -> float:
        """Switch probes off if they cost too much since they are on, and on again in time.

        Returns
        -------
        float
            How long the pause lasts yet, if nothing more is spent [s]; 0 where there is none.
        """
        if math.isinf(self._share):
            return 0.0
        now = self._spent()
        passed = now.time_s - self._since.time_s
        is_first = self._since is self._begun
        if not self.is_paused and passed < (FIRST_SECONDS if is_first else _LEAST_SECONDS):
            return 0.0
        # What it takes to begin will not be taken again.
        since = replace(self._since, own_s=now.own_s) if is_first else self._since
        left = self._cost(since, now) / self._share - passed
        if left > 0:
            self._pause(now.calls - self._since.calls)
            return left
        self._since = now
        if self.is_paused:
            for name in self._off:
                write(self._probes / name / "enable", "1")
            self.end()
        return 0.0

    def end(self) -> None:
        """A pause is over, if there is one."""
        if self.is_paused:
            self._off.clear()
            self._paused_ns += self._note()

    def told(self) -> str:
        """What it cost so far, and after pauses for how much of the time probes were on."""
        now = self._spent()
        seconds = now.time_s - self._begun.time_s
        calls = (now.calls - self._begun.calls).total() / seconds
        on = 1 - self._paused_ns / 1e9 / seconds
        return (
            f"attaching cost {self._cost(self._begun, now) / seconds:.2%} of a CPU, "
            f"{(now.own_s - self._begun.own_s) / seconds:.2%} of it for the recorder: {calls:,.0f} "
            f"calls per second were probed, which adds {self._call_s * 1e6:.1f} us to each"
            + (f"; probes were on for {on:.0%} of the time" if self._paused_ns > 0 else "")
        )

    def _cost(self, since: _Spent, now: _Spent) -> float:
        """CPU time [s]."""
        calls = (now.calls - since.calls).total()
        return calls * self._call_s + now.own_s - since.own_s

    def _pause(self, calls: Counter[str]) -> None:
        if not self.is_paused:
            self._paused_ns -= self._note()
        for name, count in calls.most_common():
            if count > _RARE * calls.total() and name not in self._off:
                self._off.append(name)
                write(self._probes / name / "enable", "0")

    def _note(self) -> int:
        now = time.monotonic_ns()
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{now}\n")
        return now

    def _spent(self) -> _Spent:
        calls: Counter[str] = Counter()
        for line in self._profile.read_text().splitlines():
            name, count = line.split()[-2:]
            if name in self._names:
                calls[name] += int(count)
        return _Spent(time.monotonic(), calls, time.process_time())
