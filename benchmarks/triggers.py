"""When triggers hit, against the logs of programs that do what they are about.

``python benchmarks/triggers.py [--programs N]`` starts N programs that call the native tracer as
rclcpp does. Each falls silent for 4 s, hangs for 2 s in a callback, computes for 8 s, allocates
4 MB/s for 5 s and dies, each at a time of its own that it writes down, while ``roslens watch``
waits for all of this. If others use the machine, ``nice -n -19`` helps; a real-time policy does
not, as computing programs then take turns of 0.1 s, and for seconds neither the others nor the
sampler run. Printed is the delay from that time to the time at which a trigger says that it hit;
for CPU, the delay from the time at which the program's own clock shows that it used a tenth of a
CPU over the window. A hit at another time is false, except within 5 s of a time at which the
program says that it was kept from running. For each snapshot, the output states whether it holds
the 10 s before its hits: exactly what the program published then by its own log.
"""

from __future__ import annotations

import argparse
import bisect
import ctypes
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import polars as pl

from roslens.collectors.reader import open_trace
from roslens.recording import find_recordings, read_manifest
from roslens.tracing.native_tracer.library import native_library

WINDOW_S = 2
HZ = 160
BUSY = 0.1
# Kind, text, and the delay in s from the time written down until the condition holds: for
# conditions with a window, at least and at most.
KINDS = {
    "silence": ("silence of /n{0} > 2 s", 2.0, 2.0),
    "deadline": ("deadline of /n{0} -> /t{0} -> /n{0} > 1 s", 1.0, 1.0),
    "cpu": (f"cpu of /n{{0}} > {100 * BUSY:g} %", 0.0, 0.0),
    "memory": ("memory of /n{0} > 1 MB/s", 0.0, WINDOW_S),
    "process": ("process of /n{0} died", 0.0, 0.0),
}


class Program:
    """One of the programs; it prints what it does as JSON, one line each."""

    def __init__(self, number: int, library: str) -> None:
        self.number = number
        self._tracer = ctypes.CDLL(library)
        self._random = random.Random(number)
        self._due = time.time()
        self._clocks: list[tuple[float, float]] = []
        self._stamps: list[int] = []
        pointers = [ctypes.c_void_p(address) for address in range(0x10, 0x1A)]
        context, node, rmw, pub, rmw_pub, sub, rmw_sub, held, callback, message = pointers
        self._publisher = (pub, rmw_pub, message)
        self._subscription = (rmw_sub, callback)
        topic, depth = f"/t{number}".encode(), ctypes.c_size_t(10)
        gids = [
            ctypes.create_string_buffer(bytes([number, byte] + [0] * 22), 24) for byte in (1, 2)
        ]
        self._emit("rcl_init", context)
        self._emit("rcl_node_init", node, rmw, f"n{number}".encode(), b"/")
        self._emit("rmw_publisher_init", rmw_pub, gids[0])
        self._emit("rcl_publisher_init", pub, node, rmw_pub, topic, depth)
        self._emit("rmw_subscription_init", rmw_sub, gids[1])
        self._emit("rcl_subscription_init", sub, node, rmw_sub, topic, depth)
        self._emit("rclcpp_subscription_init", sub, held)
        self._emit("rclcpp_subscription_callback_added", held, callback)
        self._emit("rclcpp_callback_register", callback, b"heard")

    def _emit(self, name: str, *values: object) -> None:
        getattr(self._tracer, f"ros_trace_{name}")(*values)

    def _turn(self, hang: float = 0) -> None:
        if time.time() > self._due + 0.3:
            self.says("stall")
            self._due = time.time()
        self._clocks.append((time.time(), time.process_time()))
        self._due += 1 / HZ
        time.sleep(max(0.0, self._due - time.time()))
        pub, rmw_pub, message = self._publisher
        rmw_sub, callback = self._subscription
        self._emit("rclcpp_publish", pub, message)
        self._emit("rcl_publish", pub, message)
        self._stamps.append(time.time_ns())
        stamp = ctypes.c_int64(self._stamps[-1])
        self._emit("rmw_publish", rmw_pub, message, stamp)
        time.sleep(1e-3 * self._random.uniform(0.8, 1.2))
        self._emit("rmw_take", rmw_sub, message, stamp, ctypes.c_bool(True))
        self._emit("rcl_take", message)
        self._emit("rclcpp_take", message)
        self._emit("callback_start", callback, ctypes.c_bool(False))
        time.sleep(hang)
        self._emit("callback_end", callback)

    def turns(self, least: float, most: float) -> None:
        """Publish and receive for a random time between `least` and `most` seconds."""
        self._due = time.time()
        until = time.time() + self._random.uniform(least, most)
        while time.time() < until:
            self._turn()

    def says(self, kind: str, at: float | None = None) -> None:
        """Print that something begins, now or at a given time."""
        record = {"number": self.number, "kind": kind, "at": at or time.time()}
        print(json.dumps(record), flush=True)

    def _compute(self) -> None:
        """Print when the process used a tenth of a CPU over the window, by its own clock."""
        begun = time.time()
        while time.time() < begun + 8:
            if time.time() > self._clocks[-1][0] + 0.02:
                self._clocks.append((time.time(), time.process_time()))
        times, used = zip(*self._clocks, strict=True)
        held, kind = False, "cpu"
        for at, now in self._clocks:
            then = bisect.bisect_right(times, at - WINDOW_S) - 1
            holds = then >= 0 and now - used[then] > BUSY * (at - times[then])
            if holds and not held and at > begun:
                self.says(kind, at)
                # Later crossings occur when other processes took the CPU in between.
                kind = "stall"
            held = holds

    def run(self) -> None:
        """Run the whole sequence."""
        self.turns(30, 40)
        self.says("silence")
        time.sleep(4)
        self.turns(5, 10)
        self.says("deadline")
        self._turn(hang=2)
        self.turns(5, 15)
        self._compute()
        self.turns(5, 10)
        self.says("memory")
        begun, leaked = time.time(), [b""]
        while len(leaked) <= 50:
            # Allocate as many as are due, however rarely the loop runs.
            while len(leaked) <= 10 * (time.time() - begun):
                leaked.append(os.urandom(1) * 400_000)
            self._turn()
        self.turns(5, 10)
        stamps_of(Path(os.environ["ROSLENS_TRACE_FOLDER"]), self.number).write_text(
            json.dumps(self._stamps)
        )
        self.says("process")
        os.kill(os.getpid(), signal.SIGKILL)


