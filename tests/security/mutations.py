"""Files of other programs, mutated at random, and read: each read ends with a result or one line.

    python tests/security/mutations.py [--mutations 2000 | --minutes 60] [--seed 1] [NAME ...]

Every reader of `collectors/results` and of the published studies, and those of manifests, plans,
suites, budgets, triggers, metrics.json, stored results of simulations, packed recordings, of what
the samplers wrote, of bags, of other recorders' kernel traces and of tables. Seeds are whole files,
made by the tests of each format or taken from the samples. A read that raises anything but
`RoslensError` (a traceback, and exit code 70 of a verb), refuses with exit code 1, takes more CPU
time than `SECONDS` or more memory than `BYTES` beyond what was used before, or leaves a file behind
is a failure, and its mutant is kept.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import math
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any
from unittest import mock

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from rich.console import Console
from tests.ctf import test_ctf2_drafts as drafts
from tests.micro_ros import test_results as micro_ros
from tests.results import test_tool_report as tools
from tests.security.foreign_targets import FOREIGN, RUN, TRIGGERS, Target, file
from tests.storage import storage_cells
from tests.storage import test_recorder as storage

from roslens.analysis.calibration.results import from_csv
from roslens.analysis.estimate import Metric
from roslens.analysis.metrics import Metrics, write_metrics
from roslens.analysis.statistics.fractions import fraction_over_runs
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.analysis.verdicts.budgets import check_budgets, read_budgets
from roslens.analysis.verdicts.comparison import compare_sides
from roslens.check import checks_table
from roslens.check import summary as check_summary
from roslens.collectors.reader import open_trace
from roslens.collectors.results.logged_messages import read_logged_messages
from roslens.compare_shown import comparison_table, summary
from roslens.live.triggers import read_triggers
from roslens.recording import RoslensError
from roslens.recording.manifest import read_manifest
from roslens.recordings import open_recordings
from roslens.sides import load_side
from roslens.studies.communication.results import read_study
from roslens.studies.micro_ros.results.folder import read_all
from roslens.studies.micro_ros.results.published import read_published
from roslens.studies.storage.results.comparison import read_digests
from roslens.studies.storage.results.runs import SCHEMA as RECOVERY
from roslens.studies.storage.results.runs import (
    read_recorder,
    read_recovery,
    read_storage_run,
)
from roslens.tracing.plan import Plan, plan_runs, read_plan, write_plan
from roslens.tracing.suite import load_suite, suite_path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"
SECONDS, BYTES = 20.0, 1 << 30
TOKENS = (
    b"-1", b"0", b"9" * 20, b"9" * 400, b"9" * 5000, b"1e308", b"1e999", b"nan", b"inf", b"-",
    b",", b'"', b"\n", b"\r\n", b"\t", b"\x00", b"\xff", b"\xed\xa0\x80", b"{", b"[",
    b"[" * 5000, b"null", b"true", b"\xef\xbc\x91", b"0x10", b"1_0", b": ", b"- ", b"&a ", b"*a",
    b"!!python/name:os.system", b"\x1b[2J", b"../../x", b"4294967296", b"18446744073709551616",
    b" ", b"''", "\u00e9\u202e\U0001f916".encode(),
)  # fmt: skip
ODD: list[Any] = [
    None, True, -1, 0, 1e308, float("nan"), float("inf"), 10**400, "", "x", "\ud800", "1e999",
    [], {}, [[]], {"a": {"b": []}}, "2024-99-99", "\x1b[2J", 1 << 63,
]  # fmt: skip
KEPT = "cache"
CAPTURES = {
    "can.log": "(10.0) can0 123#DEADBEEF\n(10.5) can0 123##1AABBCC\n(11.0) can1 1ABCDEF0#R\n",
    "ip.log": "10.000000 IP 10.0.0.1.7400 > 10.0.0.2.8888: UDP, length 42\n",
    "serial.log": "10.0 TX 01 02 0a\n10.1 RX 7e\n10.2 TX 01 02 0a ff\n",
}


BUDGETS = """budgets:
- latency_p99 < 50 ms
- loss < 0.1 %
- budget: cpu < 1 core
  where: {executor: events}
- memory_slope < 1 kB/s
"""


def copied(source: Path, *names: str) -> Callable[[Path], Path]:
    """Return a function that copies a file, or a folder with only these of its files."""

    def copy(folder: Path) -> Path:
        if source.is_file():
            return Path(shutil.copy(source, folder))
        for name in names:
            (folder / source.name / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, folder / source.name / name)
        return folder / source.name

    return copy


def tool_report(path: Path) -> object:
    """Return a report's estimates and page on results of other tools."""
    report = tools.opened(path)
    return report.estimates, repr(report.read())


