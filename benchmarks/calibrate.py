"""Coverage of every interval, false alarms and power of every verdict, by simulation.

Writes docs/calibration.md and data/calibration/results.csv, which the notebook `calibration`
draws. Every cell has its own seed, so that a single one can be repeated; with the default of
5,000 simulations the Monte Carlo error at 95 % is 0.3 %.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from roslens.analysis.calibration.report import SECTIONS
from roslens.analysis.calibration.results import Section, results_frame
from roslens.analysis.calibration.verdicts import pools, splits
from roslens.recordings import open_recordings

ROOT = Path(__file__).parents[1]
HEAD = """# Calibration

`python3 noxfile.py -s calibrate` writes this page. Every number is a fraction of {count:,}
simulations (unless another number is given) with its Monte Carlo error; seeds are fixed. Coverage
is that of nominal 95 % intervals. [results.csv](../data/calibration/results.csv) has the same as
data, which the notebook `calibration` draws."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--simulations", type=int, default=5000)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "calibration.md")
    parser.add_argument(
        "--results", type=Path, default=ROOT / "data" / "calibration" / "results.csv"
    )
    parser.add_argument("--recordings", type=Path, default=ROOT / "data" / "samples")
    parser.add_argument("--only", help="sections whose name holds this")
    given = parser.parse_args()
    count = given.simulations
    chosen = [v for k, v in SECTIONS.items() if not given.only or given.only in k]
    sections = [_timed(partial(simulate, count)) for simulate in chosen]
    if not given.only or given.only in "recorded":
        opened = open_recordings(given.recordings)
        tables = opened.table("messages"), opened.table("callback_instances")
        series = list(pools(*tables, opened.runs).values())
        name = "data/samples" if given.recordings == ROOT / "data" / "samples" else "others"
        sections.append(_timed(partial(splits, series, count, name)))
    page = "\n\n".join([HEAD.format(count=count), *(section.markdown() for section in sections)])
    given.page.write_text(page + "\n", encoding="utf-8")
    given.results.parent.mkdir(parents=True, exist_ok=True)
    results = [result for section in sections for result in section.results]
    results_frame(results).write_csv(given.results)
    missed = [result for result in results if result.holds is False]
    for result in missed:
        print("misses its bar:", result.section, dict(result.cell), result.what, result)
    print(f"{len(results)} results, {len(missed)} miss their bar")
    print(given.page)


def _timed(simulate: Callable[[], Section]) -> Section:
    begin = time.monotonic()
    section = simulate()
    print(f"{section.title}: {time.monotonic() - begin:.0f} s", flush=True)
    return section


if __name__ == "__main__":
    main()
