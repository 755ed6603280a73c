"""A trace larger than memory may be: collected in how much of it, and interrupted again and again.

``python benchmarks/large.py FOLDER [--gigabytes 5] [--interruptions 10] [--threads 2] [--seed 1]``

Makes a trace (`make_trace.py --named`), collects it with all tables while its resident memory is
sampled, collects it once more while it is killed (SIGKILL) at random moments, and compares the
rows of every file of the two. What was made is removed in the end. The bars: below 1 GiB of
memory, and the two are identical.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import psutil
from make_trace import write_trace

BYTES_PER_EVENT = 45.4
MEMORY_BAR = 1 << 30
ROWS_AT_ONCE = 1_000_000
_LOOK_SECONDS = 0.02


def collect(trace: Path, output: Path, threads: int, seconds: float | None) -> tuple[int, float]:
    """Collect in a process of its own, killed when it has used so much CPU time and is not done.

    Returns
    -------
    tuple
        Largest resident memory in bytes, and seconds of CPU time; the process's last words are an
        error here if it failed by itself.
    """
    command = [sys.executable, "-m", "roslens", "collect", str(trace), "-o", str(output),
               "--threads", str(threads)]  # fmt: skip
    used, largest = 0.0, 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        watched = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                # The kernel's own high-water mark would miss nothing, but is not told everywhere.
                largest = max(largest, watched.memory_info().rss)
                times = watched.cpu_times()
                used = max(used, times.user + times.system)
            except psutil.Error:
                break
            if seconds is not None and used > seconds:
                process.kill()
                break
            time.sleep(_LOOK_SECONDS)
        text = process.stdout.read().decode() if process.stdout else ""
    if process.returncode > 0:
        raise SystemExit(f"collecting failed: {text}")
    return largest, used


def different(one: Path, other: Path) -> list[str]:
    """The files whose rows are not the same in both, or that only one has."""
    names = {p.relative_to(root) for root in (one, other) for p in root.rglob("*.parquet")}
    return [str(name) for name in sorted(names) if not _equal(one / name, other / name)]


def _equal(one: Path, other: Path) -> bool:
    if not (one.is_file() and other.is_file()):
        return False
    frames = [pl.scan_parquet(path) for path in (one, other)]
    if frames[0].collect_schema() != frames[1].collect_schema():
        return False
    rows = [frame.select(pl.len()).collect().item() for frame in frames]
    parts = range(0, rows[0], ROWS_AT_ONCE)
    return rows[0] == rows[1] and all(
        frames[0].slice(begin, ROWS_AT_ONCE).collect().equals(
            frames[1].slice(begin, ROWS_AT_ONCE).collect()
        )
        for begin in parts
    )  # fmt: skip


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def interrupted(
    trace: Path, output: Path, threads: int, *, times: int, expected: float, seed: int
) -> tuple[int, int, list[float]]:
    """Collect, killed at random moments; memory, the times that it really was killed, seconds.

    `expected` is how long it takes at once.
    """
    rng = random.Random(seed)
    largest, killed, took = 0, 0, []
    while True:
        # All of them together are little more than half of a collection, so that none finishes.
        limit = rng.uniform(0.02, 1.2 / (times + 1)) * expected if killed < times else None
        memory, seconds = collect(trace, output, threads, limit)
        largest = max(largest, memory)
        took.append(seconds)
        if (output / "tables" / "collected.json").is_file():
            return largest, killed, took
        if limit is None:
            raise SystemExit("not interrupted, and not finished either")
        killed += 1
        there = size_of(output) / 1e9
        print(f"  killed after {seconds:6.1f} s of CPU; {there:5.2f} GB there", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=5.0)
    parser.add_argument("--interruptions", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    own = options.folder / "roslens-large"
    own.mkdir(parents=True)
    try:
        trace, whole, pieces = own / "trace", own / "whole", own / "pieces"
        events = write_trace(
            trace, int(options.gigabytes * 1e9 / BYTES_PER_EVENT), 2, 1 << 18, named=True
        )
        print(f"trace: {size_of(trace) / 1e9:.2f} GB, {events:,} events", flush=True)
        memory, seconds = collect(trace, whole, options.threads, None)
        print(
            f"at once: {memory / 2**20:,.0f} MiB, {seconds:,.0f} s of CPU, output "
            f"{size_of(whole) / 1e9:.2f} GB",
            flush=True,
        )
        largest, killed, took = interrupted(
            trace,
            pieces,
            options.threads,
            times=options.interruptions,
            expected=seconds,
            seed=options.seed,
        )
        print(f"killed {killed} times: {largest / 2**20:,.0f} MiB, {sum(took):,.0f} s of CPU")
        differences = different(whole, pieces)
    finally:
        shutil.rmtree(own, ignore_errors=True)
    bars = {
        f"memory below {MEMORY_BAR / 2**20:,.0f} MiB": max(memory, largest) < MEMORY_BAR,
        f"killed {options.interruptions} times": killed == options.interruptions,
        "every file has the same rows": not differences,
    }
    for name in differences:
        print(f"  different: {name}")
    for bar, holds in bars.items():
        print(f"{'holds' if holds else 'FAILS'}: {bar}")
    return 0 if all(bars.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
