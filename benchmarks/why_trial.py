"""Hold the first cause of late messages against what was injected, by the injector's own log.

Usage: python benchmarks/why_trial.py FOLDER... [--deadline MS]

Reads every run of the suites `causes` and `causes-rclpy` below the folders but its first second.
A message is one of an injection (``native/injections.csv``) if that was more than half of its time,
where callbacks are held up within its own callback, and it took longer than the deadline, 5 ms by
default. Where it was less, something else may have been longer, and the message is not counted.
Right is the kind that the README of the workload lists for the cause; it was written before any
scoring.
Each run is told twice: with the kernel's events, and as if these had not been recorded. Undisturbed
messages that were late all the same are blamed wrongly if their cause is the injected one. Unknown
is a wrong first cause that is unexplained; how much of all that took longer than usual is
unexplained is printed at the end.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Mapping
from pathlib import Path

import polars as pl

import roslens as rl
from roslens.analysis.path.kinds import CODE
from roslens.analysis.path.late import Late, late_messages
from roslens.analysis.path.path import NEEDED, Paths

RIGHT: Mapping[str, tuple[set[str], set[str]]] = {
    "same_thread": ({"executor"}, {"executor"}),
    "same_group": ({"callback_group"}, {"callback_group"}),
    "timer_burst": ({"executor"}, {"executor"}),
    "queue": ({"queue"}, {"queue"}),
    "cpu_hog": ({"preempted"}, {"transport", "unexplained"}),
    "throttled": ({"throttled"}, {"transport", "unexplained"}),
    "page_fault": ({"page_fault"}, {"running"}),
    "disk": ({"disk"}, {"running"}),
    "lock": ({"futex"}, {"running"}),
    "interrupt": ({"interrupt"}, {"transport", "unexplained"}),
    "service": ({"syscall"}, {"running"}),
    "relay": ({"transport"}, {"transport"}),
    "gil": ({"futex"}, {"unexplained"}),
}
"""Expected kinds by cause, with and without the kernel's events, from the workload's README."""
START_NS = 1_000_000_000
"""The beginning of a run, which is left out for discovery and first page faults."""
WITHIN_CALLBACKS = {"page_fault", "disk", "lock", "service"}
"""Causes that hold up a callback; a message that waits for that callback has another cause."""


def late_of(log: Path, deadline_ns: int, *, kernel: bool) -> Late:
    """Return the late messages on /work in the run of an injector's log.

    Parameters
    ----------
    kernel
        Whether the kernel's events may be used.
    """
    run = rl.open(log.parents[1])
    tables = {name: run.table(name).collect() for name in NEEDED}
    paths = Paths(tables, run.kernel_events(run.runs[0].name) if kernel else {})
    of_work = pl.col("topic") == "/work"
    since_ns = paths.messages.filter(of_work)["publish_ns"].min() + START_NS
    return late_messages(paths, deadline_ns, among=of_work, since_ns=since_ns)


def right_kinds(cause: str, log: Path, *, kernel: bool) -> set[str]:
    """Return the kinds that the first cause may have; fewer can be told without arrival times."""
    right = RIGHT[cause][not kernel]
    received = rl.open(log.parents[1]).messages.select(pl.col("received_ns").is_not_null().any())
    if kernel or received.collect().item():
        return right
    return {
        "transport_or_waiting" if kind in {"transport", "unexplained"} else kind for kind in right
    }


def with_met(late: pl.DataFrame, log: Path) -> pl.DataFrame:
    """Add ``met``: whether injections are most of a message's time; null if they are some of it."""
    injected = pl.read_csv(log)
    spans = injected.select("begin_realtime_ns", "end_realtime_ns").rows()
    ran = pl.read_csv(log.with_name("callbacks.csv")).sort("end_realtime_ns")
    ran = ran.select("start_realtime_ns", "end_realtime_ns").rows()
    ends = late.select("publish_ns", end_ns=pl.col("publish_ns") + pl.col("latency_ns"))
    met: list[bool | None] = []
    for begin, end in ends.rows():
        overlaps = [(max(a, begin), min(b, end)) for a, b in spans if a <= end and b >= begin]
        within = overlaps
        if injected["cause"][0] in WITHIN_CALLBACKS:
            # Callbacks are logged just before they end.
            start, until = ran[bisect_right(ran, end, key=lambda row: row[1]) - 1]
            within = [(max(a, start), min(b, until)) for a, b in overlaps]
        most = 2 * sum(max(b - a, 0) for a, b in within) > end - begin
        met.append(most or (None if overlaps else False))
    return late.with_columns(pl.Series("met", met, pl.Boolean))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--deadline", type=float, default=5.0, help="ms")
    given = parser.parse_args()
    deadline_ns = round(given.deadline * 1e6)
    print(
        "cause        kernel  right first  of late  unknown  undisturbed and blamed  "
        "other first causes"
    )
    took, unexplained = [0.0, 0.0], [0.0, 0.0]
    for log in sorted(
        path for folder in given.folders for path in folder.rglob("native/injections.csv")
    ):
        cause = pl.read_csv(log)["cause"][0]
        for kernel in (True, False):
            told_of = late_of(log, deadline_ns, kernel=kernel)
            took[kernel] += told_of.excess.sum()
            unexplained[kernel] += told_of.excess[:, CODE["unexplained"]].sum()
            late = with_met(told_of.frame(), log)
            right = late["cause"].cast(pl.String).is_in(right_kinds(cause, log, kernel=kernel))
            unknown = late["met"] & ~right & (late["cause"].cast(pl.String) == "unexplained")
            blamed = (~late["met"] & right).sum()
            view = "with" if kernel else "none"
            wrong = late.filter(late["met"] & ~right)["cause"].value_counts(sort=True)
            causes = ", ".join(f"{name} {count}" for name, count in wrong.rows())
            print(
                f"{cause:11}  {view:6}  {(late['met'] & right).sum():11}  "
                f"{late['met'].sum():7}  {unknown.sum():7}  {blamed:22}  {causes}"
            )
    for kernel in (True, False):
        share = unexplained[kernel] / took[kernel] if took[kernel] else 0.0
        print(f"unexplained {'with' if kernel else 'without'} the kernel's events: {share:.2%}")


if __name__ == "__main__":
    main()
