"""What the model costs: `collect` against `collect --events-only`, on the same threads.

``python benchmarks/model.py FOLDER [--events 5000000] [--threads 2] [--rounds 5]``

Generates two traces in FOLDER, unless they exist (50 million events take 9 GB of memory): ``n``,
whose objects are not announced by events and whose messages never match, and ``named``, whose
publications are all delivered. Each round collects everything once, one after the other. Figures
are medians over the rounds; CPU time is user + system of the whole process, start included.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from statistics import median

from roslens.generate.ctf import write_trace
from roslens.generate.shape import Shape, generated

ROOT = Path(__file__).resolve().parents[1]
BAR = 3.0
"""Largest allowed ratio of the time of a full collection to that of the events alone."""


def used(command: list[str], **variables: str) -> tuple[float, float, float]:
    """Run a command; return its wall and CPU seconds, and the largest resident set in MiB."""
    begin = time.perf_counter()
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src"), **variables}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - begin
    if status:
        raise SystemExit(f"{' '.join(command)}: failed")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def collect(trace: Path, output: Path, threads: int, *more: str) -> tuple[float, float, float]:
    """Collect a trace as from the command line, and return what `used` does."""
    command = [
        *(sys.executable, "-m", "roslens", "collect", str(trace), "--force"),
        *("-o", str(output), "--threads", str(threads), *more),
    ]
    return used(command, POLARS_MAX_THREADS=str(threads))


def make(trace: Path, events: int) -> None:
    """Generate a trace; a trace named ``n`` lacks the events that announce objects."""
    frames = generated(Shape(threads=2), events).events
    if trace.name == "n":
        frames = {
            name: frame for name, frame in frames.items() if not name.endswith(("_init", "_added"))
        }
    write_trace(trace, frames, trace.name)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    traces = {"n": options.folder / "n", "named": options.folder / "named"}
    for trace in traces.values():
        if not (trace / "metadata").is_file():
            print(f"making {trace}", file=sys.stderr)
            # In a separate process: the peak of later children would include this process's memory.
            making = get_context("spawn").Process(target=make, args=(trace, options.events))
            making.start()
            making.join()
    samples: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr)
        for name, trace in traces.items():
            for work, more in (("events", ["--events-only"]), ("all", [])):
                output = options.folder / f"{name}-{work}"
                figures = collect(trace, output, options.threads, *more)
                samples.setdefault((name, work), []).append(figures)
    figures = {
        key: [median(column) for column in zip(*rounds, strict=True)]
        for key, rounds in samples.items()
    }
    report: dict[str, float] = {}
    missed = False
    for name in traces:
        events, everything = figures[name, "events"], figures[name, "all"]
        for work, used in (("events only", events), ("events and model", everything)):
            print(
                f"{name:6} {work:17} {used[0]:6.2f} s wall {used[1]:6.2f} s CPU {used[2]:6.0f} MiB"
            )
        ratios = [whole / part for whole, part in zip(everything, events, strict=True)]
        missed |= ratios[0] > BAR
        mark = "   MISSED" if ratios[0] > BAR else ""
        label = f"{name:6} all / events"
        print(f"{label:24} {ratios[0]:6.2f} (at most {BAR:g}), CPU {ratios[1]:.2f}{mark}")
        report |= {f"{name}_wall_ratio": ratios[0], f"{name}_cpu_ratio": ratios[1]}
        report |= {f"{name}_peak_mib": everything[2]}
    if options.json is not None:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
