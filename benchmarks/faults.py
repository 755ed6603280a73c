"""Faults injected into collections: whatever happens, no table may read wrong.

Each trial starts from an output folder that is empty, holds a whole collection of another trace,
or an up-to-date one with a damaged file. A collection begins, and a fault strikes at a random
moment: SIGKILL, a full disk (a small tmpfs; where none can be mounted, a limit on file sizes), or
the loss of the permission to write. Afterwards

* ``tables/`` must be absent, or all as before, or all as the undisturbed collection makes it;
* every file of events must be one of these two;
* the collector must have said what happened in one line (unless it was killed);
* the next collection must end with exactly the undisturbed one's files.

    python benchmarks/faults.py --trials 200
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import multiprocessing
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from roslens.collectors.collected import NOTE
from roslens.collectors.collection import collect
from roslens.recording import Recording, RoslensError

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "data" / "samples"
FAULTS = ("kill", "space", "permission")
STARTS = ("empty", "another", "damaged")
Digests = dict[str, str]

_CAPABILITY_VERSION_3 = 0x20080522


def digests(output: Path) -> Digests:
    """Of every Parquet file that a reader would find."""
    return {
        path.relative_to(output).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in ("events", "tables")
        for path in (output / part).rglob("*.parquet")
    }


def collect_in_child(
    where: tuple[str, str], fault: str, file_bytes: int | None, told: Connection
) -> None:
    """What the child does: collect, then tell how it ended."""
    path, output = where
    if fault == "permission":
        drop_capabilities()
    if file_bytes is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    told.send("begun")
    try:
        collect(Recording.at(Path(path), Path(output)), threads=1)
    except RoslensError as error:
        told.send(f"refused: {error}" if "\n" not in str(error) else f"SEVERAL LINES: {error}")
    except BaseException as error:  # noqa: BLE001
        told.send(f"TRACEBACK: {type(error).__name__}: {error}")
    else:
        told.send("done")


def drop_capabilities() -> None:
    """Have root obey permissions as everybody does."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    if os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).capset(
        header, (ctypes.c_uint32 * 6)()
    ):
        raise OSError(ctypes.get_errno(), "capset")


def set_writable(output: Path, writable: bool) -> None:
    """Give or take the permission to write to a folder and all below it."""
    for folder, _, names in os.walk(output):
        for path in (Path(folder), *(Path(folder) / name for name in names)):
            try:
                path.chmod((0o755 if path.is_dir() else 0o644) if writable else 0o555)
            except OSError:
                continue


