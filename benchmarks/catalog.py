"""A catalog of 10,000 recordings: how long it takes to make, to bring up to date, and to ask.

python benchmarks/catalog.py FOLDER [--recordings 10000]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import polars as pl

import roslens as rl

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "data" / "samples"
DAY_NS = 86_400 * 10**9
DISTROS = ("humble", "jazzy", "kilted")


def make(folder: Path, count: int) -> None:
    """Manifests of so many nights, without traces."""
    template = json.loads(next((SAMPLES / "two_process").glob("*/manifest.json")).read_text())
    for number in range(count):
        run = folder / f"night{number // 10:04d}" / f"{number % 10:03d}"
        run.mkdir(parents=True, exist_ok=True)
        template |= {"campaign": run.parent.name, "run": run.name}
        template["start_ns"] = 1_600_000_000_000_000_000 + number // 10 * DAY_NS
        template["environment"]["ros_distro"] = DISTROS[number % 3]
        (run / "manifest.json").write_text(json.dumps(template))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recordings", type=int, default=10_000)
    options = parser.parse_args()
    make(options.folder, options.recordings)
    for what in ("made", "brought up to date, nothing new"):
        begin = time.perf_counter()
        catalog = rl.catalog(options.folder)
        print(f"{what}: {time.perf_counter() - begin:.2f} s")
    worst = 0.0
    for name, ask in {
        "suite, distro and since": lambda: catalog.select(
            suite="two_process", distro="jazzy", since="2021-01-01"
        ),
        "pattern of campaigns": lambda: catalog.select(campaign="night00*"),
        "factors": lambda: catalog.select(factors={"rmw": "rmw_fastrtps_cpp"}),
        "any condition": lambda: catalog.select(where=pl.col("cpu_count") > 1),
        "runs per distro": lambda: catalog.frame.group_by("distro").len().collect(),
    }.items():
        begin = time.perf_counter()
        found = ask()
        seconds = time.perf_counter() - begin
        worst = max(worst, seconds)
        rows = len(found) if not isinstance(found, pl.DataFrame) else found["len"].sum()
        print(f"{name}: {rows:,} recordings in {1e3 * seconds:.1f} ms")
    return 0 if worst < 1 else 1


if __name__ == "__main__":
    sys.exit(main())
