"""The CTF reader against its peers on one trace: every ratio in interleaved runs.

``python benchmarks/decode.py FOLDER [--events 5000000] [--rounds 5]``

Makes the trace of `make_trace.py` in FOLDER/n, and one ten times as long in FOLDER/10n, unless
they are there. In each round everything is run once, one after the other. Figures are medians
over the rounds of user + system CPU seconds of this process's children; two threads against one
are wall time, which other load on the machine bends. The bars are those the reader is held to.
Peers that are not installed are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TypeAlias

from make_trace import write_trace

ROOT = Path(__file__).resolve().parents[1]
DECODE = """
import sys, time
from pathlib import Path
import polars, pyarrow  # what `read` and `stream` import at first use is no decoding
from collectors.reader import open_trace
trace = open_trace(Path(sys.argv[1]))
{setup}
wall, cpu = time.perf_counter(), time.process_time()
{work}
print(time.perf_counter() - wall, time.process_time() - cpu, count)
"""
STREAM = "count = sum(b.num_rows for _, b in trace.stream(threads={threads}))"
READ = "count = sum(f.height for f in trace.read(threads=1).values())"
WRITE = "count = trace.write_events(Path({out!r}), threads={threads}).events"
WINDOW = """
info = trace._reader.summary(1)
begin, end = info["begin_ns"], info["end_ns"]
middle, width = (begin + end) // 2, (end - begin) // 100
trace.read(begin_ns=middle, end_ns=middle + width, threads=1)
"""
READ_WINDOW = """
frames = trace.read(begin_ns=middle, end_ns=middle + width, threads=1)
count = sum(f.height for f in frames.values())
"""
BT2 = """
import sys, time
import bt2
cpu, count, rows = time.process_time(), 0, []
for message in bt2.TraceCollectionMessageIterator(sys.argv[1]):
    if type(message) is bt2._EventMessageConst:
        event = message.event
        row = {"_name": event.name, "_timestamp": message.default_clock_snapshot.ns_from_origin}
        for scope in (event.packet.context_field, event.common_context_field, event.payload_field):
            if scope is not None:
                row.update({str(name): value for name, value in scope.items()})
        rows.append({name: str(v) if isinstance(v, bt2._StringFieldConst) else v
                     for name, v in row.items()})
        count += 1
        if count == int(sys.argv[2]):
            break
print(time.process_time() - cpu, count)
"""


def run(*command: object) -> str:
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ).stdout


def cpu_of(work: Callable[[], object]) -> float:
    """CPU seconds of the child processes that `work` runs."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(trace: Path, work: str, setup: str = "") -> tuple[float, float, int]:
    """Wall and CPU seconds of `work` alone, warm, and the events it saw."""
    said = run(sys.executable, "-c", DECODE.format(setup=setup, work=work), trace).split()
    return float(said[0]), float(said[1]), int(said[2])


def collect(trace: Path, folder: Path, threads: int = 1) -> None:
    """Everything to Parquet, as from the command line."""
    run(
        *(sys.executable, "-m", "roslens", "collect", trace, "--events-only", "--force"),
        *("--threads", threads, "-o", folder),
    )


def peak_mib(trace: Path, folder: Path) -> float:
    """Largest resident set of `collect --events-only`."""
    script = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, "
        "stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)"
    )
    command = (sys.executable, "-m", "roslens", "collect", trace, "--events-only", "--force")
    said = run(sys.executable, "-c", script, *command, "--threads", 2, "-o", folder)
    return float(said.split()[-1])


def instructions(trace: Path, events: int) -> float | None:
    """Instructions per event, from callgrind: decoding the trace less opening it."""
    if shutil.which("valgrind") is None:
        return None
    counts = []
    for work in ("", "trace._reader.read(None, None, None, 1)"):
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); from collectors import _native; "
            f"trace = type('', (), dict(_reader=_native.Reader([(sys.argv[2], '.')]))); {work}"
        )
        done = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"),
                *(sys.executable, "-c", script, str(ROOT), str(trace)),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        found = re.search(r"Collected : (\d+)", done.stderr) or re.search(
            r"refs:\s+([\d,]+)", done.stderr
        )
        assert found is not None, done.stderr
        counts.append(int(found.group(1).replace(",", "")))
    return (counts[1] - counts[0]) / events


