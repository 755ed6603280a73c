"""What probes cost, and pauses in which they are off so that it stays below a limit.

A probe stops the program at each call of its function, some 10 us in a virtual machine, whatever is
recorded of it: only one that is off costs nothing. To switch one off takes the kernel some 30 ms,
so only those are that are called often.
"""

from __future__ import annotations

import math
import resource
import time
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from roslens.tracing.ftrace.recorder import Instance
from roslens.tracing.ftrace.tracefs import PROBES, group_of, write

SHARE = 0.01
"""Of a CPU that attaching may cost if nobody says more."""
FIRST_SECONDS, _LEAST_SECONDS = 0.6, 0.5
"""Probes are on for so long at first, and again: what is published then is seen to arrive."""
_LEAST_LEFT_SECONDS = 0.1
_RARE = 0.01
"""Of all calls: a function that has fewer keeps its probe in pauses."""


def _of_children() -> float:
    """CPU time of child processes that ended, such as looks at the graph [s]."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
        Of a CPU that may be used; infinite: there are no pauses. What it takes to begin is not
        counted, for it is not taken again; `told` says it.
    """

    def __init__(self, instance: Instance, path: Path, call_s: float, share: float) -> None:
        self._profile = instance.root / "uprobe_profile"
        self._probes = instance.path / "events" / group_of(instance.name)
        self._names = {x.partition(":")[2] for x in instance.formats if x.startswith(PROBES)}
        self._path, self._call_s, self._share = path, call_s, share
        self._off: list[str] = []
        self._paused_ns = 0
        self._owed_s = self._ahead_s = self._off_s = 0.0
        self._begin_s: float | None = None
        self._since = self._begun = self._spent()
        self._children_s = _of_children()

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
        if self._begin_s is not None and math.isinf(self._share):
            return 0.0
        now = self._spent()
        passed = now.time_s - self._since.time_s
        least = FIRST_SECONDS if self._begin_s is None else _LEAST_SECONDS
        if not self.is_paused and passed < least:
            return 0.0
        if self._begin_s is None:
            self._begin_s = now.own_s - self._begun.own_s
            self._since = self._begun = replace(self._begun, own_s=now.own_s)
        owed = self._owed(now)
        takes = self._cost(self._since, now) / self._share
        # What was made up for is spent when another stretch like this one would be too much.
        ends = owed > 0 or (self._ahead_s > 0 and owed + takes + self._off_s > 0)
        if not self.is_paused and ends:
            before = owed
            self._pause(now.calls - self._since.calls)
            now = self._spent()
            owed = self._owed(now)
            # A pause also makes up for what will be recorded after it, as much as before it, and
            # for what is called until all probes are off.
            self._off_s = max(0.0, owed - before)
            self._ahead_s = self._cost(self._since, now) / self._share
        # To wake up again for less would cost more than is left.
        left = owed + self._ahead_s
        if self.is_paused and left > _LEAST_LEFT_SECONDS:
            self._pause(now.calls - self._since.calls)
            return left
        self._since, self._owed_s = now, max(owed, -self._ahead_s)
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
        begin = (self._begin_s or 0) + _of_children() - self._children_s
        return (
            f"attaching cost {self._cost(self._begun, now) / seconds:.2%} of a CPU, "
            f"{(now.own_s - self._begun.own_s) / seconds:.2%} of it for the recorder: {calls:,.0f} "
            f"calls per second were probed, which adds {self._call_s * 1e6:.1f} us to each"
            + (f"; probes were on for {on:.0%} of the time" if self._paused_ns > 0 else "")
            + f"; to begin took {begin:.2g} s of CPU time"
        )

    def _owed(self, now: _Spent) -> float:
        """For how long nothing may be spent until what was spent is within the limit [s]."""
        passed = now.time_s - self._since.time_s
        return self._owed_s + self._cost(self._since, now) / self._share - passed

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
