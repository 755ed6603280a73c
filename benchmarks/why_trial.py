"""Hold the first cause of late messages against what was injected, by the injector's own log.

Usage: python benchmarks/why_trial.py FOLDER... [--deadline MS]

Reads every run of the suite `causes` below the folders. A message is one of an injection if the two
overlap (``native/injections.csv``) and it took longer than the deadline, 5 ms by default. Right
is the kind that the README of the workload lists for the cause; it was written before any scoring.
Each run is told twice: with the kernel's events, and as if these had not been recorded. Undisturbed
messages that were late all the same are blamed wrongly if their cause is the injected one.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

import polars as pl

import roslens as rl
from roslens.analysis.path.late import late_messages
from roslens.analysis.path.path import NEEDED, Paths

RIGHT: Mapping[str, tuple[set[str], set[str]]] = {
    "same_thread": ({"executor"}, {"executor"}),
    "same_group": ({"callback_group"}, {"callback_group"}),
    "timer_burst": ({"executor"}, {"executor"}),
    "queue": ({"queue"}, {"queue"}),
    "cpu_hog": ({"preempted"}, {"transport_or_waiting"}),
    "throttled": ({"throttled"}, {"transport_or_waiting"}),
    "page_fault": ({"page_fault"}, {"running"}),
    "disk": ({"disk"}, {"running"}),
    "lock": ({"futex"}, {"running"}),
    "interrupt": ({"interrupt"}, {"transport_or_waiting"}),
    "service": ({"syscall"}, {"running"}),
    "relay": ({"transport"}, {"transport_or_waiting"}),
    "gil": ({"futex"}, {"transport_or_waiting"}),
}
"""By cause the kinds with and without the kernel's view: those of the workload's README."""


def first_causes(log: Path, deadline_ns: int, *, kernel: bool) -> pl.DataFrame:
    """The late messages on /work of the run of an injector's log, with ``cause`` and ``met``.

    Parameters
    ----------
    kernel
        Whether the kernel's events may be used.
    """
    spans = pl.read_csv(log).select("begin_realtime_ns", "end_realtime_ns").rows()
    run = rl.open(log.parents[1])
    tables = {x: run.table(x).collect() for x in NEEDED}
    paths = Paths(tables, run.kernel_events(run.runs[0].name) if kernel else {})
    late = late_messages(paths, deadline_ns, among=pl.col("topic") == "/work").frame()
    ends = late.select("publish_ns", end_ns=pl.col("publish_ns") + pl.col("latency_ns"))
    met = [any(a <= end and b >= begin for a, b in spans) for begin, end in ends.rows()]
    return late.with_columns(pl.Series("met", met, pl.Boolean))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--deadline", type=float, default=5.0, help="ms")
    given = parser.parse_args()
    deadline_ns = round(given.deadline * 1e6)
    print("cause        kernel  right first  of late  undisturbed and blamed  other first causes")
    for log in sorted(x for folder in given.folders for x in folder.rglob("native/injections.csv")):
        cause = pl.read_csv(log)["cause"][0]
        for kernel in (True, False):
            late = first_causes(log, deadline_ns, kernel=kernel)
            right = late["cause"].cast(pl.String).is_in(RIGHT[cause][not kernel])
            others = late.filter(late["met"] & ~right)["cause"].value_counts(sort=True)
            told = ", ".join(f"{name} {count}" for name, count in others.rows())
            print(
                f"{cause:11}  {'with' if kernel else 'none':6}  {(late['met'] & right).sum():11}  "
                f"{late['met'].sum():7}  {(~late['met'] & right).sum():22}  {told}"
            )


if __name__ == "__main__":
    main()