@dataclass
class Bench:
    """What all trials share."""

    folder: Path
    random: random.Random
    can_mount: bool

    def __post_init__(self) -> None:
        self.run, another = self.folder / "run", self.folder / "another"
        for suite, target in (("two_process", self.run), ("lifecycle", another)):
            source = next((SAMPLES / suite).glob("*/manifest.json")).parent
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("events", "tables"))
        self.stored = {name: self.folder / f"of_{name}" for name in ("run", "another")}
        begin = time.monotonic()
        collect(Recording.at(self.run, self.stored["run"]), threads=1)
        self.seconds = time.monotonic() - begin
        collect(Recording.at(another, self.stored["another"]), threads=1)
        self.digests = {name: digests(path) for name, path in self.stored.items()}
        self.bytes = {
            name: sum(-(-f.stat().st_size // 4096) * 4096 for f in path.rglob("*") if f.is_file())
            for name, path in self.stored.items()
        }
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(
            [
                "roslens.collectors.collection",
                "roslens.collectors.reader",
                "roslens.collectors.ros2",
            ]
        )

    def prepare(self, start: str, output: Path) -> Digests:
        """Make what lies there before; the digests of what may be left of it."""
        if start == "empty":
            return {}
        source = self.stored["another" if start == "another" else "run"]
        shutil.copytree(source, output, dirs_exist_ok=True)
        if start == "damaged":
            victim = self.random.choice(sorted(output.rglob("*.parquet")))
            content = bytearray(victim.read_bytes())
            if self.random.random() < 0.5:
                del content[self.random.randrange(len(content)) :]
            else:
                content[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
            victim.write_bytes(content)
        return digests(output)

    def trial(self, number: int, fault: str, start: str) -> tuple[str, list[str]]:
        """One trial: how the collector ended, and what was wrong."""
        output = self.folder / f"out{number}"
        output.mkdir()
        room = None
        if fault == "space":
            # Room for what lies there, and for a part of what comes.
            room = int(self.bytes["run"] * self.random.uniform(0.0, 1.3)) + 65536
            if self.can_mount:
                there = {"empty": 0, "another": self.bytes["another"]}.get(start, self.bytes["run"])
                more = room + there
                mount = ["mount", "-t", "tmpfs", "-o", f"size={more}", "tmpfs", str(output)]
                subprocess.run(mount, check=True)
        try:
            before = self.prepare(start, output)
            file_bytes = room // 40 if room is not None and not self.can_mount else None
            ended = self.disturb(output, fault, file_bytes)
            wrong = self.judge(output, before, self.digests["run"])
            if ended.startswith(("TRACEBACK", "SEVERAL")):
                wrong.append(ended)
            if fault == "space" and self.can_mount:
                subprocess.run(["mount", "-o", "remount,size=1g", str(output)], check=True)
            collect(Recording.at(self.run, output), threads=1)
            if digests(output) != self.digests["run"]:
                wrong.append("the next collection gave other files")
            if left := [path.name for path in output.iterdir() if path.name.startswith(".")]:
                wrong.append(f"left behind: {left}")
        finally:
            if fault == "space" and self.can_mount:
                subprocess.run(["umount", "--lazy", str(output)], check=True)
            shutil.rmtree(output, ignore_errors=True)
        return ended.split(":")[0], wrong

    def disturb(self, output: Path, fault: str, file_bytes: int | None) -> str:
        """Collect, with the fault at a random moment; how the collector ended."""
        told, tells = self.context.Pipe(duplex=False)
        child = self.context.Process(
            target=collect_in_child,
            args=((str(self.run), str(output)), fault, file_bytes, tells),
        )
        child.start()
        tells.close()
        told.recv()
        if fault != "space":
            time.sleep(self.random.uniform(0, 1.1 * self.seconds))
        if fault == "kill":
            child.kill()
        elif fault == "permission":
            set_writable(output, writable=False)
        try:
            ended = told.recv()
        except EOFError:
            ended = "killed"
        child.join()
        set_writable(output, writable=True)
        if ended == "killed" and child.exitcode != -signal.SIGKILL:
            return f"TRACEBACK: the collector died of {child.exitcode}"
        return ended

    def judge(self, output: Path, before: Digests, right: Digests) -> list[str]:
        """What a reader would now read wrong."""
        found = digests(output)
        tables = {name: digest for name, digest in found.items() if name.startswith("tables/")}
        wanted = [
            {name: digest for name, digest in all_.items() if name.startswith("tables/")}
            for all_ in ({}, before, right)
        ]
        wrong = [] if tables in wanted else ["a mixture of tables"]
        if tables and not (output / "tables" / NOTE).is_file():
            wrong.append("tables without their note")
        wrong += [
            f"{name} is of no collection"
            for name, digest in found.items()
            if digest not in (before.get(name), right.get(name))
        ]
        return wrong


def can_mount(folder: Path) -> bool:
    """Whether this user may mount a tmpfs."""
    place = folder / "mount"
    place.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if done.returncode == 0:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    failures = 0
    ends: Counter[tuple[str, str]] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bench = Bench(folder, random.Random(options.seed), can_mount(folder))
        print(f"a full disk is {'a small tmpfs' if bench.can_mount else 'a limit on file sizes'}")
        for number in range(options.trials):
            fault = FAULTS[number % len(FAULTS)]
            start = STARTS[number // len(FAULTS) % len(STARTS)]
            ended, wrong = bench.trial(number, fault, start)
            ends[fault, ended] += 1
            for line in wrong:
                print(f"trial {number} ({fault}, {start}): {line}", flush=True)
            failures += bool(wrong)
    for (fault, ended), count in sorted(ends.items()):
        print(f"{fault}: {ended}: {count}")
    print(f"{options.trials} trials, {failures} with a table that reads wrong or no clear end")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
