"""Files that people write or keep, changed at random: each is read, or refused by one line.

    python benchmarks/mutated_files.py [--count 2000] [--seed 1] [KIND ...]

Kinds: metrics (metrics.json, by `compare` and `check` with all they print), budgets, suites (read
and planned), calibration (the CSV of its results), archives (packed recordings). What else happens
is a defect: it is told with the seed, and the exit code is 1. tests/security runs a few of each.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from rich.console import Console

from roslens.analysis.calibration.results import from_csv
from roslens.analysis.estimate import Metric
from roslens.analysis.metrics import Metrics, write_metrics
from roslens.analysis.statistics.fractions import fraction_over_runs
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.verdicts.budgets import check_budgets, read_budgets
from roslens.analysis.verdicts.comparison import compare_sides
from roslens.check import checks_table
from roslens.check import summary as check_summary
from roslens.compare import comparison_table, load_side, summary
from roslens.recording import RoslensError
from roslens.recordings import open_recordings
from roslens.tracing.suite import SHIPPED, load_suite

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "data" / "samples"
BUDGETS = """budgets:
- latency_p99 < 50 ms
- loss < 0.1 %
- budget: cpu < 1 core
  where: {executor: events}
- memory_slope < 1 kB/s
"""
ODD: list[Any] = [
    None, True, -1, 0, 1, 2, 1e308, 5e-324, -1e308, float("nan"), math.inf, 10**400, "", "x",
    "\ud800", "1e999", [], {}, [[]], {"a": {"b": []}}, "2024-99-99", "\x1b[2J", 1 << 63,
]  # fmt: skip
NUMBERS = [0, 1, 2, 3, -1, 0.5, 0.95, 1e6, -1e6, 5e-324, 1e-300, 1e160, 9e299, -9e299]
TEXTS = ["[", "{", "9" * 20, '"', "\n", "&a ", "*a", ": ", "- ", "1e999", "\x00", "\xff", "#", ","]


def changed(value: Any, chance: random.Random) -> Any:
    """One or two places with another value, of another place, or none."""
    new = deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2))):
        known = list(_places(new))
        if not known:
            break
        path = chance.choice(known)
        at = new
        for step in path[:-1]:
            at = at[step]
        match chance.randrange(5):
            case 0:
                del at[path[-1]]
            case 1:
                other = new
                for step in chance.choice(known):
                    other = other[step]
                at[path[-1]] = deepcopy(other)
            case _:
                number = isinstance(at[path[-1]], int | float) and chance.random() < 0.8
                at[path[-1]] = chance.choice(NUMBERS if number else ODD)
    return new


def _places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    if path:
        yield path
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(one, (*path, key))


def mutated(whole: bytes, chance: random.Random) -> bytes:
    """Some bytes changed, cut out, repeated, or put in."""
    content = bytearray(whole)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(content) or 1)
        match chance.randrange(5):
            case 0 if content:
                content[at] = chance.randrange(256)
            case 1:
                del content[at : at + chance.randint(1, 40)]
            case 2:
                content[at:at] = content[max(0, at - 30) : at]
            case 3:
                content[at:at] = chance.choice(TEXTS).encode("latin-1")
            case 4:
                del content[chance.randrange(len(content) or 1) :]
    return bytes(content)


def metrics_file(folder: Path) -> Path:
    """As a report writes it: quantities of every scale in two cells."""
    found = []
    for executor in ("events", "single"):
        cell = {"executor": executor}
        for name, unit, values in (
            ("latency_p99", "ns", [1e6, 2e6, 1.5e6, 1.2e6]),
            ("cpu", "core", [0.2, 0.3, 0.25, 0.2]),
        ):
            found.append(value_over_runs(Metric(name, "from a to b", unit), cell, values, 400))
        slope = Metric("memory_slope", "growth", "B/s", scale="signed")
        found.append(value_over_runs(slope, cell, [10.0, -3.0, 4.0], 300))
        loss = Metric("loss", "lost / sent", "1", scale="fraction")
        found.append(fraction_over_runs(loss, cell, [0, 1, 3], [100, 100, 100]))
    run = {
        "run": "a", "suite": "s", "campaign": "c", "cell": {"executor": "events"},
        "status": "complete", "counts": True, "discarded_events": 0, "lost_packets": 0,
        "truncated": 0, "git_commit": None,
    }  # fmt: skip
    other = {**run, "run": "b", "cell": {"executor": "single"}}
    return write_metrics(Metrics([run, other], {"python": "3"}, found), folder)


class _Metrics:
    """compare and check on a changed metrics.json."""

    def __init__(self, folder: Path) -> None:
        self.whole = metrics_file(folder / "base")
        self.base = load_side(self.whole)
        budgets = folder / "budgets.yaml"
        budgets.write_text(BUDGETS)
        self.budgets = read_budgets(budgets)
        self.path = folder / "metrics.json"

    def __call__(self, chance: random.Random) -> None:
        whole = self.whole.read_bytes()
        if chance.random() < 0.7:
            text = json.dumps(changed(json.loads(whole), chance), ensure_ascii=True)
            self.path.write_text(text)
        else:
            self.path.write_bytes(mutated(whole, chance))
        side = load_side(self.path)
        console = Console(file=io.StringIO(), width=150)
        metrics = ("latency_p99", "loss", "cpu", "memory_slope")
        for one, two in ((self.base, side), (side, self.base), (side, side)):
            compared = compare_sides(one, two, metrics)
            console.print(comparison_table(compared))
            summary(compared)
            compared.json_text()
        found = check_budgets(self.budgets, side)
        console.print(checks_table(found))
        check_summary(found)
        found.json_text()


def _budgets(folder: Path) -> Callable[[random.Random], None]:
    side = load_side(metrics_file(folder / "base"))
    path = folder / "budgets.yaml"

    def once(chance: random.Random) -> None:
        path.write_bytes(mutated(BUDGETS.encode(), chance))
        check_budgets(read_budgets(path), side).json_text()

    return once


def _suites(folder: Path) -> Callable[[random.Random], None]:
    sources = sorted(SHIPPED.glob("*.yaml"))

    def once(chance: random.Random) -> None:
        source = chance.choice(sources)
        path = folder / source.name
        path.write_bytes(mutated(source.read_bytes(), chance))
        load_suite(path)

    return once


def _calibration(folder: Path) -> Callable[[random.Random], None]:
    lines = (ROOT / "data" / "calibration" / "results.csv").read_bytes().splitlines(keepends=True)
    path = folder / "results.csv"

    def once(chance: random.Random) -> None:
        path.write_bytes(mutated(b"".join(lines[:20]), chance))
        from_csv(path)

    return once


def _archives(folder: Path) -> Callable[[random.Random], None]:
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    whole = next(SAMPLES.glob("*.tar.zst")).read_bytes()

    def once(chance: random.Random) -> None:
        path = folder / "x.tar.zst"
        path.write_bytes(mutated(whole, chance))
        open_recordings(path, collect=False)

    return once


KINDS: Mapping[str, Callable[[Path], Callable[[random.Random], None]]] = {
    "metrics": _Metrics,
    "budgets": _budgets,
    "suites": _suites,
    "calibration": _calibration,
    "archives": _archives,
}


def defects(kind: str, count: int, seed: int = 1) -> tuple[int, list[str]]:
    """How many were refused, and what happened that must not."""
    folder = Path(tempfile.mkdtemp())
    refused, found = 0, []
    try:
        once = KINDS[kind](folder)
        for number in range(count):
            try:
                once(random.Random(f"{seed} {kind} {number}"))
            except RoslensError as error:
                refused += 1
                if "\n" in str(error):
                    found.append(f"{kind} {number}: more than a line: {error!r}")
            except Exception as error:  # noqa: BLE001  (any other is what is looked for)
                found.append(f"{kind} {number}: {error!r}")
    finally:
        shutil.rmtree(folder)
    return refused, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", choices=[*KINDS, []], default=[])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    bad = 0
    for kind in given.kinds or KINDS:
        refused, found = defects(kind, given.count, given.seed)
        bad += len(found)
        print(
            f"{kind}: {given.count:,} changed, {refused:,} refused, {len(found)} defects",
            flush=True,
        )
        for told in found[:10]:
            print("  ", told)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
