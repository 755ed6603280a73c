"""What kills and full disks leave behind: each verb that writes, many times, judged file by file.

    python benchmarks/failures.py [--kills 30] [--sizes 20] [--verbs collect merge ...] [RECORDING]

A verb is first run to its end, for its time, its files and the largest of them. Then it is killed
(SIGKILL) at random times before that, and run with files limited to random sizes below the largest
(RLIMIT_FSIZE, so no root is needed), each as often as asked. What is there afterwards must be
whole, or not there; of all processes none may be left after two minutes; and on what the last
kill left, the verb must do its work.
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
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import psutil

import roslens as rl
from roslens.analysis.metrics import read_metrics
from roslens.collectors.collected import NOTE
from roslens.collectors.collection import collect
from roslens.recording import Recording, RoslensError
from roslens.recording.manifest import read_manifest
from roslens.tracing.archive import pack
from roslens.tracing.ros.environment import embedded_ros

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "samples"
INCLUDE = embedded_ros().include
MARK = "ROSLENS_FAILURES"
MESSAGES = 200
TALKER = f"""
import time, rclpy
from std_msgs.msg import String
rclpy.init()
publisher = rclpy.create_node("talker").create_publisher(String, "chatter", 10)
for _ in range({MESSAGES}):
    publisher.publish(String(data="x" * 100))
    time.sleep(0.005)
"""
# What is built when a recorder needs it, as a command.
BUILD = """
import sys
from pathlib import Path
from roslens.cli import app, main
from roslens.tracing.ros.environment import embedded_ros
from roslens.tracing.ros.tracetools import build_stub, build_tracetools
from roslens.tracing.sampling.heap import build_probe

@app.command
def build(include: Path):
    build_tracetools(include)
    build_stub("liblttng-ust.so.0")
    build_probe()

@app.command
def ros():
    embedded_ros()

main(sys.argv[1:])
"""


@dataclass(frozen=True)
class Verb:
    """A verb that writes.

    Attributes
    ----------
    arguments
        Of the command, in a folder as `prepared` makes it; the first may be a program of Python.
    wrong
        What is half-made in a folder, given that of a whole run.
    code
        With which it ends: a verdict may be another than 0.
    again
        Whether it can be run where it was run before.
    """

    arguments: list[str]
    wrong: Callable[[Path, Path], list[str]]
    code: int = 0
    again: bool = True

    @property
    def command(self) -> list[str]:
        """What Python is given after its own options."""
        return self.arguments if self.arguments[0] == BUILD else ["roslens", *self.arguments]


def wrong_tables(folder: Path, _: Path) -> list[str]:
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
            if not path.is_file() or sha256(path) != about["sha256"]:
                found.append(f"{name} is not what the note says")
    return found


def wrong_report(folder: Path, _: Path) -> list[str]:
    """Pages without an end, and metrics that cannot be read."""
    found = [
        f"{page.name} without an end"
        for page in folder.rglob("*.html")
        if not page.read_bytes().rstrip().endswith(b"</html>")
    ]
    return found + [why for path in folder.rglob("metrics.json") if (why := refused(path))]


def wrong_files(folder: Path, whole: Path) -> list[str]:
    """Files that are not those of a whole run, to the byte; pictures to their last bytes."""
    found = []
    for path in (*folder.glob("out*"), *folder.glob("*.html")):
        same = whole / path.relative_to(folder)
        if path.suffix == ".svg":  # which tells when it was drawn
            ended = path.read_bytes().rstrip().endswith(b"</svg>")
        else:
            ended = same.is_file() and sha256(path) == sha256(same)
        found += [] if ended else [f"{path.name} is not whole"]
    return found


def wrong_dataset(folder: Path, whole: Path) -> list[str]:
    """Files of a dataset that are not the tables of its recordings, to the byte."""
    tables = {sha256(path) for path in folder.glob("*/tables/*.parquet")}
    return wrong_catalog(folder, whole) + [
        f"{path.parent} is not whole"
        for path in (folder / "dataset").rglob("*.parquet")
        if sha256(path) not in tables
    ]


def wrong_unpacked(folder: Path, whole: Path) -> list[str]:
    """A folder without all the files that were packed, as they were."""
    made = [path for path in (folder / "unpacked").glob("*") if not path.name.startswith(".")]
    wanted = {path.relative_to(whole): sha256(path) for path in files(whole / "unpacked")}
    found = {path.relative_to(folder): sha256(path) for one in made for path in files(one)}
    return [] if not made or found == wanted else ["unpacked is not whole"]


def wrong_catalog(folder: Path, _: Path) -> list[str]:
    """A catalog that cannot be read."""
    for path in folder.glob("catalog.parquet"):
        pl.read_parquet(path, glob=False)
    return wrong_tables(folder, folder)


def wrong_recording(folder: Path, _: Path) -> list[str]:
    """A manifest that cannot be read, or a complete run without every message or word of a loss."""
    path = folder / "new" / "manifest.json"
    if not path.is_file():
        return []
    if why := refused(path):
        return [why]
    manifest = read_manifest(path)
    if manifest.status != "complete":
        return []
    opened = rl.open(path.parent)
    if any(loss.any for loss in opened.tracer_loss):
        return []
    published = opened.publications.filter(pl.col("topic") == "/chatter").collect().height
    return [] if published == MESSAGES else [f"complete with {published} of {MESSAGES} messages"]


def wrong_libraries(folder: Path, whole: Path) -> list[str]:
    """Libraries that are not those of a whole run; what a compiler writes lies apart until then."""
    return [
        f"{path.name} is not whole"
        for path in (folder / "cache").rglob("*.so*")
        if not any(part.startswith("tmp") for part in path.relative_to(folder).parts)
        and sha256(path) != sha256(whole / path.relative_to(folder))
    ]


def wrong_ros(folder: Path, whole: Path) -> list[str]:
    """An environment that is said to be whole, without some of its files."""
    found = []
    for marker in (folder / "cache" / "ros").glob("*/roslens-complete"):
        same = whole / marker.parent.relative_to(folder)
        wanted = {path.relative_to(whole) for path in files(same)}
        there = {path.relative_to(folder) for path in files(marker.parent)}
        found += [f"ros is without {path.name}" for path in sorted(wanted - there)[:1]]
    return found


def sha256(path: Path) -> str:
    """The digest of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def files(folder: Path) -> list[Path]:
    """All files below a folder."""
    return [path for path in folder.rglob("*") if path.is_file()]