Bar: TypeAlias = tuple[str, float, str, float]
"""What is held to a bar, its figure, the sense, the bar."""


def rounds(options: argparse.Namespace, n: Path, out: Path) -> dict[str, float]:
    """Median seconds of each thing over all rounds."""
    seconds: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        seconds.setdefault(name, []).append(value)

    babeltrace = shutil.which("babeltrace2")
    for round_ in range(options.rounds):
        print(f"round {round_ + 1} of {options.rounds}", flush=True)
        if babeltrace:
            note("dummy", cpu_of(lambda: run(babeltrace, "-o", "dummy", n)))
        wall, cpu, count = ours(n, STREAM.format(threads=1))
        assert count == options.events // 16 * 16, count
        note("stream", cpu)
        note("stream wall 1", wall)
        note("stream wall 2", ours(n, STREAM.format(threads=2))[0])
        note("read", ours(n, READ)[1])
        for threads in (1, 2):
            wall, cpu, _ = ours(n, WRITE.format(threads=threads, out=str(out)))
            note(f"write {threads}", cpu)
            note(f"write wall {threads}", wall)
        note("collect", cpu_of(lambda: collect(n, out)))
        note("window", ours(n, READ_WINDOW, WINDOW)[1])
    return {name: median(values) for name, values in seconds.items()}


def against_babeltrace(
    options: argparse.Namespace, n: Path, medians: dict[str, float]
) -> list[Bar]:
    """Ratios to the peers that are installed."""
    bars: list[Bar] = []
    if "dummy" in medians:
        dummy = medians["dummy"]
        bars = [
            ("into Arrow / babeltrace2 -o dummy", dummy / medians["stream"], ">=", 10),
            ("into frames kept in memory / the same", dummy / medians["read"], ">=", 10),
            ("to Parquet / the same", dummy / medians["write 1"], ">=", 3),
            ("collect --events-only, process / the same", dummy / medians["collect"], ">=", 3),
        ]
    try:
        said = run("/usr/bin/python3", "-c", BT2, n, options.bt2_events).split()
    except (OSError, subprocess.CalledProcessError):
        print("python3-bt2 is not installed")
    else:
        slow = float(said[0]) / int(said[1])
        fast = medians["stream"] / options.events
        bars.append(("into Arrow / python bt2 -> dict", slow / fast, ">=", 500))
    return bars


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bt2-events", type=int, default=200_000)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    traces = {}
    for name, factor in (("n", 1), ("10n", 10), ("n_10", 0.1)):
        traces[name] = options.folder / name
        if not (traces[name] / "metadata").is_file():
            print(f"making {traces[name]}", flush=True)
            write_trace(traces[name], int(options.events * factor), 2, 262_144)
    n = traces["n"]
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        out = Path(scratch) / "collected"
        medians = rounds(options, n, out)
        bars = against_babeltrace(options, n, medians)
        for what in ("stream", "write"):
            ratio = medians[f"{what} wall 1"] / medians[f"{what} wall 2"]
            bars.append((f"two threads / one, {what}", ratio, ">=", 1.7))
        bars.append(
            ("1 % of the time / all of it", medians["window"] / medians["read"], "<=", 0.05)
        )
        per = instructions(traces["n_10"], options.events // 10)
        if per is not None:
            bars.append(("instructions per event", per, "<=", 500))
        small, large = (
            median(peak_mib(trace, out) for _ in range(options.rounds))
            for trace in (n, traces["10n"])
        )
        bars.append(("peak memory, MiB, 10 x the trace", large, "<=", 512))
        bars.append(("peak memory of 10 x the trace / of 1 x", large / small, "<=", 1.2))
    for name, value in medians.items():
        print(f"  {name}: {value:.3f} s")
    print(f"{'what':45} {'measured':>10} {'bar':>8}")
    for what, value, sign, bar in bars:
        holds = value >= bar if sign == ">=" else value <= bar
        print(f"{what:45} {value:10.3f} {sign:>3} {bar:g}{'' if holds else '   MISSED'}")
    if options.json:
        rows = [
            {"what": what, "measured": value, "bar": f"{sign} {bar:g}"}
            for what, value, sign, bar in bars
        ]
        options.json.write_text(json.dumps({"cpu_s": medians, "bars": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
