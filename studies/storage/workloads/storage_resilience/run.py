"""Ends the storage benchmark in mid-write, again and again, and counts what comes back.

``python3 run.py --failure kill --plugin_config mcap_default --output FOLDER``

kill: SIGKILL once a random number of messages has been acknowledged (the write call returned).
power_dropped, power_torn: the benchmark runs once with all its writes logged; each trial builds the
files that a power loss at a random moment leaves, see ``power_loss.py``.

Writes into FOLDER: ``recovery.csv``, a row per trial: trial, failure, acknowledged (messages),
recovered, wrong, whole (the plain reader ended without complaint), recovered_with_tool, tool.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.studies.storage.workloads.storage.cells import (
    RAM_DISK,
    bytes_of,
    checked_place,
    run_cell,
)
from roslens.studies.storage.workloads.storage.power_loss import (
    UNLINK,
    WRITE,
    after_power_loss,
    read_log,
)
from roslens.studies.storage.workloads.storage.recover import Expected, Recovered, recover
from roslens.studies.storage.workloads.storage.run import (
    SAMPLES,
    SUITES,
    load_of,
    start,
)
from roslens.studies.storage.workloads.storage.verify import RECORDINGS, recording_in

COUNT = "acknowledged"
COLUMNS = (
    *("trial", "failure", "acknowledged", "recovered", "wrong", "whole"),
    *("recovered_with_tool", "tool"),
)
KILL_SECONDS = 60.0


class Benchmark:
    """The benchmark's program, on a RAM disk.

    Parameters
    ----------
    options
        Options of the command line.
    scratch
        A folder of our own on the RAM disk.
    """

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        self.options = options
        self.place, self.results = scratch / "place", scratch / "results"
        total = bytes_of("bytes", options.bytes)
        checked_place(scratch, total)
        self.load = load_of(options.message_size, total, SAMPLES, 0)
        self.log = scratch / "writes"
        self.scratch = scratch

    def start(self, *, logged: bool = False) -> subprocess.Popen[bytes]:
        """Start writing into empty folders; return the process."""
        for folder in (self.place, self.results):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        self.log.unlink(missing_ok=True)
        environment = {
            "LD_PRELOAD": os.environ["ROSLENS_WRITE_LOGGER"],
            "ROSLENS_WRITE_FOLDER": str(self.place),
            "ROSLENS_WRITE_LOG": str(self.log),
        }
        return start(
            *(self.options.plugin_config, self.load),
            bytes_of("batch_size", self.options.batch_size),
            *(self.place, self.results),
            environment=environment if logged else None,
            acknowledge=str(self.place / COUNT),
        )

    @property
    def acknowledged(self) -> int:
        """Number of messages whose write call has returned."""
        try:
            return int.from_bytes((self.place / COUNT).read_bytes(), sys.byteorder)
        except OSError:
            return 0

    def expected(self) -> Expected:
        """Return the content of messages by number: consecutive slices, then from the start."""
        content, (size,) = self.load.content, self.load.sizes
        each = len(content) // size

        def slice_of(number: int) -> bytes:
            begin = number % each * size
            return content[begin : begin + size]

        return slice_of


def main() -> int:
    """Run all trials of one cell; return the exit status."""
    options = _options()
    return run_cell("storage-resilience", options.place, lambda scratch: _run(options, scratch))


def _run(options: argparse.Namespace, scratch: Path) -> int:
    source = random.Random(f"{options.seed} {options.plugin_config} {options.failure}")  # noqa: S311
    trials = _killed if options.failure == "kill" else _power
    with (options.output / "recovery.csv").open("w", newline="", encoding="utf-8") as stream:
        benchmark = Benchmark(options, scratch)
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(COLUMNS)
        for trial, (acknowledged, plain, tool) in enumerate(trials(benchmark, source)):
            writer.writerow(
                (
                    *(trial, options.failure, acknowledged, plain.messages, plain.wrong),
                    *(int(plain.whole), tool.messages, tool.tool),
                )
            )
    return 0


Trial = tuple[int, Recovered, Recovered]


def _killed(benchmark: Benchmark, source: random.Random) -> Iterator[Trial]:
    total = len(benchmark.load.order)
    expected = benchmark.expected()
    for _ in range(benchmark.options.trials):
        target = source.randrange(total // 20, total * 19 // 20)
        process = benchmark.start()
        # The kill is not right after a call returned, but at a random time within the next ones.
        _wait_for(benchmark, process, target)
        time.sleep(source.random() * 1e-3)
        process.kill()
        process.wait()
        acknowledged = benchmark.acknowledged
        yield acknowledged, *recover(recording_in(benchmark.place), expected)


def _wait_for(benchmark: Benchmark, process: subprocess.Popen[bytes], target: int) -> None:
    deadline = time.monotonic() + KILL_SECONDS
    while benchmark.acknowledged < target and process.poll() is None:
        if time.monotonic() > deadline:
            process.kill()
            raise RunFailedError(f"the program did not write {target} messages in a minute")
    if process.returncode not in (None, 0):
        raise RunFailedError(f"the program ended with status {process.returncode}")


def _power(benchmark: Benchmark, source: random.Random) -> Iterator[Trial]:
    process = benchmark.start(logged=True)
    if process.wait() != 0:
        raise RunFailedError(f"the program ended with status {process.returncode}")
    operations = read_log(benchmark.log)
    if not any(entry.name in RECORDINGS and entry.kind == WRITE for entry in operations):
        raise RunFailedError("none of the program's writes was logged; is it statically linked?")
    begin, *_, end = (
        i for i, entry in enumerate(operations) if entry.name == COUNT and entry.kind == WRITE
    )
    # The counter is not part of the recording, nor is the index of a log in memory.
    excluded = {COUNT, "recording.db3-shm"}
    expected, later = benchmark.expected(), benchmark.options.failure.removeprefix("power_")
    for _ in range(benchmark.options.trials):
        cut = source.randrange(begin, end)
        done = operations[:cut]
        count = [entry.data for entry in done if entry.name == COUNT and entry.kind == WRITE]
        acknowledged = int.from_bytes(count[-1], sys.byteorder) if count else 0
        folder = benchmark.scratch / "after"
        folder.mkdir()
        kept = [entry for entry in done if entry.name not in excluded or entry.kind == UNLINK]
        after_power_loss(kept, folder, later, source)
        yield acknowledged, *recover(recording_in(folder), expected)
        shutil.rmtree(folder)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plugin_config", required=True)
    parser.add_argument("--failure", choices=("kill", "power_dropped", "power_torn"), required=True)
    parser.add_argument(
        "--message_size", choices=sorted(SUITES.keys() - {"mixed"}), default="10KiB"
    )
    parser.add_argument("--batch_size", default="1KiB")
    parser.add_argument("--bytes", default="16MiB")
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--place", type=Path, default=RAM_DISK)
    parser.add_argument("--seed", default=os.environ.get("ROSLENS_REPETITION", "0"))
    parser.add_argument("--seconds", help="not used")
    parser.add_argument("--output", type=Path, required=True)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
