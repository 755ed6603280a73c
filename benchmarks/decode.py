"""The CTF reader against its peers on one trace: every ratio in interleaved runs.

``python benchmarks/decode.py FOLDER [--events 5000000] [--rounds 5]``

Generates a recording (`roslens.generate`) in FOLDER/n and one ten times as long in FOLDER/10n,
unless they exist; the latter takes 9 GB of memory. Each round runs everything once, one after the
other. Figures are medians over the rounds of the user + system CPU seconds of this process's
children. The bars are the limits that the reader must keep. Peers that are not installed are left
out.

The comparison of two threads with one uses wall time, which other load on the machine distorts: one
process does the same work with one and with two threads in turn, at least twelve times. Beside the
ratio of the medians stands the most that the machine allows: twice the time of one thread alone,
divided by that of two processes that do the one-threaded work at once, measured in the same turns.
Where that is far from 2, cores share caches or clock, or something else is running.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import TypeAlias

from model import collect, used

from roslens.collectors.reader import Trace, open_trace

ROOT = Path(__file__).resolve().parents[1]
DECODE = """
import sys, time
from pathlib import Path
import polars  # what `read` and `stream` import at first use is no decoding
from roslens.collectors.reader import open_trace
trace = open_trace(Path(sys.argv[1]))
{setup}
cpu = time.process_time()
{work}
print(time.process_time() - cpu, count)
"""
STREAM = "count = sum(b.height for _, b in trace.stream(threads=1))"
READ = "count = sum(f.height for f in trace.read(threads=1).values())"
WRITE = "count = trace.write_events(Path({out!r}), threads=1).events"
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
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    ).stdout


def ours(trace: Path, work: str, setup: str = "") -> tuple[float, int]:
    """Return the CPU seconds of `work` alone, warm, and the number of events it saw."""
    words = run(sys.executable, "-c", DECODE.format(setup=setup, work=work), trace).split()
    return float(words[0]), int(words[1])


@cache
def opened(trace: Path) -> Trace:
    """Open a trace once in each process."""
    return open_trace(trace)


def timed(what: str, trace: Path, out: Path, threads: int) -> float:
    """Stream or write all events, and return how many wall seconds this took."""
    source = opened(trace)
    begin = time.perf_counter()
    if what == "stream":
        sum(batch.height for _, batch in source.stream(threads=threads))
    else:
        source.write_events(out, threads=threads)
    return time.perf_counter() - begin


def threads_against_processes(trace: Path, out: Path, what: str, turns: int) -> dict[str, float]:
    """Return median wall seconds with one thread, with two, and of two processes with one each."""
    seconds: dict[str, list[float]] = {"1": [], "2": [], "both": []}
    spawn = get_context("spawn")
    with ProcessPoolExecutor(1, spawn) as first, ProcessPoolExecutor(1, spawn) as second:
        # The first repetitions open the trace and warm up.
        for pool, place in ((first, "a"), (second, "b")):
            pool.submit(timed, what, trace, out / place, 1).result()
        for _ in range(turns):
            for threads in (1, 2):
                alone = first.submit(timed, what, trace, out / "a", threads)
                seconds[str(threads)].append(alone.result())
            both = [
                pool.submit(timed, what, trace, out / place, 1)
                for pool, place in ((first, "a"), (second, "b"))
            ]
            seconds["both"].append(max(each.result() for each in both))
    return {name: median(values) for name, values in seconds.items()}


def instructions(trace: Path, events: int) -> float | None:
    """Return the instructions per event by callgrind: decoding the trace minus opening it."""
    if shutil.which("valgrind") is None:
        return None
    counts = []
    for work in ("", "trace._reader.read((None, None, None, None, 1))"):
        script = (
            "import sys; sys.path.insert(0, sys.argv[1]); from roslens.collectors import _native; "
            f"trace = type('', (), dict(_reader=_native.Reader([(sys.argv[2], '.')]))); {work}"
        )
        done = subprocess.run(
            [
                *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"),
                *(sys.executable, "-c", script, str(ROOT / "src"), str(trace)),
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        match = re.search(r"Collected : (\d+)", done.stderr) or re.search(
            r"refs:\s+([\d,]+)", done.stderr
        )
        assert match is not None, done.stderr
        counts.append(int(match.group(1).replace(",", "")))
    return (counts[1] - counts[0]) / events


Bar: TypeAlias = tuple[str, float, str, float]
"""Name of a figure, its value, the comparison (empty where there is no bar), and the bar."""


def rounds(options: argparse.Namespace, n: Path, out: Path) -> dict[str, float]:
    """Return the median seconds of each measurement over all rounds."""
    seconds: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        seconds.setdefault(name, []).append(value)

    babeltrace = shutil.which("babeltrace2")
    for round_ in range(options.rounds):
        print(f"round {round_ + 1} of {options.rounds}", flush=True)
        if babeltrace:
            note("dummy", used([babeltrace, "-o", "dummy", str(n)])[1])
        cpu, count = ours(n, STREAM)
        assert count >= options.events // 8 * 8, count
        note("stream", cpu)
        note("read", ours(n, READ)[0])
        note("write", ours(n, WRITE.format(out=str(out)))[0])
        note("collect", collect(n, out, 1, "--events-only")[1])
        note("window", ours(n, READ_WINDOW, WINDOW)[0])
    return {name: median(values) for name, values in seconds.items()}


def against_babeltrace(
    options: argparse.Namespace, n: Path, medians: dict[str, float]
) -> list[Bar]:
    """Return the ratios to the peers that are installed."""
    bars: list[Bar] = []
    if "dummy" in medians:
        dummy = medians["dummy"]
        bars = [
            ("into Arrow / babeltrace2 -o dummy", dummy / medians["stream"], ">=", 10),
            ("into frames kept in memory / the same", dummy / medians["read"], ">=", 10),
            ("to Parquet / the same", dummy / medians["write"], ">=", 3),
            ("collect --events-only, process / the same", dummy / medians["collect"], ">=", 3),
        ]
    try:
        words = run("/usr/bin/python3", "-c", BT2, n, options.bt2_events).split()
    except (OSError, subprocess.CalledProcessError):
        print("python3-bt2 is not installed")
    else:
        slow = float(words[0]) / int(words[1])
        fast = medians["stream"] / options.events
        bars.append(("into Arrow / python bt2 -> dict", slow / fast, ">=", 500))
    return bars


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=lambda text: Path(text).resolve())
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=12, help="of one thread and two")
    parser.add_argument("--bt2-events", type=int, default=200_000)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    traces = {}
    for name, factor in (("n", 1), ("10n", 10), ("n_10", 0.1)):
        traces[name] = options.folder / name / "trace"
        if not (traces[name] / "metadata").is_file():
            print(f"making {traces[name]}", flush=True)
            arguments = (options.folder / name, "--events", int(options.events * factor))
            run(sys.executable, "-m", "roslens", "dev", "generate", *arguments, "threads=2")
    n = traces["n"]
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        out = Path(scratch) / "collected"
        medians = rounds(options, n, out)
        bars = against_babeltrace(options, n, medians)
        for label in ("stream", "write"):
            seconds = threads_against_processes(n, Path(scratch), label, max(12, options.turns))
            medians |= {f"{label}, wall, {name}": value for name, value in seconds.items()}
            bars.append((f"two threads / one, {label}", seconds["1"] / seconds["2"], ">=", 1.7))
            most = 2 * seconds["1"] / seconds["both"]
            bars.append((f"  two processes / one: what the machine gives, {label}", most, "", 0))
        bars.append(
            ("1 % of the time / all of it", medians["window"] / medians["read"], "<=", 0.05)
        )
        per = instructions(traces["n_10"], options.events // 10)
        if per is not None:
            bars.append(("instructions per event", per, "<=", 500))
        small, large = (
            median(collect(trace, out, 2, "--events-only")[2] for _ in range(options.rounds))
            for trace in (n, traces["10n"])
        )
        bars.append(("peak memory, MiB, 10 x the trace", large, "<=", 512))
        bars.append(("peak memory of 10 x the trace / of 1 x", large / small, "<=", 1.2))
    for name, value in medians.items():
        print(f"  {name}: {value:.3f} s")
    print(f"{'what':56} {'measured':>10} {'bar':>8}")
    for label, value, sign, bar in bars:
        holds = value <= bar if sign == "<=" else value >= bar
        held = f"{sign:>3} {bar:g}" if sign else ""
        print(f"{label:56} {value:10.3f} {held}{'' if holds else '   MISSED'}")
    if options.json:
        rows = [
            {"what": title.strip(), "measured": value, "bar": f"{sign} {bar:g}" if sign else None}
            for title, value, sign, bar in bars
        ]
        options.json.write_text(json.dumps({"cpu_s": medians, "bars": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