def refused(path: Path) -> str:
    """Why a manifest or the metrics of a report cannot be read; nothing if they can."""
    try:
        (read_manifest if path.name == "manifest.json" else read_metrics)(path)
    except RoslensError as error:
        return str(error)
    return ""


FORMATS = ("perfetto", "dot", "mermaid", "hgrm", "hlog", "mcap", "otlp")
VERBS = {
    "record": Verb(
        ["record", "-o", "new", "--", "python3", "talker.py"], wrong_recording, again=False
    ),
    "collect": Verb(["collect", "--force", "run"], wrong_tables),
    "over": Verb(["collect", "run", "-o", "another"], wrong_tables),
    "merge": Verb(["collect", "--merge", "host1", "host2", "-o", "merged"], wrong_tables),
    "report": Verb(["report", "latency", "run", "-o", "report"], wrong_report),
    "index": Verb(["index", "."], wrong_files),
    "build": Verb([BUILD, "build", "include"], wrong_libraries),
    "ros": Verb([BUILD, "ros"], wrong_ros),
    "pack": Verb(["pack", "run", "-o", "out"], wrong_files, again=False),
    "unpack": Verb(["unpack", "packed", "unpacked"], wrong_unpacked, again=False),
    "catalog": Verb(["catalog", ".", "--collect"], wrong_catalog),
    "dataset": Verb(["catalog", ".", "--collect", "--dataset", "dataset"], wrong_dataset),
    "events": Verb(["events", "run", "-o", "out.csv"], wrong_files),
    "csv": Verb(["export", "--format", "csv", "--table", "messages", "run", "out"], wrong_files),
    **{form: Verb(["export", "--format", form, "run", "out"], wrong_files) for form in FORMATS},
    "compare": Verb(
        ["compare", "run", "other", "--json", "out.json", "--plot", "out.svg"], wrong_files, 3
    ),
    "check": Verb(["check", "budgets.yaml", "run", "--json", "out.json"], wrong_files, 3),
    "schema": Verb(["schema", "-o", "out.md"], wrong_files),
}


