"""Predictions held against recordings: other executors, threads, execution times and rates.

``python benchmarks/predicted.py record FOLDER [roslens record's options]`` compiles
programs/what_if.cpp and records the suite beside it; ``python benchmarks/predicted.py FOLDER...``
predicts each cell of the pairs below from another one, at each load, and prints a row for each.
What was measured is the mean over the runs of a cell; the program's times are those it was told, so
what is asked is exactly what was changed.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import roslens as rl
from roslens.analysis.timing.recorded import recorded_timing
from roslens.analysis.timing.schema import ExecutorKind, TimingModel
from roslens.analysis.what_if.changes import Changes, Took
from roslens.analysis.what_if.prediction import Predicted, predicted, recorded_latency
from roslens.recording.files import shipped
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.rclcpp import rclcpp_for

PROGRAMS = Path(__file__).parent / "programs"
_NAMES: Mapping[str, tuple[ExecutorKind, str, int]] = {
    "Single": ("SingleThreaded", "SingleThreaded", 1),
    "Multi 1": ("MultiThreaded", "MultiThreaded", 1),
    "Multi 2": ("MultiThreaded", "MultiThreaded", 2),
    "Events": ("Events", "Events", 1),
    "CBG 1": ("EventsCBG", "EventsCBGMultiThreaded", 1),
    "CBG 2": ("EventsCBG", "EventsCBGMultiThreaded", 2),
}
PAIRS = (
    ("Single", "Multi 2"), ("Single", "Events"), ("Single", "CBG 1"), ("Single", "CBG 2"),
    ("Multi 2", "Single"), ("Multi 2", "CBG 2"), ("Events", "Single"), ("Events", "Multi 2"),
    ("CBG 2", "Multi 2"), ("CBG 1", "Single"), ("Multi 1", "Multi 2"), ("Multi 2", "Multi 1"),
    ("CBG 1", "CBG 2"), ("CBG 2", "CBG 1"),
)  # fmt: skip
OTHERS = ("Single", "Multi 2", "Events", "CBG 2")
"""Executors on which a callback is made slower, and a topic faster."""
EXTRA_US, SCAN_US = 3000, (47000, 23500)
APART = 0.2
"""Pairs whose recordings differ by more say whether to predict is better than to change nothing."""

Cell = tuple[float, str, int, int]
"""Load, executor, more work of the detector and period of /scan [us]."""


@dataclass(frozen=True)
class Pair:
    """What was recorded, predicted for the other cell, and recorded there [ns]: P50, P99."""

    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    figures: tuple[Predicted, Predicted]


def record(folder: str, options: Sequence[str]) -> int:
    """Compile the program and record the suite."""
    made = rclcpp_for(embedded_ros())
    with TemporaryDirectory() as place:
        program = Path(place) / "what_if"
        header = shipped("tracing", "workloads") / "rclcpp_workloads" / "src"
        source = [f"-I{header}", str(PROGRAMS / "what_if.cpp")]
        command = [*made.compiler, *made.compile_flags(), *source, *made.link_flags()]
        subprocess.run([*command, "-o", str(program)], check=True)
        suite = Path(place) / "suite.yaml"
        text = (PROGRAMS / "what_if.yaml").read_text()
        suite.write_text(text.replace("program: what_if", f"program: {program}"))
        tool = [sys.executable, "-m", "roslens", "record", "--suite", str(suite), "-o", folder]
        return subprocess.run([*tool, *options], check=False).returncode


def models_of(folders: list[str]) -> dict[Cell, list[TimingModel]]:
    found: dict[Cell, list[TimingModel]] = {}
    names = {(name, threads): short for short, (_, name, threads) in _NAMES.items()}
    for run in rl.open(folders):
        (about,) = run.runs
        told = about.cell
        name = names[str(told["executor"]), int(str(told["threads"]))]
        cell = float(str(told["load"])), name, int(str(told["extra_us"])), int(str(told["scan_us"]))
        found.setdefault(cell, []).append(recorded_timing(run, about))
    return found


def asked(loads: Iterable[float]) -> Iterable[tuple[str, Cell, Cell, Changes]]:
    """Name, cells before and after, and what is asked, of each pair."""
    slow, fast = SCAN_US
    for load in loads:
        for one, other in PAIRS:
            kind, _, threads = _NAMES[other]
            changes = Changes(executor=kind, threads=threads)
            name = f"{load:g}: {one} -> {other}"
            yield name, (load, one, 0, slow), (load, other, 0, slow), changes
        for one in OTHERS:
            took = Took("/detector", add_ns=EXTRA_US * 1000)
            cell = load, one, 0, slow
            name = f"{load:g}: {one}, /detector +{EXTRA_US // 1000} ms"
            yield name, cell, (load, one, EXTRA_US, slow), Changes(took=[took])
            rate = ("/scan", 1e6 / fast)
            yield f"{load:g}: {one}, /scan x 2", cell, (load, one, 0, fast), Changes(rates=[rate])


def judged(models: Mapping[Cell, list[TimingModel]]) -> list[Pair]:
    found = []
    for name, before, after, changes in asked(sorted({cell[0] for cell in models})):
        p50, p99 = predicted(models[before], changes, seed=1).figures[:2]
        was, now = recorded_latency(models[before]), recorded_latency(models[after])
        found.append(Pair(name, was, now, (p50, p99)))
    return found


def show(pairs: list[Pair]) -> None:
    """The table, and what it comes to."""
    print(
        "| pair | P50 before [ms] | after | predicted | from | to | off "
        "| P99 before | after | predicted | from | to | off |\n|---|" + "--:|" * 12
    )
    for pair in pairs:
        cells = [pair.name]
        for before, after, x in zip(pair.before, pair.after, pair.figures, strict=True):
            cells += [f"{before / 1e6:.2f}", f"{after / 1e6:.2f}"]
            if x.value is None or x.low is None or x.high is None:
                cells += ["refused", "", "", ""]
                continue
            within = "" if x.low <= after <= x.high else " !"
            cells += [f"{n / 1e6:.2f}" for n in (x.value, x.low, x.high)]
            cells.append(f"{x.value / after - 1:+.0%}{within}")
        print(f"| {' | '.join(cells)} |")
    for number, name in enumerate(("P50", "P99")):
        rows = [(p.before[number], p.after[number], p.figures[number]) for p in pairs]
        known = [(b, a, x.value, x.low, x.high) for b, a, x in rows if x.value is not None]
        table = np.array(known, dtype=np.float64)
        before, after, value, low, high = table.T
        off, nothing = abs(value / after - 1), abs(before / after - 1)
        apart = abs(after / before - 1) > APART
        print(
            f"\n{name}: {len(known)} of {len(pairs)} predicted; within the interval "
            f"{np.mean((low <= after) & (after <= high)):.0%}; half-width "
            f"{np.median((high - low) / 2 / value):.0%} (median), "
            f"{np.max((high - low) / 2 / value):.0%} (largest); mean absolute error "
            f"{off.mean():.1%}; of the {apart.sum()} pairs that differ by more than {APART:.0%}: "
            f"{off[apart].mean():.1%}, of 'nothing changes' {nothing[apart].mean():.1%}"
        )


def show_own_work(models: Mapping[Cell, list[TimingModel]]) -> None:
    """What executors need of their own, from which COLLECTS and SEVERAL of a prediction stem."""
    for (load, name, extra, scan), runs in models.items():
        if (extra, scan) == (0, SCAN_US[0]):
            polls = [ns for run in runs for x in run.executors for ns in x.polls.value_ns]
            gaps = [ns for run in runs for x in run.callbacks for ns in x.gaps.value_ns]
            told = [f"{np.median(x) / 1e3:.0f}" if x else "none" for x in (polls, gaps)]
            print(f"{load:g}: {name}: median poll {told[0]} us, gap {told[1]} us")


def main(arguments: list[str]) -> int:
    if arguments[0] == "record":
        return record(arguments[1], arguments[2:])
    models = models_of(arguments)
    show(judged(models))
    show_own_work(models)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
