"""Run a task at a fixed rate in a thread, and count its own cost and overruns."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, ClassVar, Self

from roslens.recording.manifest import Sampler as SamplerFacts
from roslens.recording.schema import Table


class Periodic:
    """A thread that calls `_round` at a rate until stopped, and once more at the end.

    A thread that gives way has the scheduling policy SCHED_IDLE: any other runnable thread takes
    its CPU at once, so that the measured programs do not wait for it.

    If a round begins late by a whole period or more, rounds are skipped, never piled up; `facts`
    states how many, and the CPU time of the thread.

    Parameters
    ----------
    hz
        Rounds per second.
    gives_way
        Whether everything else goes first, even if rounds are skipped as a result.
    """

    thread_name: ClassVar[str]

    def __init__(self, hz: float, *, gives_way: bool = True) -> None:
        self.hz = hz
        self._gives_way = gives_way
        self.overruns = 0
        self.rounds = 0
        self._own_cpu_ns = 0
        self.elapsed_ns = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=self.thread_name, daemon=True)

    def _round(self) -> None:
        """Do one round."""
        raise NotImplementedError

    def start(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the thread."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def facts(self) -> SamplerFacts:
        """Return facts about the sampling for the manifest."""
        share = self._own_cpu_ns / self.elapsed_ns if self.elapsed_ns else 0.0
        return SamplerFacts(
            hz=self.hz, rounds=self.rounds, overruns=self.overruns, cpu_fraction=round(share, 5)
        )

    def _run(self) -> None:
        if self._gives_way:
            # Always permitted, but only root can undo it: the thread keeps the policy for good.
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
        # The last round sees what short-lived programs used at the end.
        self._round()
        self.rounds += 1
        self._own_cpu_ns = time.thread_time_ns()
        self.elapsed_ns = int((time.monotonic() - begun) * 1e9)


class TableSampler(Periodic):
    """A sampler that adds rows to a table in each round; see `Periodic` for the parameters."""

    table: ClassVar[Table]

    def __init__(self, hz: float, *, gives_way: bool = True) -> None:
        super().__init__(hz, gives_way=gives_way)
        self.rows: list[Any] = []

    def write(self, path: Path) -> None:
        """Write the rows like `Table.write_rows`."""
        self.table.write_rows(self.rows, path)