def prepared(folder: Path, recording: Path) -> Path:
    """A folder with the recording, twice, packed, and what else the verbs are given."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("run", "other"):
        made = shutil.ignore_patterns("events", "tables")
        shutil.copytree(recording, folder / name, ignore=made)
    # Where tables of another recording lie.
    shutil.copytree(folder.parent / "another", folder / "another")
    for host in ("host1", "host2"):
        shutil.copytree(recording / "trace", folder / host)
    (folder / "talker.py").write_text(TALKER)
    (folder / "budgets.yaml").write_text("budgets: ['latency_p99 < 50 ms']")
    (folder / "include").symlink_to(INCLUDE)
    pack([folder / "run"], folder / "packed")
    for page in ("one", "two"):
        (folder / page).mkdir()
        (folder / page / "latency.ipynb").write_text("{}")
        (folder / page / "latency.html").write_text("<html></html>")
    return folder


def started(
    verb: Verb, folder: Path, size: int = resource.RLIM_INFINITY
) -> subprocess.Popen[bytes]:
    """The verb at work in a folder, its files limited; all that it starts has the mark."""
    temporary = folder.parent / "tmp"
    temporary.mkdir(exist_ok=True)
    (folder / "cache").mkdir(mode=0o700, exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if k != "XDG_RUNTIME_DIR"}
    environment |= {"PYTHONWARNINGS": "ignore", "TMPDIR": str(temporary), MARK: str(folder)}
    if verb.arguments[0] == BUILD:
        # Not links to what was fetched before, which no full disk hinders.
        environment |= {"ROSLENS_CACHE": str(folder / "cache"), "UV_LINK_MODE": "copy"}

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    return subprocess.Popen(
        [sys.executable, "-P", "-c" if verb.arguments[0] == BUILD else "-m", *verb.command],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment,
        preexec_fn=limit,  # noqa: PLW1509  (this process has one thread)
    )  # fmt: skip


def left_over(folder: Path) -> list[str]:
    """Names of the processes that are still there after two minutes; they are ended."""

    def alive() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == str(folder):
                    found.append(process)
        return found

    deadline = time.monotonic() + 120
    while (found := alive()) and time.monotonic() < deadline:
        time.sleep(0.1)
    names = [f"{process.name()} is left" for process in found]
    for process in found:
        process.kill()
    return names


def tried(name: str, recording: Path, kills: int, sizes: int, chance: random.Random) -> int:
    """Try a verb; how often something was wrong, and a line about it."""
    verb, wrong = VERBS[name], []
    with tempfile.TemporaryDirectory(prefix="rl-") as scratch:
        folder, whole = Path(scratch) / "work", Path(scratch) / "whole"
        other = next((SAMPLES / "lifecycle").rglob("manifest.json")).parent
        collect(Recording.at(other, Path(scratch) / "another"))
        before = {(x, x.stat().st_mtime_ns) for x in files(prepared(folder, recording))}
        begun = time.monotonic()
        done = started(verb, folder)
        said = done.communicate()[1]
        seconds = time.monotonic() - begun
        if done.returncode != verb.code:
            print(f"{name}: does not run here: {said.decode()}", flush=True)
            return 1
        written = {(x, x.stat().st_mtime_ns) for x in files(folder)} - before
        largest = max(x.stat().st_size for x, _ in written)
        shutil.copytree(folder, whole, symlinks=True)
        killed = failed = unclear = 0
        while killed < kills:
            process = started(verb, prepared(folder, recording))
            try:
                process.communicate(timeout=chance.uniform(0, 1) * seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                killed += 1
            wrong += [*left_over(folder), *verb.wrong(folder, whole)]
        if verb.again and kills:
            process = started(verb, folder)
            said = process.communicate()[1]
            if process.returncode != verb.code:
                wrong.append(f"cannot go on: {said.decode()}")
            wrong += verb.wrong(folder, whole)
        for _ in range(3 * sizes):
            process = started(verb, prepared(folder, recording), chance.randrange(1, largest))
            said = process.communicate()[1].decode()
            failed += process.returncode != verb.code
            if "Traceback" in said or process.returncode not in {verb.code, 2, 4}:
                unclear += 1
                print(f"  {process.returncode}: {said[-300:]}")
            wrong += [*left_over(folder), *verb.wrong(folder, whole)]
            if failed == sizes:
                break
    print(
        f"{name}: {seconds:.1f} s, {killed} kills, {failed} sizes up to {largest:,} B failed, "
        f"{unclear} without one clear line; half-made or left: {len(wrong)} "
        f"{sorted(set(wrong))[:3]}",
        flush=True,
    )
    return len(wrong) + unclear


def main() -> None:
    """Try all of it; a line per verb, exit code 1 where something half-made was there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recording", type=Path, nargs="?")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--sizes", type=int, default=20)
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS))
    options = parser.parse_args()
    recording = options.recording or next((SAMPLES / "two_process").rglob("manifest.json")).parent
    chance = random.Random(1)
    bad = [tried(x, recording, options.kills, options.sizes, chance) for x in options.verbs]
    sys.exit(any(bad))


if __name__ == "__main__":
    main()
