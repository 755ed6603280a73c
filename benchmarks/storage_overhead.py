"""What measuring adds to the storage benchmark: a plugin that writes nothing against the others.

The null plugin runs in the same loop, with the same clock and (inactive) tracepoints, so that the
time between the two clock readings around a call is what measuring adds to that call.

``python benchmarks/storage_overhead.py [ROUNDS]``
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

from roslens.studies.storage.results.comparison import read_batches
from roslens.studies.storage.workloads.storage.prepare import prepare
from roslens.studies.storage.workloads.storage.run import SAMPLES, load_of, start

ROUNDS = 7
CELLS = [
    (size, batch) for size in ("1MiB", "10KiB", "100B", "mixed") for batch in (1 << 10, 10 << 20)
]
CONFIGS = ("null", "mcap_nochunking", "mcap_default", "sqlite_default")


def nanoseconds_per_message(config: str, size: str, batch: int) -> float:
    load = load_of(size, 64 << 20, SAMPLES, 0)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place, tempfile.TemporaryDirectory() as out:
        assert start(config, load, batch, Path(place), Path(out)).wait() == 0
        calls = read_batches(Path(out) / "writes.csv").calls
    return float(calls["write_ns"].sum()) / len(load.order)


def main() -> None:
    rounds = int(sys.argv[1]) if sys.argv[1:] else ROUNDS
    os.environ |= prepare(print)
    by_cell: dict[str, dict[str, list[float]]] = {}
    for _ in range(rounds):
        for size, batch in CELLS:
            for config in CONFIGS:
                value = nanoseconds_per_message(config, size, batch)
                by_cell.setdefault(f"{size}/{batch}", {}).setdefault(config, []).append(value)
    print("ns per message, median of", rounds, "interleaved rounds; added = null / library")
    result = {}
    for cell, values in by_cell.items():
        median = {config: float(np.median(v)) for config, v in values.items()}
        share = 100 * median["null"] / min(v for c, v in median.items() if c != "null")
        result[cell] = {**median, "added_percent_at_most": share}
        shown = "  ".join(f"{config} {v:12,.1f}" for config, v in median.items())
        print(f"{cell:12}  {shown}  added at most {share:.2f} %")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