def a_plan(folder: Path) -> Path:
    """Write a campaign's plan, and return the folder."""
    path = suite_path("demo")
    suite, text = load_suite(path)
    plan = Plan(
        campaign="c", created_ns=1, seed=1, suite=suite, suite_text=text,
        runs=tuple(plan_runs(suite, 1)),
    )  # fmt: skip
    write_plan(plan, folder)
    return folder


def a_study(folder: Path) -> Path:
    """Write a study with two nodes of rclcpp's own communication study."""
    study = folder / "test_intra_shared_1ms_n1_s1_m3_l100"
    study.mkdir()
    (study / "publisher_1").write_text("1, 10\n2, 20\n3, 30\n")
    (study / "subscription_1").write_text("1, 1, 12\n1, 2, 22\n")
    return folder


def a_storage_run(folder: Path) -> Path:
    """Write the four files of a run of the storage benchmark."""
    facts = storage_cells.facts_of(
        bytes=24,
        batch_bytes=8,
        message_count=3,
        write_calls=2,
        close_ns=7,
        crc32=1,
        content_bytes=24,
    ).model_dump()
    verification = {"reader": "mcap", "messages": 3, "bytes": 24, "crc32": 1}
    calls = "sqc,num_bytes,num_msgs,write_ns,close_ns\n0,16,2,100,\n1,8,1,50,\n,,,,7\n"
    (folder / "writes.csv").write_text(calls)
    (folder / "run.json").write_text(json.dumps(facts))
    (folder / "verification.json").write_text(json.dumps(verification))
    counted = "sqc,allocations,allocated_bytes\n0,3,100\n1,2,50\n,1,10\n"
    (folder / "allocations.csv").write_text(counted)
    return folder


def a_micro_ros_folder(folder: Path) -> Path:
    """Write all files of a board's run, a bench and a capture; compile the programs here."""
    entity, transport = folder / "memory" / "history", folder / "transport" / "udp"
    for path in (entity / "1", transport, folder / "capture"):
        path.mkdir(parents=True)
    program = file("x.c", "char pool[1000]; int main(void) { return 0; }")(folder)
    for name in ("baseline.elf", "1/firmware.elf"):
        subprocess.run(["cc", "-c", program, "-o", entity / name], check=True)
    program.unlink()
    (entity / "about.json").write_text('{"board": "qemu", "mtu": 512, "depth": 4}')
    (entity / "1" / "tasks.txt").write_text("app\tX\t1\t10\t1\r\n")
    (entity / "1" / "stacks.json").write_text('{"app": 20}')
    (entity / "1" / "heap.mtrace").write_text(micro_ros.HEAP)
    (transport / "about.json").write_text(
        '{"line_bit_per_s": 1e6, "bits_per_byte": 10, "link": "pty", "pings": 3,'
        ' "client_resolution_ns": 1, "injected": {"offset_ns": 5}}'
    )
    (transport / "exchanges.csv").write_text(micro_ros.EXCHANGES)
    (transport / "throughput.csv").write_text(micro_ros.COUNTED)
    for name, text in CAPTURES.items():
        (folder / "capture" / name).write_text(text)
    (folder / "benchmark_out.txt").write_text(micro_ros.RATES + micro_ros.TIMES + micro_ros.FAILED)
    profile = micro_ros.PROFILE.format(count=1, static=131584, dynamic=100, live=10)
    (folder / "profiling_out.txt").write_text(profile)
    return folder


def metrics_file(folder: Path) -> Path:
    """Write metrics as a report does: quantities of every scale in two cells."""
    estimates = []
    for executor in ("events", "single"):
        cell = {"executor": executor}
        for name, unit, values in (
            ("latency_p99", "ns", [1e6, 2e6, 1.5e6, 1.2e6]),
            ("cpu", "core", [0.2, 0.3, 0.25, 0.2]),
        ):
            estimates.append(value_over_runs(Metric(name, "from a to b", unit), cell, values, 400))
        slope = Metric("memory_slope", "growth", "B/s", scale="signed")
        estimates.append(value_over_runs(slope, cell, [10.0, -3.0, 4.0], 300))
        loss = Metric("loss", "lost / sent", "1", scale="fraction")
        estimates.append(fraction_over_runs(loss, cell, [0, 1, 3], [100, 100, 100]))
    run = {
        "run": "a", "suite": "s", "campaign": "c", "cell": {"executor": "events"},
        "status": "complete", "counts": True, "discarded_events": 0, "lost_packets": 0,
        "truncated": 0, "git_commit": None,
    }  # fmt: skip
    second = {**run, "run": "b", "cell": {"executor": "single"}}
    return write_metrics(Metrics([run, second], {"python": "3"}, estimates), folder)


