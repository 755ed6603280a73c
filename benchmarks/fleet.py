"""Many recordings: workers against one process, corrupt recordings, a killed worker.

Makes copies of the samples with other campaigns, start times and commits in FOLDER, and measures

* ``roslens collect`` with 2 workers against one process with ``--threads 1`` (wall and CPU time;
  files must be the same);
* the same with ten corrupt recordings and a worker killed meanwhile: all others complete, and
  each corrupt one is one line.

    python benchmarks/fleet.py FOLDER [--recordings 200]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = ROOT / "data" / "samples"
DAY_NS = 86_400 * 10**9
MADE = shutil.ignore_patterns("events", "tables")


def make(folder: Path, count: int) -> list[Path]:
    """Copies of the small samples, one night each."""
    sources = [path.parent for path in sorted(SAMPLES.glob("*/*/manifest.json"))]
    runs = []
    for number in range(count):
        source = sources[number % len(sources)]
        run = folder / f"night{number:04d}" / source.name
        shutil.copytree(source, run, ignore=MADE)
        manifest = json.loads((run / "manifest.json").read_text())
        manifest["campaign"] = run.parent.name
        shift = number * DAY_NS
        for key in ("start_ns", "end_ns"):
            if manifest.get(key) is not None:
                manifest[key] += shift
        if "environment" in manifest:
            commit = hashlib.sha1(str(number // 20).encode()).hexdigest()
            manifest["environment"]["git_commit"] = commit
        (run / "manifest.json").write_text(json.dumps(manifest))
        runs.append(run)
    return runs


def corrupt(run: Path, how: int) -> None:
    """Make a recording that cannot be collected, in one of several ways."""
    metadata = next(run.rglob("metadata"))
    content = metadata.read_bytes()
    match how % 4:
        case 0:
            metadata.write_bytes(content[: len(content) // 2])
        case 1:
            metadata.write_bytes(b"")
        case 2:
            metadata.write_bytes(random.Random(how).randbytes(len(content)))
        case _:
            (run / "manifest.json").write_text('{"schema_version": 1, "suite"')


def collect(runs: Path, out: Path, *options: str, kill: bool = False) -> tuple[float, float, str]:
    """Collect copies of all; wall and CPU seconds, and what was printed."""
    shutil.copytree(runs, out, ignore=MADE)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "roslens", "collect", str(out), *options],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if kill:
        kill_worker(process, out)
    printed, _ = process.communicate()
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, f"exit {process.returncode}\n{printed}"


def kill_worker(process: subprocess.Popen[str], out: Path) -> None:
    """Kill one of the workers once some recordings are done."""
    while process.poll() is None and len(list(out.glob("*/*/tables"))) < 5:
        time.sleep(0.05)
    for child in psutil.Process(process.pid).children(recursive=True):
        if "spawn_main" in " ".join(child.cmdline()):
            print(f"killed worker {child.pid}", flush=True)
            child.kill()
            return
    print("no worker found to kill")


def digests(out: Path) -> dict[str, str]:
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in out.rglob("*.parquet")
        if path.parent.name == "tables" or "events" in path.parts
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--recordings", type=int, default=200)
    options = parser.parse_args()
    folder: Path = options.folder
    runs = make(folder / "runs", options.recordings)
    wall = {}
    for name, arguments in (("serial", ["--threads", "1"]), ("workers", ["--workers", "2"])):
        wall[name], cpu, said = collect(folder / "runs", folder / name, *arguments)
        print(f"{name}: {wall[name]:.1f} s, {cpu:.1f} s of CPU, {said.splitlines()[0]}", flush=True)
    same = digests(folder / "serial") == digests(folder / "workers")
    print(f"2 workers are {wall['serial'] / wall['workers']:.2f} x; same files: {same}")
    bad = random.Random(1).sample(runs, min(10, len(runs) // 2))
    for how, run in enumerate(bad):
        corrupt(run, how)
    _, _, said = collect(folder / "runs", folder / "hostile", "--workers", "2", kill=True)
    failed = [line for line in said.splitlines() if line.startswith("failed:")]
    complete = len(list((folder / "hostile").glob("*/*/tables/collected.json")))
    print("\n".join(failed))
    print(f"{said.splitlines()[0]}: {complete} complete, {len(failed)} reported in a line each")
    return 0 if same and complete == len(runs) - len(bad) and len(failed) == len(bad) else 1


if __name__ == "__main__":
    sys.exit(main())
