"""Sample the resource use of each thread into ``threads.parquet``.

CPU time and time spent waiting for a CPU come from ``task/*/schedstat`` (ns; kernels built
without CONFIG_SCHED_INFO lack it, then both are null), switches from ``task/*/status``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from roslens.recording.schema import THREADS
from roslens.tracing.proc import innermost, namespace_id, number_after, read
from roslens.tracing.sampling.periodic import TableSampler

_HOST = "h0"


class ThreadSampler(TableSampler):
    """A sampler of all threads of some processes.

    Parameters
    ----------
    processes
        Returns the ids of the processes; called in each round.
    hz
        Samples per second.
    """

    table, thread_name = THREADS, "thread sampler"

    def __init__(
        self, processes: Callable[[], Iterable[int]], hz: float, *, gives_way: bool = True
    ) -> None:
        super().__init__(hz, gives_way=gives_way)
        self._processes = processes

    def _round(self) -> None:
        for pid in list(self._processes()):
            with suppress(OSError):
                self.rows += _threads(pid)


def _threads(pid: int) -> list[dict[str, object]]:
    vpid = namespace_id(pid)
    rows: list[dict[str, object]] = []
    for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 (names are enough)
        folder = f"/proc/{pid}/task/{task}"
        now = time.time_ns()
        schedule = read(f"{folder}/schedstat").split()
        status = read(f"{folder}/status")
        if not status:
            continue
        rows.append(
            {
                "time_ns": now,
                "host": _HOST,
                "vpid": vpid,
                "vtid": innermost(status, b"\nNSpid:", int(task)),
                "thread": status.partition(b"\n")[0].partition(b"\t")[2].decode(errors="replace"),
                "cpu_time_ns": int(schedule[0]) if schedule else None,
                "run_delay_ns": int(schedule[1]) if schedule else None,
                "voluntary_switches": number_after(status, b"\nvoluntary_ctxt_switches:"),
                "involuntary_switches": number_after(status, b"\nnonvoluntary_ctxt_switches:"),
            }
        )
    return rows
