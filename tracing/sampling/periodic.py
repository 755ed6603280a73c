"""Something done at a fixed rate in a thread, with its own cost and its overruns counted."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, ClassVar, Self

from roslens.recording.manifest import Sampler as SamplerFacts
from roslens.recording.schema import Table


class Periodic:
    """Calls `_round` at a rate until stopped, and once more then.

    A thread that gives way has the scheduling policy SCHED_IDLE: whatever else wants to run takes
    its CPU at once, so what is measured does not wait for it.

    A round that begins late by a whole period or more leaves rounds out, never piles them up; how
    many is in `facts`, beside the CPU time that the thread used.

    Parameters
    ----------
    name
        Of the thread.
    hz
        Rounds per second.
    gives_way
        Whether everything else goes first, also where that leaves rounds out.
    """

    def __init__(self, name: str, hz: float, *, gives_way: bool = True) -> None:
        self.hz = hz
        self._gives_way = gives_way
        self.overruns = 0
        self.rounds = 0
        self._own_cpu_ns = 0
        self.elapsed_ns = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _round(self) -> None:
        """One round."""
        raise NotImplementedError

    def start(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def facts(self) -> SamplerFacts:
        """How it went, for the manifest."""
        share = self._own_cpu_ns / self.elapsed_ns if self.elapsed_ns else 0.0
        return SamplerFacts(
            hz=self.hz, rounds=self.rounds, overruns=self.overruns, cpu_fraction=round(share, 5)
        )

    def _run(self) -> None:
        if self._gives_way:
            # Refused to no one, and undone by no one but root: it is this thread's for good.
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        period = 1.0 / self.hz
        begun = due = time.monotonic()
        while not self._stop.is_set():
            self._round()
            self.rounds += 1
            due += period
            late = time.monotonic() - due
            if late >= 0:
                missed = int(late / period) + 1
                self.overruns += missed
                due += missed * period
            self._stop.wait(max(0.0, due - time.monotonic()))
        # What short programs used at last is seen no other way.
        self._round()
        self.rounds += 1
        self._own_cpu_ns = time.thread_time_ns()
        self.elapsed_ns = int((time.monotonic() - begun) * 1e9)


class TableSampler(Periodic):
    """What adds rows to a table in each round; parameters as of `Periodic`."""

    table: ClassVar[Table]

    def __init__(self, name: str, hz: float, *, gives_way: bool = True) -> None:
        super().__init__(name, hz, gives_way=gives_way)
        self.rows: list[Any] = []

    def write(self, path: Path) -> None:
        """Write the rows, as `Table.write_rows` does."""
        self.table.write_rows(self.rows, path)