def stamps_of(folder: Path, number: int) -> Path:
    """Return the file in which a program leaves the times of its publications."""
    return folder.with_name(f"stamps{number}.json")


def is_complete(snapshot: Path, at_ns: int, pid: int, stamps: list[int]) -> bool:
    """Return whether a snapshot has all that a program published in the 10 s before a hit."""
    published = open_trace(snapshot).read(["ros2:rmw_publish"])["ros2:rmw_publish"]
    recorded = published.filter(pl.col("vpid") == pid)["timestamp"].sort().to_list()
    first = at_ns - 10_000_000_000
    return [stamp for stamp in recorded if first <= stamp <= at_ns] == [
        stamp for stamp in stamps if first <= stamp <= at_ns
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=10)
    parser.add_argument("--number", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    library = str(native_library("kilted"))
    if options.number is not None:
        Program(options.number, library).run()
        return
    numbers = range(options.programs)
    with tempfile.TemporaryDirectory() as scratch:
        folder, triggers = Path(scratch) / "trace", Path(scratch) / "triggers.yaml"
        folder.mkdir(mode=0o700)
        texts = {text.format(k): (kind, k) for kind, (text, *_) in KINDS.items() for k in numbers}
        triggers.write_text(
            json.dumps({"window_s": WINDOW_S, "cooldown_s": 0, "triggers": list(texts)})
        )
        environment = {**os.environ, "LD_PRELOAD": library, "ROSLENS_TRACE_FOLDER": str(folder)}
        environment["ROSLENS_TRACE_FLIGHT"] = "30"
        programs = [
            subprocess.Popen([sys.executable, __file__, "--number", str(k)], env=environment,
                             stdout=subprocess.PIPE, text=True) for k in numbers
        ]  # fmt: skip
        time.sleep(10)
        watching = subprocess.Popen(
            [sys.executable, "-P", "-m", "roslens", "watch", str(folder), "--json", "--triggers",
             str(triggers), "-o", f"{scratch}/made"], stdout=(Path(scratch) / "said").open("w"),
        )  # fmt: skip
        done = [
            json.loads(line)
            for program in programs
            for line in program.communicate()[0].splitlines()
        ]
        time.sleep(15)
        watching.terminate()
        watching.wait()
        reports = [json.loads(line) for line in (Path(scratch) / "said").read_text().splitlines()]
        stamps = [json.loads(stamps_of(folder, k).read_text()) for k in numbers]
        held = [
            is_complete(recording.path, hit.at_ns, programs[k].pid, stamps[k])
            for recording in find_recordings(Path(scratch) / "made")
            for hit in read_manifest(recording.path / "manifest.json").triggered
            for k in (texts[hit.trigger][1],)
        ]
    hits = [hit for moment in reports for hit in moment["triggered"]]
    # Hits near other actions of a program, or times it was kept from running, are not false.
    moments = {k: [entry["at"] for entry in done if entry["number"] == k] for k in numbers}
    for kind, (_, least, most) in KINDS.items():
        expected = {entry["number"]: entry["at"] for entry in done if entry["kind"] == kind}
        late, false = {}, 0
        for hit in hits:
            hit_kind, number = texts[hit["trigger"]]
            if hit_kind != kind:
                continue
            off = hit["at_ns"] / 1e9 - expected.get(number, -math.inf)
            if number not in late and least - 1 <= off <= most + 1:
                late[number] = off
            else:
                false += not any(abs(hit["at_ns"] / 1e9 - moment) < 5 for moment in moments[number])
        offs = [
            (texts[hit["trigger"]][1], hit["at_ns"] / 1e9 - expected[texts[hit["trigger"]][1]])
            for hit in hits
            if texts[hit["trigger"]][0] == kind and texts[hit["trigger"]][1] in expected
        ]
        missed = sorted(
            round(min((off for k, off in offs if k == number), key=abs, default=math.nan), 2)
            for number in expected.keys() - late.keys()
        )
        middle = f"{statistics.median(late.values()):.2f}" if late else "-"
        lies = f"{min(late.values(), default=0):.2f} to {max(late.values(), default=0):.2f}"
        print(
            f"{kind:10}{len(late)} of {len(expected)} hit {least:g} to {most:g} s (to within 1 s) "
            f"after: median {middle} s, {lies} s; {false} false"
            + (f"; nearest of the others: {missed}" if missed else ""),
            flush=True,
        )
    print(f"{sum(held)} of {len(hits)} hits have a snapshot with all of the 10 s before")


if __name__ == "__main__":
    main()
