"""Test micro-ROS itself, compiled from its sources, from recording to report."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
import yaml
from rich.console import Console
from tests.programs import roslens
from tests.record_suite import changed

from roslens.recording import read_manifest
from roslens.report import run_report
from roslens.studies.micro_ros.checks import checks_of_two_counts, live_checks
from roslens.studies.micro_ros.results.folder import MicroRosResults, read_all
from roslens.studies.micro_ros.results.tasks import read_tasks
from roslens.studies.micro_ros.workloads.micro_ros_client import prepare
from roslens.tracing.needs import without_sources
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.micro_ros import configured, micro_ros_for
from roslens.tracing.sources import VARIABLE

MISSING = [tool for tool in prepare.TOOLS if shutil.which(tool) is None]
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(bool(MISSING), reason=f"{', '.join(MISSING)} not installed"),
    pytest.mark.skipif(
        not os.environ.get(VARIABLE), reason=f"{VARIABLE} is not set: there is nothing to compile"
    ),
]
COUNTS = (1, 3)
TRANSPORTS = {"udp": None, "udp_board": "lwip"}
"""Transports, with the source that each needs."""
RTOSES = [
    ("freertos", "freertos_kernel", {"app", "IDLE"}, "paint"),
    ("threadx", "threadx", {"app", "System Timer Thread"}, "stack_check"),
]
"""RTOS name, source, tasks, and the second way of counting the stack."""
INTERRUPT_BYTES = 36 + 32
"""Bytes of the registers that the processor stores, and of the rest, which the system stores."""


def need_source(name: str) -> None:
    for why in without_sources([name], lambda _: None).values():
        pytest.skip(why)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    micro_ros_for(embedded_ros())
    folder = tmp_path_factory.mktemp("micro_ros")
    suite = changed(
        "micro-ros",
        {"factors": {"part": ["publisher", *TRANSPORTS]}, "repetitions": 1, "duration": 4},
    )
    suite["workload"]["parameters"] |= {
        "counts": ",".join(map(str, COUNTS)),
        "payloads": "10,400",
        "offset-ns": -123456789,
        "drift-ppb": 200000,
    }
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite))
    where = ("--name", "c", "--output", folder / "recordings")
    done = roslens("record", "--suite", folder / "suite.yaml", *where, timeout=600)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.splitlines()[-1])


def native(campaign: Path, part: str) -> Path:
    """Return the files of the part's complete run: a run that failed is repeated."""
    (manifest,) = (
        path
        for path in campaign.glob("*/manifest.json")
        if re.search(rf"part-{part}(_retry\d+)?$", path.parent.name)
        and read_manifest(path).status == "complete"
    )
    return manifest.parent / "native"


