"""What kills and full disks leave behind: each verb that writes, many times, judged file by file.

    python benchmarks/failures.py [--kills 30] [--sizes 20] [--verbs collect merge ...] [RECORDING]

A verb is first run to its end, for its time and the largest file that it writes. Then it is killed
(SIGKILL) at random times up to that, and run with files limited to random sizes below the largest
(RLIMIT_FSIZE, so no root is needed). What is there afterwards must be whole, or not there.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from roslens.analysis.metrics import read_metrics
from roslens.collectors.collection import NOTE
from roslens.tracing.recording import RoslensError
from roslens.tracing.recording.manifest import read_manifest

SAMPLE = Path(__file__).resolve().parents[1] / "data" / "samples" / "two_process"


@dataclass(frozen=True)
class Verb:
    """A verb that writes: its arguments in a folder with ``run``, and what is wrong there."""

    arguments: list[str]
    wrong: Callable[[Path], list[str]]


def wrong_tables(folder: Path) -> list[str]:
    """Tables that are not as their note says, or that no note tells of."""
    found = []
    for tables in folder.rglob("tables"):
        # What is being made lies in a hidden folder until it is whole.
        if any(part.startswith(".") for part in tables.relative_to(folder).parts):
            continue
        note = tables / NOTE
        if not note.is_file():
            found += [f"{path.name} without a note" for path in tables.glob("*.parquet")]
            continue
        for name, about in json.loads(note.read_text())["files"].items():
            path = tables.parent / name
            digest = about if isinstance(about, str) else about["sha256"]
            if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                found.append(f"{name} is not what the note says")
    return found


def wrong_report(folder: Path) -> list[str]:
    """Pages without an end, and metrics that cannot be read."""
    found = [
        f"{page.name} without an end"
        for page in folder.rglob("*.html")
        if not page.read_bytes().rstrip().endswith(b"</html>")
    ]
    return found + [why for path in folder.rglob("metrics.json") if (why := refused(path))]


def wrong_file(folder: Path) -> list[str]:
    """An output that is not the whole one."""
    path, whole = folder / "out", folder.parent / "whole"
    if not path.exists() or not whole.exists():
        return []
    return [] if path.stat().st_size == whole.stat().st_size else ["out is not whole"]


def wrong_catalog(folder: Path) -> list[str]:
    """A catalog that cannot be read."""
    for path in folder.glob("catalog.parquet"):
        pl.read_parquet(path, glob=False)
    return []


def wrong_manifests(folder: Path) -> list[str]:
    """Manifests that cannot be read."""
    return [why for path in (folder / "new").glob("manifest.json") if (why := refused(path))]


def refused(path: Path) -> str:
    """Why a manifest or the metrics of a report cannot be read; nothing if they can."""
    try:
        (read_manifest if path.name == "manifest.json" else read_metrics)(path)
    except RoslensError as error:
        return str(error)
    return ""


VERBS = {
    "collect": Verb(["collect", "run"], wrong_tables),
    "merge": Verb(["collect", "--merge", "run", "other", "-o", "merged"], wrong_tables),
    "report": Verb(["report", "latency", "run", "-o", "report"], wrong_report),
    "catalog": Verb(["catalog", ".", "--collect"], wrong_catalog),
    "pack": Verb(["pack", "run", "-o", "out"], wrong_file),
    "perfetto": Verb(["export", "--format", "perfetto", "run", "out"], wrong_file),
    "record": Verb(["record", "-o", "new", "--ros", "none", "--", "sleep", "2"], wrong_manifests),
}


def prepared(folder: Path, recording: Path) -> Path:
    """A folder with the recording, twice."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("run", "other"):
        made = shutil.ignore_patterns("events", "tables")
        shutil.copytree(recording, folder / name, ignore=made)
    return folder


def started(
    verb: Verb, folder: Path, size: int = resource.RLIM_INFINITY
) -> subprocess.Popen[bytes]:
    """The verb at work in a folder, its files limited."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return subprocess.Popen(
        [sys.executable, "-m", "roslens", *verb.arguments],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        preexec_fn=limit,  # noqa: PLW1509  (this process has one thread)
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )  # fmt: skip


def main() -> None:
    """Try all of it; a line per verb, exit code 1 where something half-made was there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recording", type=Path, nargs="?")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--sizes", type=int, default=20)
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS))
    options = parser.parse_args()
    recording = options.recording or next(SAMPLE.rglob("manifest.json")).parent
    chance, bad = random.Random(1), 0
    for name in options.verbs:
        verb = VERBS[name]
        with tempfile.TemporaryDirectory() as scratch:
            folder = prepared(Path(scratch) / "work", recording)
            before = {path for path in folder.rglob("*") if path.is_file()}
            begun = time.monotonic()
            if started(verb, folder).wait() != 0:
                print(f"{name}: does not run here")
                continue
            seconds = time.monotonic() - begun
            sizes = [p.stat().st_size for p in folder.rglob("*") if p.is_file() and p not in before]
            if (folder / "out").exists():
                shutil.copyfile(folder / "out", folder.parent / "whole")
            wrong: list[str] = []
            ended = killed = failed = traced = 0
            for _ in range(options.kills):
                process = started(verb, prepared(folder, recording))
                try:
                    process.wait(chance.uniform(0.1, 1) * seconds)
                    ended += 1
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    killed += 1
                wrong += verb.wrong(folder)
            for _ in range(options.sizes):
                limit = chance.randrange(1, max(sizes))
                process = started(verb, prepared(folder, recording), limit)
                said = process.communicate()[1]
                failed += process.returncode != 0
                traced += b"Traceback" in said or process.returncode in {1, 70}
                wrong += verb.wrong(folder)
            bad += len(wrong) + traced
            print(
                f"{name}: {seconds:.1f} s, {killed} killed ({ended} had ended), {failed} of "
                f"{options.sizes} sizes failed, {traced} without one clear line; half-made: "
                f"{len(wrong)} {sorted(set(wrong))[:3]}",
                flush=True,
            )
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
