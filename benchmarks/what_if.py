"""Recordings simulated as they are: how far P50 and P99 lie from what was recorded.

``python benchmarks/what_if.py FOLDER...`` prints a row per recording below the folders, worst last,
and the number within the bars of ``roslens predict``; it refuses to predict the others.
"""

from __future__ import annotations

import sys
import time

import roslens as rl
from roslens.analysis.timing.recorded import recorded_timing
from roslens.analysis.what_if.changes import Changes
from roslens.analysis.what_if.prediction import predicted
from roslens.recording import UsageError


def main(folders: list[str]) -> None:
    within, rows = 0, []
    for run in rl.open(folders):
        (about,) = run.runs
        begin = time.process_time()
        try:
            prediction = predicted([recorded_timing(run, about)], Changes(), seed=1)
        except UsageError as error:
            print(f"| {about.name} | | | | | {error} |")
            continue
        if not prediction.figures:
            print(f"| {about.name} | | | | | {prediction.refused} |")
            continue
        took = time.process_time() - begin
        within += prediction.refused is None
        shown = []
        for figure in prediction.figures[:2]:
            assert figure.recorded is not None
            assert figure.simulated is not None
            shown += [figure.recorded / 1e3, figure.simulated / 1e3]
        deviation = max(abs(shown[1] / shown[0] - 1), abs(shown[3] / shown[2] - 1) / 2)
        words = "refused" if prediction.refused else "within"
        numbers = " | ".join(f"{value:,.1f}" for value in shown)
        rows.append((deviation, f"| {about.name} | {numbers} | {words} ({took:.1f} s) |"))
    print(
        "| recording | P50 [us] | simulated | P99 [us] | simulated | |\n|---|---|---|---|---|---|"
    )
    print("\n".join(row for _, row in sorted(rows)))
    print(f"{within} of {len(rows)} within the bars")


if __name__ == "__main__":
    main(sys.argv[1:])