def test_static_memory_is_that_of_the_structures(campaign: Path) -> None:
    """nm gives the sizes of the library's pools and of the program's array."""
    folder = native(campaign, "publisher") / "memory" / "publisher"
    counted = read_all([("run", folder.parents[1])]).memory.filter(memory="static")
    by_count = dict(counted.select("count", "bytes").iter_rows())
    for count in COUNTS:
        command = ["arm-none-eabi-nm", "-S", str(folder / str(count) / "firmware.elf")]
        symbols = subprocess.check_output(command, text=True)
        sizes = {
            name: int(size, 16)
            for size, name in re.findall(r"^\S+ (\S+) [bBdD] (\w+)$", symbols, re.MULTILINE)
        }
        of_each = sum(sizes[pool] for pool in ("custom_publishers", "custom_topics", "entities"))
        assert of_each % count == 0
        # Other variables may be larger than in the program without publishers.
        assert by_count[count] - by_count[1] == (of_each // count) * (count - 1)


@pytest.mark.parametrize(("part", "alike"), [(1, True), (2, False)])
def test_what_names_no_pool_is_the_same_whatever_their_sizes(
    tmp_path: Path, part: int, alike: bool
) -> None:
    """Objects of micro-ROS' RMW are compared byte by byte with pools of 1 and of 10."""
    settings = json.loads(Path(prepare.prepare()[prepare.VARIABLE]).read_text())
    target = settings["targets"]["cortex-m3"]
    objects = []
    for size in ("1", "10"):
        folder = tmp_path / size
        pools = {name: size for name in target["values"] if name.startswith(target["pools"])}
        for each in target["parts"]:
            header = folder / "include" / each["header"]
            header.parent.mkdir(parents=True, exist_ok=True)
            header.write_text(configured(Path(each["template"]), target["values"] | pools))
        compiler, *flags = target["command"]
        command = [
            compiler,
            f"-I{folder / 'include'}",
            *flags,
            "-c",
            *target["parts"][part]["files"],
        ]
        subprocess.run(command, cwd=folder, check=True)
        objects.append({file.name: file.read_bytes() for file in folder.glob("*.o")})
    assert len(objects[0]) == len(target["parts"][part]["files"])
    assert (objects[0] == objects[1]) is alike


@pytest.mark.parametrize("part", TRANSPORTS)
def test_both_sides_account_for_every_message(campaign: Path, part: str) -> None:
    source = TRANSPORTS[part]
    if source is not None:
        need_source(source)
    results = read_all([("run", native(campaign, part))])
    # An emulated line has no throughput; a client on the board has its own clock, of 40 ns.
    refused = results.findings["what"].str.contains("emulat")
    assert refused.all()
    assert refused.len() == (4 if part == "udp_board" else 0)
    assert results.accounts["agrees"].all()
    both_ways = {
        f"{size} B{direction}" for size in (10, 400) for direction in ("", " to the device")
    }
    kinds = {"ping", "answer", *both_ways}
    assert set(results.accounts["message"]) == kinds
    assert set(results.accounts["transport"]) == {f"{part} reliable", f"{part} best_effort"}
    ticks = {link.client_resolution_ns for link in results.links.values()}
    assert ticks == {40 if part == "udp_board" else 1}
    total = pl.col("received") + pl.col("lost")
    assert results.accounts.filter(total != pl.col("sent")).height == 0


def measured(native: Path, part: str, *options: str) -> MicroRosResults:
    """Run the memory measurement of an entity, and return its results."""
    command = [
        *(sys.executable, str(Path(prepare.__file__).with_name("run.py")), "--part", part),
        *("--counts", "1,2", *options, "--output", str(native)),
    ]
    environment = os.environ | prepare.prepare()
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return read_all([("run", native)])


@pytest.mark.parametrize(("rtos", "source", "tasks", "way"), RTOSES)
def test_the_rtos_counts_the_words_that_we_count(
    tmp_path: Path, rtos: str, source: str, tasks: set[str], way: str
) -> None:
    """The stack goes once as deep as the client does, and once to a known depth."""
    need_source(source)
    part = f"publisher_{rtos}"
    usual = measured(tmp_path / "usual", part)
    deep = measured(tmp_path / "deep", part, "--touch", "12000")
    for results in (usual, deep):
        assert results.findings.height == 0
        checks = {check.subject: check.verdict for check in checks_of_two_counts(results.ways)}
        ways = ("static memory by map", "static memory by nm", f"stack memory by {way}")
        assert checks == dict.fromkeys((*ways, "dynamic memory by sbrk"), "holds")
        assert results.live["live_bytes"].to_list() == [0, 0]
    # Every word is used down to that depth, so a search by halving finds it, too.
    by_stack = deep.ways.filter(memory="stack")
    assert by_stack["bytes"].to_list() == by_stack["otherwise_bytes"].to_list()
    for count in ("1", "2"):
        folder = tmp_path / "deep" / "memory" / part / count
        words = json.loads((folder / "stacks.json").read_text())
        used = read_tasks(folder / "tasks.txt", words)
        assert set(used) == tasks
        # An interrupt's registers may lie below.
        assert used["app"] is not None
        assert -8 <= used["app"] - 12_000 <= INTERRUPT_BYTES


def test_what_is_not_given_back_and_how_deep_the_stack_went_are_found(tmp_path: Path) -> None:
    """Publishers that are not ended hold equal memory; the stack is touched to a known depth."""
    depth = 12_000
    results = measured(tmp_path / "native", "publisher", "--keep", "2", "--touch", str(depth))
    first, second = live_checks(results.live)
    assert {first.verdict, second.verdict} == {"broken"}
    assert first.value
    assert second.value == 2 * first.value
    assert "firmware.elf:[0x" in first.because
    stack = results.memory.filter(memory="stack")["bytes"]
    assert ((stack - depth).abs() <= 8).all()


def test_the_report(campaign: Path, tmp_path: Path) -> None:
    runs = [native(campaign, part).parent for part in ("publisher", "udp")]
    result = run_report("micro_ros", runs, tmp_path / "out", {}, Console(quiet=True))
    checks = pl.read_csv(result.folder / "checks.csv")
    exact = (
        *("nothing allocated", "memory counted", "every message", "client + turnaround"),
        "the hops of a message",
    )
    for beginning in exact:
        (verdicts,) = (checks.filter(pl.col("check").str.starts_with(beginning))["verdict"],)
        assert verdicts.len()
        assert set(verdicts) == {"holds"}
    assert "This is micro-ROS itself" in result.html.read_text()
    # Each exchange that both sides logged is in the node's trace as well.
    messages = pl.read_csv(result.folder / "device_messages.csv")
    exchanges = read_all([("run", native(campaign, "udp"))]).exchanges
    assert (
        messages.select("transport", "sequence")
        .sort("transport", "sequence")
        .equals(exchanges.select("transport", "sequence").sort("transport", "sequence"))
    )
    assert result.metrics is not None
    estimates = json.loads(result.metrics.read_text())["estimates"]
    offsets = [e for e in estimates if e["metric"] == "clock_offset"]
    # The device was set to be wrong by that much; drift adds at most 200 ppm of the run's seconds.
    assert len(offsets) == 2
    for offset in offsets:
        assert offset["low"] <= -123456789 + 200e-6 * 60e9
        assert offset["high"] >= -123456789