def judged(metrics: Path, budgets: Path) -> None:
    """Compare a metrics.json with a whole one, check it, and print all of it."""
    whole = load_side(metrics_file(metrics.with_name("whole")))
    side = load_side(metrics)
    console = Console(file=io.StringIO(), width=150)
    names = ("latency_p99", "loss", "cpu", "memory_slope")
    for base, new in ((whole, side), (side, whole), (side, side)):
        compared = compare_sides(base, new, names)
        console.print(comparison_table(compared))
        summary(compared)
        compared.json_text()
    checks = check_budgets(read_budgets(budgets), side)
    console.print(checks_table(checks))
    check_summary(checks)
    checks.json_text()


def metrics_judged(path: Path) -> None:
    """Judge the metrics with whole budgets."""
    budgets = path.with_name("budgets.yaml")
    budgets.write_text(BUDGETS)
    judged(path, budgets)


def unpacked(path: Path) -> object:
    """Open a packed recording, with a cache beside it."""
    with mock.patch.dict(os.environ, XDG_CACHE_HOME=str(path.with_name("cache"))):
        return open_recordings(path, collect=False)


def sampled(path: Path) -> object:
    """Return what the samplers and the workload wrote in a recording."""
    return open_recordings(path, collect=False).resources.collect()


RECOVERED = (
    ",".join(RECOVERY.names())
    + "\n"
    + ",".join(
        "1" if kind.is_integer() else "0.5" if kind.is_float() else "x"
        for kind in RECOVERY.dtypes()
    )
)
TARGETS = {
    **{f"tool {name}": Target(make, tool_report) for name, make in tools.MADE.items()},
    "CTF 2 draft": Target(
        lambda folder: drafts.trace(
            folder / "t", [drafts.drafted(fragment) for fragment in drafts.fragments()]
        ),
        lambda path: open_trace(path).info(),
        "metadata",
    ),
    "log of messages": Target(copied(RUN / "native" / "messages.csv"), read_logged_messages),
    "recovery": Target(file("recovery.csv", RECOVERED + "\n"), read_recovery),
    "storage run": Target(a_storage_run, read_storage_run),
    "storage recorder": Target(file("recorder.json", json.dumps(storage.FACTS)), read_recorder),
    "storage digest": Target(
        file(
            "storage_plugins_a.csv",
            "run,messages,batch_size,plugin_config,avg_byte_throughput,close_time\n"
            "0,a,1,b,2.5,0.1\n1,a,1,b,2.75,0.2\n",
        ),
        read_digests,
    ),
    "rclcpp study": Target(a_study, read_study),
    "micro-ROS": Target(a_micro_ros_folder, lambda path: read_all([("board", path)]), "**/*[!f]"),
    "micro-ROS programs": Target(
        a_micro_ros_folder, lambda path: read_all([("board", path)]), "**/*.elf"
    ),
    "micro-ROS published": Target(
        copied(
            ROOT / "studies" / "micro_ros" / "data",
            *("memory.csv", "throughput.csv", "latency.csv", "claims.csv", "lines.csv"),
        ),
        read_published,
    ),
    "manifest": Target(copied(RUN / "manifest.json"), read_manifest, mutants=400),
    "plan": Target(a_plan, read_plan),
    "suite": Target(copied(suite_path("demo")), load_suite),
    "metrics": Target(metrics_file, metrics_judged, mutants=200),
    "budgets": Target(
        file("budgets.yaml", BUDGETS),
        lambda path: judged(metrics_file(path.with_name("metrics")), path),
    ),
    "calibration": Target(
        file(
            "results.csv",
            b"".join((DATA / "calibration/results.csv").read_bytes().splitlines(True)[:20]),
        ),
        from_csv,
    ),
    "archive": Target(copied(DATA / "samples" / "hung.tar.zst"), unpacked),
    "samples": Target(copied(RUN, "manifest.json", "resources.parquet"), sampled, "*.parquet"),
    "triggers": Target(file("triggers.yaml", TRIGGERS), read_triggers),
    **FOREIGN,
}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path to each value within a value."""
    paths = [path] if path else []
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            paths += places(item, (*path, key))
    return paths


def changed(value: Any, chance: random.Random) -> Any:
    """Change one or two values to odd ones, or remove them."""
    for _ in range(chance.choice((1, 1, 2))):
        if not places(value):
            break
        *steps, last = chance.choice(places(value))
        at = value
        for step in steps:
            at = at[step]
        if chance.random() < 0.2:
            del at[last]
        else:
            at[last] = deepcopy(chance.choice(ODD))
    return value


def mutated(whole: bytes, chance: random.Random) -> bytes:
    """Change or remove values of JSON, or change, move, remove or insert a few bytes, lines or
    tokens, or cut off the end.
    """
    with suppress(ValueError):
        value = json.loads(whole)
        if places(value) and chance.random() < 0.5:
            return json.dumps(changed(value, chance)).encode()
    content = bytearray(whole)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(content) + 1)
        end = min(len(content), at + chance.randint(1, 40))
        match chance.randrange(7):
            case 0 if at < len(content):
                content[at] = chance.randrange(256)
            case 1:
                del content[at:end]
            case 2:
                content[at:at] = content[at:end]
            case 3:
                content[at:end] = chance.choice((*TOKENS, chance.randbytes(20)))
            case 4:  # a number, or a word
                words = list(re.finditer(rb"[-+.\w]+", content))
                if words:
                    word = chance.choice(words)
                    content[word.start() : word.end()] = chance.choice(TOKENS)
            case 5:
                lines = bytes(content).splitlines(keepends=True)
                chance.shuffle(lines)
                content = bytearray(b"".join(lines[: len(lines) - chance.randint(0, 2)]))
            case _:
                del content[chance.choice((at, len(content) // 2, len(content) - 1, 0)) :]
    return bytes(content)


def failures(
    target: Target, folder: Path, mutations: int, chance: random.Random, until: float = math.inf
) -> Iterator[str | None]:
    """Yield the fault of each mutant of a target, or None; the whole file is read first."""
    path = target.make(folder)
    changing = (
        [path]
        if path.is_file()
        else sorted(entry for entry in path.glob(target.files) if entry.is_file())
    )
    whole = {entry: entry.read_bytes() for entry in changing}
    target.read(path)
    present = everything(folder.parent)
    for number in itertools.count():
        if number >= mutations or time.monotonic() > until:
            return
        chosen = chance.choice(changing)
        chosen.write_bytes(mutated(whole[chosen], chance))
        before = cost()
        problem = ""
        try:
            target.read(path)
        except RoslensError as error:
            if "\n" in str(error) or error.exit_code not in (2, 3, 4):
                problem = f"exit code {error.exit_code}: {error}"
        except BaseException:  # noqa: BLE001  (a panic of native code is no Exception)
            problem = "".join(traceback.format_exc()[-1500:])
        seconds, grown = (after - first for after, first in zip(cost(), before, strict=True))
        if seconds > SECONDS or grown * 1024 > BYTES:
            problem = problem or f"{seconds:.1f} s of CPU, {grown:,.0f} KiB more"
        left = everything(folder.parent) - present
        if left:
            problem = problem or f"left behind: {sorted(map(str, left))[:5]}"
            present |= left
        if problem:
            kept = folder.with_name(f"{folder.name}-{number}-{chosen.name}")
            shutil.copy(chosen, kept)
            present.add(kept)
            problem = f"{kept}: {problem}"
        yield problem or None
        chosen.write_bytes(whole[chosen])


def everything(folder: Path) -> set[Path]:
    """Return a folder's entries, except damaged files and what readers keep beside a file."""
    return {
        path for path in folder.rglob("*") if path.parent.name != KEPT and KEPT not in path.parts
    }


