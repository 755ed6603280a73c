"""What verbs take of a folder of many recordings, and of a recording of many processes.

    python tests/scale/many.py [--recordings 2000] [--processes 10000] [--folder DIR]

The recordings are made up (`roslens.generate`), half of them in ``base``, half in ``new``. Prints
seconds, those of CPU, and the most memory that a verb and all that it started had at a time, by
their resident sets, in which shared pages count once for each. Exit code 1 where a verb fails or
takes more than `MOST_MIB`.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from roslens.generate import Shape, generate

MOST_MIB = 1_500
EVENTS = 1_600
Step = tuple[str, list[str | Path], tuple[int, ...]]


def recordings(folder: Path, count: int) -> Iterator[Step]:
    """Yield questions about many recordings: a name, arguments and the exit codes of success."""
    for number in range(count):
        place = folder / ("base", "new")[number % 2] / f"{number:05d}"
        generate(Shape(loss=0.01, seed=number), place, EVENTS)
    yield "info", ["info", folder], (0,)
    yield "collect", ["collect", folder], (0,)
    yield "info, collected", ["info", folder, "--json"], (0,)
    yield "info --check", ["info", "--check", folder], (0, 3)
    yield "first page", [folder], (0,)
    # The sides are equal; whether chance tells them apart does not matter here.
    yield "compare", ["compare", folder / "base", folder / "new"], (0, 1, 3)


def processes(folder: Path, count: int) -> Iterator[Step]:
    """Yield questions about a recording of many processes, half of which publish to the others."""
    half = count // 2
    generate(Shape(topics=half, nodes=half, processes=half), folder, 100 * count)
    yield "info", ["info", folder], (0,)
    yield "collect", ["collect", folder], (0,)
    yield "first page", [folder], (0,)
    # There are more chains than are followed: one line.
    yield "chains", ["chains", folder], (0, 2)
    yield "report latency", ["report", "latency", folder, "-o", folder / "report"], (0,)


def cpu_seconds() -> float:
    """Return the CPU seconds of all children that have ended so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(arguments: list[str | Path]) -> tuple[int, str, float, str]:
    """Return exit code, seconds in words, MiB and output of a verb."""
    command = [sys.executable, "-m", "roslens", *map(str, arguments)]
    begun, cpu, most = time.monotonic(), cpu_seconds(), 0
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        ) as process:
            root = psutil.Process(process.pid)
            while process.poll() is None:
                with suppress(psutil.Error):
                    sizes = [
                        member.memory_info().rss
                        for member in (root, *root.children(recursive=True))
                    ]
                    most = max(most, sum(sizes))
                time.sleep(0.1)
        spent = f"{time.monotonic() - begun:7.1f} s, {cpu_seconds() - cpu:6.1f} s of CPU"
        output.seek(0)
        return process.returncode, spent, most / (1 << 20), output.read().decode(errors="replace")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recordings", type=int, default=2_000)
    parser.add_argument("--processes", type=int, default=10_000)
    parser.add_argument("--folder", type=Path, help="where they are made; default: a new one")
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(prefix="many-") as folder:
        place = options.folder or Path(folder)
        for title, steps in (
            (f"{options.recordings} recordings", recordings(place / "runs", options.recordings)),
            (f"{options.processes} processes", processes(place / "wide", options.processes)),
        ):
            for name, arguments, fine in steps:
                code, spent, mib, output = measured(arguments)
                bad = code not in fine or mib > MOST_MIB
                failed |= bad
                end = f"  exit code {code}: {output[-500:]}" if code not in fine else ""
                mark = "  LARGE" if mib > MOST_MIB else ""
                print(f"{title}: {name:16} {spent} {mib:6.0f} MiB{mark}{end}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
