"""What measuring adds to the storage benchmark: the null sink against the library it is added to.

The null sink runs the same loop, clock and (inactive) tracepoints and writes nothing, so the time
between the two clock readings around a call is what measuring adds to that call.

``python benchmarks/storage_overhead.py [rust | rosbag2] [ROUNDS]``: of rosbag2 the sink that writes
nothing is a plugin, too.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from roslens.collectors.results.storage_runs import read_storage_run
from roslens.tracing.workloads.storage.prepare import ROSBAG2_VARIABLE, optional, program

ROUNDS = 7
CELLS = [
    (size, batch) for size in ("1MiB", "10KiB", "100B", "mixed") for batch in ("1KiB", "10MiB")
]
CONFIGS = ("null", "mcap_nochunking", "mcap_default", "sqlite_default")
SAMPLES = Path(__file__).parents[1] / "data" / "samples"


def nanoseconds_per_message(config: str, size: str, batch: str, options: tuple[str, ...]) -> float:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place, tempfile.TemporaryDirectory() as out:
        subprocess.run(
            [
                *(str(program(print)), "--configuration", config, "--messages", size),
                *("--batch", batch, "--bytes", "64MiB", "--content", str(SAMPLES)),
                *("--place", place, "--results", out),
                *options,
            ],
            check=True,
        )
        run = read_storage_run(Path(out))
    return float(run.batches.calls["write_ns"].sum()) / run.facts.message_count


def main() -> None:
    implementation = sys.argv[1] if sys.argv[1:] else "rust"
    rounds = int(sys.argv[2]) if sys.argv[2:] else ROUNDS
    options: tuple[str, ...] = ()
    if implementation == "rosbag2":
        options = ("--rosbag2", optional("rosbag2", print)[ROSBAG2_VARIABLE])
    found: dict[str, dict[str, list[float]]] = {}
    for _ in range(rounds):
        for size, batch in CELLS:
            for config in CONFIGS:
                value = nanoseconds_per_message(config, size, batch, options)
                found.setdefault(f"{size}/{batch}", {}).setdefault(config, []).append(value)
    print("ns per message, median of", rounds, "interleaved rounds; added = null / library")
    result = {}
    for cell, values in found.items():
        median = {config: float(np.median(v)) for config, v in values.items()}
        share = 100 * median["null"] / min(v for c, v in median.items() if c != "null")
        result[cell] = {**median, "added_percent_at_most": share}
        shown = "  ".join(f"{config} {v:12,.1f}" for config, v in median.items())
        print(f"{cell:12}  {shown}  added at most {share:.2f} %")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
