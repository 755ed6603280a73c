"""Estimate the cost of probes, and pause them so that the cost stays below a limit.

A probe delays each call of its function by about 10 us in a virtual machine, whatever it records;
only a disabled probe costs nothing. The kernel takes about 30 ms to disable a probe, so only the
probes of frequently called functions are disabled.
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
"""Default share of one CPU that attaching may cost."""
FIRST_SECONDS, _LEAST_SECONDS = 0.6, 0.5
"""Seconds with probes on, at first and between pauses; enough for publications to be received."""
_FIRST_OWED_S = 2.5
"""The first stretch ends early when it has cost the allowance of this many seconds."""
_LEAST_LEFT_SECONDS = 0.1
_RARE = 0.01
"""Share of all calls; a function with fewer calls keeps its probe during pauses."""


def cpu_of_children() -> float:
    """Return the CPU time of ended child processes in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True)
class _Consumption:
    """Consumption up to a time: calls of each probed function, CPU time of this process [s]."""

    time_s: float
    calls: Counter[str]
    own_s: float


class Limit:
    """A limit on the cost of an instance's probes, which go off until an excess is made up for.

    Parameters
    ----------
    instance
        The ftrace instance, whose probes are placed and enabled.
    path
        File for the begin and end times of each pause.
    call_s
        Seconds that a probe adds to a call.
    share
        Share of one CPU that may be used; infinite: no pauses. One-time costs of starting and of
        looking at the graph do not count towards the limit; `told` states them.

    Attributes
    ----------
    looked_s
        CPU time used for looking at the graph, in seconds.
    """

    def __init__(self, instance: Instance, path: Path, call_s: float, share: float) -> None:
        self._profile = instance.root / "uprobe_profile"
        self._probes = instance.path / "events" / group_of(instance.name)
        self._names = {
            event.partition(":")[2] for event in instance.formats if event.startswith(PROBES)
        }
        self._path, self._call_s, self._share = path, call_s, share
        self._off: list[str] = []
        self._paused_ns = 0
        # All in seconds of the limit: how long nothing may be spent (below 0: saved time); the cost
        # of switching probes on; the cost of a stretch with probes on; the debt that switching them
        # off adds.
        self._owed_s = self._on_s = self._ahead_s = self._off_s = 0.0
        self._calls: Counter[str] = Counter()
        self._start_s: float | None = None
        self.looked_s = 0.0
        self._since = self._begun = self._consumption()

    @property
    def is_paused(self) -> bool:
        """Return whether probes are off."""
        return bool(self._off)

    def step(self) -> float:
        """Switch probes off if they have cost too much since they were on, and on again in time.

        Returns
        -------
        float
            How long the pause will last if nothing more is spent [s]; 0 outside of pauses.
        """
        if self._start_s is not None and math.isinf(self._share):
            return 0.0
        now = self._consumption()
        if not self.is_paused and not self._can_be_judged(now):
            return 0.0
        if self._start_s is None:
            self._start_s = now.own_s - self._begun.own_s
            self._since = self._begun = replace(self._begun, own_s=now.own_s)
        takes = self._account(now)
        if not self.is_paused:
            # Saved time is used up when another stretch like this one would exceed it.
            next_s = takes + self._off_s if self._ahead_s > 0 else 0.0
            if self._owed_s + next_s <= 0 or not self._calls:
                # No pause could make up for the recorder's own cost while nothing is called.
                self._owed_s = max(min(self._owed_s, 0.0), -self._ahead_s)
                self._calls.clear()
                return 0.0
            before = self._owed_s
            self._pause()
            # A pause also saves for the next stretch, which may cost as much as this one, including
            # the calls until all probes are on, and off again.
            self._ahead_s = self._on_s + takes + self._account(self._consumption())
            self._off_s = max(0.0, self._owed_s - before)
        left = self._owed_s + self._ahead_s
        # Waking up again for less would cost more than remains.
        if left > _LEAST_LEFT_SECONDS:
            self._pause()
            return left
        for name in self._off:
            write(self._probes / name / "enable", "1")
        self._on_s = self._account(self._consumption())
        self.end()
        return 0.0

    def end(self) -> None:
        """End the current pause, if there is one."""
        if self.is_paused:
            self._off.clear()
            self._calls.clear()
            self._paused_ns += self._note()

    def cost_in_words(self) -> str:
        """Describe the cost so far and, after pauses, the share of time with probes on."""
        now = self._consumption()
        seconds, own_s = now.time_s - self._begun.time_s, now.own_s - self._begun.own_s
        calls = (now.calls - self._begun.calls).total()
        rate = f"{calls / seconds:,.0f} calls per second"
        on = 1 - self._paused_ns / 1e9 / seconds
        once_s = (self._start_s or 0.0) + self.looked_s
        return (
            f"attaching cost {(calls * self._call_s + own_s) / seconds:.2%} of a CPU, "
            f"{own_s / seconds:.2%} of it for the recorder: {rate} were probed, which adds "
            f"{self._call_s * 1e6:.1f} us to each"
            + (f"; probes were on for {on:.0%} of the time" if self._paused_ns > 0 else "")
            + f"; starting took {once_s:.2g} s of CPU time, once"
        )

    def _can_be_judged(self, now: _Consumption) -> bool:
        passed = now.time_s - self._since.time_s
        if self._start_s is not None:
            return passed >= _LEAST_SECONDS
        calls = (now.calls - self._since.calls).total()
        return passed >= FIRST_SECONDS or calls * self._call_s / self._share >= _FIRST_OWED_S

    def _account(self, now: _Consumption) -> float:
        """Add the cost since the last call to the debt, and return that cost [s of the limit].

        In a pause the recorder's cost is capped at half of the limit, so that each pause ends.
        """
        calls, passed = now.calls - self._since.calls, now.time_s - self._since.time_s
        recorder_s = (now.own_s - self._since.own_s) / self._share
        takes = calls.total() * self._call_s / self._share
        takes += min(recorder_s, passed / 2) if self.is_paused else recorder_s
        self._calls += calls
        self._since = now
        self._owed_s += takes - passed
        return takes

    def _pause(self) -> None:
        if not self.is_paused:
            self._paused_ns -= self._note()
        for name, count in self._calls.most_common():
            if count > _RARE * self._calls.total() and name not in self._off:
                self._off.append(name)
                write(self._probes / name / "enable", "0")

    def _note(self) -> int:
        now = time.monotonic_ns()
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{now}\n")
        return now

    def _consumption(self) -> _Consumption:
        calls: Counter[str] = Counter()
        for line in self._profile.read_text().splitlines():
            name, count = line.split()[-2:]
            if name in self._names:
                calls[name] += int(count)
        return _Consumption(time.monotonic(), calls, time.process_time())
