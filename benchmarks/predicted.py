"""Predictions held against recordings: other executors, threads, execution times and rates.

``python benchmarks/predicted.py record FOLDER [roslens record's options]`` compiles
programs/what_if.cpp and records the suite beside it; ``python benchmarks/predicted.py FOLDER...``
predicts each cell of the pairs below from another one, at each load, and prints a row for each.
The measured value is the mean over the runs of a cell; the program's execution times are given by
its options, so that the predicted change is exactly the recorded one.
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
from roslens.analysis.what_if.changes import Changes, DurationChange
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
"""Pairs that differ by more than this show whether predicting is better than assuming no change."""

Cell = tuple[float, str, int, int]
"""Load, executor, additional work of the detector [us], and period of /scan [us]."""


@dataclass(frozen=True)
class Pair:
    """Latency recorded before a change, recorded after it, and predicted [ns]: P50, P99."""

    name: str
    before: tuple[float, ...]
    after: tuple[float, ...]
    figures: tuple[Predicted, Predicted]


def record(folder: str, options: Sequence[str]) -> int:
    """Compile the program and record the suite."""
    rclcpp = rclcpp_for(embedded_ros())
    with TemporaryDirectory() as place:
        program = Path(place) / "what_if"
        header = shipped("tracing", "workloads") / "rclcpp_workloads" / "src"
        source = [f"-I{header}", str(PROGRAMS / "what_if.cpp")]
        command = [*rclcpp.compiler, *rclcpp.compile_flags(), *source, *rclcpp.link_flags()]
        subprocess.run([*command, "-o", str(program)], check=True)
        suite = Path(place) / "suite.yaml"
        text = (PROGRAMS / "what_if.yaml").read_text()
        suite.write_text(text.replace("program: what_if", f"program: {program}"))
        tool = [sys.executable, "-m", "roslens", "record", "--suite", str(suite), "-o", folder]
        return subprocess.run([*tool, *options], check=False).returncode


def models_of(folders: list[str]) -> dict[Cell, list[TimingModel]]:
    models: dict[Cell, list[TimingModel]] = {}
    names = {(name, threads): short for short, (_, name, threads) in _NAMES.items()}
    for run in rl.open(folders):
        (about,) = run.runs
        factors = about.cell
        name = names[str(factors["executor"]), int(str(factors["threads"]))]
        cell = (
            float(str(factors["load"])),
            name,
            int(str(factors["extra_us"])),
            int(str(factors["scan_us"])),
        )
        models.setdefault(cell, []).append(recorded_timing(run, about))
    return models


def change_pairs(loads: Iterable[float]) -> Iterable[tuple[str, Cell, Cell, Changes]]:
    """Yield name, cells before and after, and changes of each pair."""
    slow, fast = SCAN_US
    for load in loads:
        for executor, replacement in PAIRS:
            kind, _, threads = _NAMES[replacement]
            changes = Changes(executor=kind, threads=threads)
            name = f"{load:g}: {executor} -> {replacement}"
            yield name, (load, executor, 0, slow), (load, replacement, 0, slow), changes
        for executor in OTHERS:
            took = DurationChange("/detector", add_ns=EXTRA_US * 1000)
            cell = load, executor, 0, slow
            name = f"{load:g}: {executor}, /detector +{EXTRA_US // 1000} ms"
            yield name, cell, (load, executor, EXTRA_US, slow), Changes(took=[took])
            rate = ("/scan", 1e6 / fast)
            yield (
                f"{load:g}: {executor}, /scan x 2",
                cell,
                (load, executor, 0, fast),
                Changes(rates=[rate]),
            )


def judged(models: Mapping[Cell, list[TimingModel]]) -> list[Pair]:
    pairs = []
    for name, before, after, changes in change_pairs(sorted({cell[0] for cell in models})):
        p50, p99 = predicted(models[before], changes, seed=1).figures[:2]
        was, now = recorded_latency(models[before]), recorded_latency(models[after])
        pairs.append(Pair(name, was, now, (p50, p99)))
    return pairs


def show(pairs: list[Pair]) -> None:
    """Print the table of pairs, and a summary."""
    print(
        "| pair | P50 before [ms] | after | predicted | from | to | off "
        "| P99 before | after | predicted | from | to | off |\n|---|" + "--:|" * 12
    )
    for pair in pairs:
        cells = [pair.name]
        for before, after, figure in zip(pair.before, pair.after, pair.figures, strict=True):
            cells += [f"{before / 1e6:.2f}", f"{after / 1e6:.2f}"]
            if figure.value is None or figure.low is None or figure.high is None:
                cells += ["refused", "", "", ""]
                continue
            within = "" if figure.low <= after <= figure.high else " !"
            cells += [f"{n / 1e6:.2f}" for n in (figure.value, figure.low, figure.high)]
            cells.append(f"{figure.value / after - 1:+.0%}{within}")
        print(f"| {' | '.join(cells)} |")
    for number, name in enumerate(("P50", "P99")):
        rows = [(p.before[number], p.after[number], p.figures[number]) for p in pairs]
        predictions = [
            (b, a, figure.value, figure.low, figure.high)
            for b, a, figure in rows
            if figure.value is not None
        ]
        table = np.array(predictions, dtype=np.float64)
        before, after, value, low, high = table.T
        off, nothing = abs(value / after - 1), abs(before / after - 1)
        differ = abs(after / before - 1) > APART
        print(
            f"\n{name}: {len(predictions)} of {len(pairs)} predicted; within the interval "
            f"{np.mean((low <= after) & (after <= high)):.0%}; half-width "
            f"{np.median((high - low) / 2 / value):.0%} (median), "
            f"{np.max((high - low) / 2 / value):.0%} (largest); mean absolute error "
            f"{off.mean():.1%}; of the {differ.sum()} pairs that differ by more than {APART:.0%}: "
            f"{off[differ].mean():.1%}, of 'nothing changes' {nothing[differ].mean():.1%}"
        )


def show_own_work(models: Mapping[Cell, list[TimingModel]]) -> None:
    """Print the executors' own work, from which COLLECTS and SEVERAL of a prediction derive."""
    for (load, name, extra, scan), runs in models.items():
        if (extra, scan) == (0, SCAN_US[0]):
            polls = [
                ns for run in runs for executor in run.executors for ns in executor.polls.value_ns
            ]
            gaps = [
                ns for run in runs for callback in run.callbacks for ns in callback.gaps.value_ns
            ]
            medians = [
                f"{np.median(times) / 1e3:.0f}" if times else "none" for times in (polls, gaps)
            ]
            print(f"{load:g}: {name}: median poll {medians[0]} us, gap {medians[1]} us")


def main(arguments: list[str]) -> int:
    if arguments[0] == "record":
        return record(arguments[1], arguments[2:])
    models = models_of(arguments)
    show(judged(models))
    show_own_work(models)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
