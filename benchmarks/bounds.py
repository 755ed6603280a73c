"""Hold bounds computed from the first half of recordings against the executions of both halves.

``python benchmarks/bounds.py FOLDER...`` prints how many executions took longer than the bound of
their callback: in the half that the bound was computed from, where none may, and in the other half.
For each late execution of the other half it looks for what lay outside the curves, from when the
thread was last idle to the execution's end: releases closer together, or executions that cost more
(a late handover is a cost, too). It also prints the late executions that this does not explain, why
the other callbacks have no bound, and how far the bounds of whole recordings are above the longest
execution.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

import roslens as rl
from roslens.analysis.flow.response_bounds import (
    Int64,
    Thread,
    analysed,
    callback_bounds,
    costs,
    executor_threads,
    longest_handovers,
    releases,
)


class HeldOutThread:
    """The executions of a thread, held against the curves of its first half."""

    def __init__(self, thread: Thread, by_kind: bool) -> None:
        early, _ = thread.first_and_second_half
        self.bounds = {callback: bound for callback, (bound, _) in analysed(early, by_kind).items()}
        self.cost, self.released = costs(early, longest_handovers(early, by_kind)), releases(early)
        self.end = early["end_ns"].to_numpy()
        self.idle = np.flatnonzero(self.end - self.cost > np.roll(self.end, 1))
        self.callbacks = early["callback_id"].to_numpy()
        self.early = early["counts"].to_numpy()

    def outside(self, number: int) -> str | None:
        """Return what lay outside the curves from when the thread was last idle to an execution."""
        before = self.idle[self.idle <= number]
        window = np.arange(before[-1] if len(before) else 0, number + 1)
        for callback in np.unique(self.callbacks[window]):
            recent = window[self.callbacks[window] == callback]
            first_half = np.flatnonzero(self.early & (self.callbacks == callback))
            for count in range(1, len(recent) + 1):
                if count > len(first_half):
                    return "more executions in a row than in the first half"
                if _largest_cost(self.cost[recent], count) > _largest_cost(
                    self.cost[first_half], count
                ):
                    return "execution times"
                if _shortest_time(self.released[recent], count) < _shortest_time(
                    self.released[first_half], count
                ):
                    return "releases"
        return None


def _largest_cost(costs: Int64, count: int) -> int:
    return int(sliding_window_view(costs, count).sum(axis=1).max())


def _shortest_time(times: Int64, count: int) -> int:
    ordered = np.sort(times)
    return int((ordered[count - 1 :] - ordered[: len(ordered) - count + 1]).min())


def main(folders: list[str]) -> int:
    tested, beyond = np.zeros(2, dtype=np.int64), np.zeros(2, dtype=np.int64)
    why: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    ratios: list[float] = []
    for run in rl.open(folders):
        for thread in executor_threads(run):
            if thread.refused is not None:
                continue
            variants = [HeldOutThread(thread, by_kind) for by_kind in (True, False)]
            for callback in set().union(*(variant.bounds for variant in variants)):
                lesser = min(variants, key=lambda variant: variant.bounds.get(callback, np.inf))
                took = lesser.end - lesser.released
                for half, rows in enumerate(thread.first_and_second_half):
                    counted = (
                        rows["counts"] & rows["known"] & (rows["callback_id"] == callback)
                    ).to_numpy()
                    late = np.flatnonzero(counted & (took > lesser.bounds[callback]))
                    tested[half] += counted.sum()
                    beyond[half] += len(late)
                    if half:
                        why.update(lesser.outside(number) or "NOT EXPLAINED" for number in late)
        bounds = callback_bounds(run)
        refused.update(bounds["refused"].drop_nulls())
        bounded = bounds.drop_nulls("bound_ns")
        ratios += (bounded["bound_ns"] / bounded["longest_ns"]).to_list()
    for half, count, longer in zip(("first", "second"), tested, beyond, strict=True):
        print(f"{half} half: {longer:,} of {count:,} executions took longer than the bound")
    for reason, count in why.most_common():
        print(f"  outside the curves of the first half: {reason}: {count:,}")
    print(
        f"{len(ratios)} callbacks have a bound: {np.median(ratios):.1f} times the longest "
        f"execution (median), {np.quantile(ratios, 0.9):.1f} (P90), {max(ratios):.1f} (largest)"
    )
    for reason, count in refused.most_common():
        print(f"  no bound: {count}: {reason}")
    return 1 if beyond[0] or why["NOT EXPLAINED"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