def cost() -> tuple[float, int]:
    """Return CPU seconds of this process and its children, and KiB of the largest one."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages), max(
        usage.ru_maxrss for usage in usages
    )


def main() -> None:
    """Mutate the targets; exit with code 1 if a reader failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[[], *TARGETS])
    parser.add_argument("--mutations", type=int)
    parser.add_argument("--minutes", type=float, help="of each, instead of a number of mutants")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    place, bad = Path(tempfile.mkdtemp(prefix="mutations-")), 0
    # Files that a reader writes anywhere except where it should are found in these folders.
    for name in ("tmp", "home", "working"):
        (place / name).mkdir()
    os.environ |= {"TMPDIR": str(place / "tmp"), "HOME": str(place / "home")}
    tempfile.tempdir = str(place / "tmp")
    os.chdir(place / "working")
    most = options.mutations or (sys.maxsize if options.minutes else 2000)
    for name in options.names or TARGETS:
        folder = place / name.replace(" ", "-").replace("(", "")
        folder.mkdir()
        begun, cpu = time.monotonic(), cost()[0]
        until = begun + options.minutes * 60 if options.minutes else math.inf
        chance = random.Random(f"{options.seed} {name}")
        count, problems = 0, []
        for problem in failures(TARGETS[name], folder, most, chance, until):
            count += 1
            if problem:
                problems.append(problem)
                print(f"{name}: {problem}", flush=True)
        bad += len(problems)
        used, peak = cost()
        print(
            f"{name}: {count} mutants in {(time.monotonic() - begun) / 60:.1f} min, "
            f"{len(problems)} failures, {used - cpu:.1f} s of CPU, at most {peak >> 10} MiB",
            flush=True,
        )
    sys.exit(bad > 0)


if __name__ == "__main__":
    main()
