"""Firmware compiled for a Cortex-M3 and run in qemu; exchanges over real transports."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from board_tools import on_board
from rich.console import Console

from roslens.analysis.micro_ros.checks import live_checks, measured_sum_checks
from roslens.analysis.micro_ros.slopes import slopes_of, with_totals
from roslens.analysis.micro_ros.transports import transport_runs
from roslens.collectors.reader import open_trace
from roslens.collectors.results.micro_ros import MicroRosResults, read_all
from roslens.collectors.results.micro_ros_elf import differences, read_elf
from roslens.report import run_report
from roslens.tracing.workloads.micro_ros import toolchain

RUN = Path(toolchain.__file__).parent / "run.py"
# What entities.h asserts with _Static_assert, and asks of the allocator.
STRUCTURE = {"publisher": 132, "subscriber": 152, "service": 184, "client": 160}
REQUESTS = {"publisher": 112, "subscriber": 240, "service": 320, "client": 304}
SLOT = 512 * 4 + 32


def run_part(folder: Path, part: str, *options: str) -> Path:
    """One part as the suite runs it; the folder of its files."""
    native = folder / part / "native"
    command = [sys.executable, str(RUN), "--part", part, "--output", str(native), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return native


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, MicroRosResults]]:
    folder = tmp_path_factory.mktemp("memory")
    folders = [
        (part, run_part(folder, part, "--counts", "1,2,7", "--further-depths", "1"))
        for part in (*STRUCTURE, "history")
    ]
    return folder, read_all(folders)


@pytest.mark.live
@on_board
def test_regression_recovers_structures_and_requests_to_the_byte(
    memory: tuple[Path, MicroRosResults],
) -> None:
    found = memory[1]
    assert found.findings.height == 0
    slopes = {(s.entity, s.memory): s.estimate.value for s in slopes_of(with_totals(found.memory))}
    for entity, size in STRUCTURE.items():
        assert slopes[entity, "static"] == pytest.approx(size, abs=1e-6)
        assert slopes[entity, "dynamic"] == pytest.approx(REQUESTS[entity], abs=1e-6)
        assert slopes[entity, "stack"] == pytest.approx(16, abs=1e-6)
        assert slopes[entity, "total"] == pytest.approx(size + REQUESTS[entity] + 16, abs=1e-6)
    assert slopes["history", "static"] == pytest.approx(SLOT, abs=1e-6)
    assert slopes["history_512x1", "static"] == pytest.approx(512 + 32, abs=1e-6)


@pytest.mark.live
@on_board
def test_the_report_of_what_was_measured(
    memory: tuple[Path, MicroRosResults], tmp_path: Path
) -> None:
    results = [str(memory[0] / part / "native") for part in ("publisher", "history")]
    parameters = {"results": results, "budgets": {"publisher": 259, "history": 2080.5}}
    result = run_report("micro_ros", [], tmp_path / "out", parameters, Console(quiet=True))
    slopes = pl.read_csv(result.folder / "slopes.csv")
    (row,) = slopes.filter(entity="publisher", memory="static").rows(named=True)
    assert row["slope"] == pytest.approx(132, abs=1e-6)
    checks = pl.read_csv(result.folder / "checks.csv")
    verdicts = dict(checks.select("subject", "verdict").iter_rows())
    # 132 + 112 + 16 = 260 bytes; a slot takes 2,080 of static memory and 16 of stack.
    assert verdicts["publisher, total"] == "broken"
    assert verdicts["history, total"] == "broken"
    assert "a transport and memory model on real toolchains" in result.html.read_text()


@pytest.mark.live
@on_board
def test_painted_stack_is_the_depth_that_was_used(memory: tuple[Path, MicroRosResults]) -> None:
    stack = memory[1].memory.filter(pl.col("memory") == "stack")
    for row in stack.iter_rows(named=True):
        assert abs(row["bytes"] - (1024 + 16 * row["count"])) <= 8


@pytest.mark.live
@on_board
@pytest.mark.parametrize("depth", [700, 1501, 4000])
def test_any_depth_of_stack_is_read_back(tmp_path: Path, depth: int) -> None:
    native = run_part(
        tmp_path, "client", "--counts", "1", "--stack-first", str(depth), "--stack-each", "0"
    )
    stack = read_all([("run", native)]).memory.filter(pl.col("memory") == "stack")
    assert abs(stack["bytes"].item() - depth) <= 8


@pytest.mark.live
@on_board
def test_the_elf_file_names_the_pool(memory: tuple[Path, MicroRosResults]) -> None:
    folder = memory[0] / "publisher" / "native" / "memory" / "publisher"
    firmware, baseline = read_elf(folder / "7" / "firmware.elf"), read_elf(folder / "baseline.elf")
    assert firmware.machine == "EM_ARM, 32 bit, little-endian"
    pool = differences(firmware, baseline, "symbol").filter(pl.col("symbol") == "entities")
    assert pool.select("section", "object", "difference_bytes").row(0) == (
        *(".bss", "memory.c"),
        7 * STRUCTURE["publisher"],
    )


@pytest.mark.live
@on_board
def test_the_device_s_trace_tells_what_its_logs_tell(
    memory: tuple[Path, MicroRosResults],
) -> None:
    trace = open_trace(memory[0] / "subscriber" / "trace" / "device" / "subscriber" / "7")
    events = {name: frame.collect() for name, frame in lazily(trace.read()).items()}
    requested = int(events["device:allocation"]["size"].sum())
    assert requested == 7 * REQUESTS["subscriber"]
    assert events["device:release"].height == events["device:allocation"].height == 21
    assert events["device:entity_created"]["bytes"].to_list() == [STRUCTURE["subscriber"]] * 7
    (stack,) = events["device:stack"].iter_rows(named=True)
    assert 4 * (stack["total_words"] - stack["free_words"]) == 1024 + 16 * 7


def lazily(frames: object) -> dict[str, pl.LazyFrame]:
    return {name: frame.lazy() for name, frame in frames.items()}  # type: ignore[attr-defined]


@pytest.mark.live
@on_board
def test_what_is_not_given_back_is_found(
    memory: tuple[Path, MicroRosResults], tmp_path: Path
) -> None:
    assert {c.verdict for c in live_checks(memory[1].live)} == {"holds"}
    native = run_part(tmp_path, "publisher", "--counts", "2", "--keep", "1")
    (check,) = live_checks(read_all([("run", native)]).live)
    # The first allocation, of 40 bytes, was kept.
    assert (check.verdict, check.value) == ("broken", 40.0)
    assert "firmware.elf:[0x" in check.because


@pytest.mark.live
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_injected_offset_and_drift_are_recovered(tmp_path: Path, transport: str) -> None:
    native = run_part(
        tmp_path,
        *(transport, "--seconds", "2", "--offset-ns", "-123456789", "--drift-ppb", "-300000"),
        *("--payloads", "10,100"),
    )
    found = read_all([("run", native)])
    (run,) = transport_runs(found.exchanges, found.links)
    assert run.fit.refused is None
    injected = json.loads((native / "transport" / transport / "about.json").read_text())["injected"]
    elapsed = run.fit.middle_ns - injected["reference_ns"]
    _, low, high = run.fit.offset_ns
    assert low <= -123456789 - 300e-6 * elapsed <= high
    assert run.fit.drift[0] <= -300e-6 <= run.fit.drift[1]
    # What the publisher's right clock said: known to the test alone.
    with (native / "transport" / transport / "truth.csv").open(newline="") as stream:
        truth = {int(row["sequence"]): row for row in csv.DictReader(stream)}
    rows = list(found.exchanges.iter_rows(named=True))
    sent = np.array([int(truth[r["sequence"]]["sent_true_ns"]) for r in rows])
    arrived = np.array([int(truth[r["sequence"]]["arrived_true_ns"]) for r in rows])
    client = found.exchanges["agent_received_ns"].to_numpy() - sent
    agent = arrived - found.exchanges["agent_sent_ns"].to_numpy()
    assert run.directions is not None
    assert (np.abs(run.directions.client_ns - client) <= run.directions.uncertainty_ns + 2).all()
    assert (np.abs(run.directions.agent_ns - agent) <= run.directions.uncertainty_ns + 2).all()
    (check,) = measured_sum_checks([run])
    assert check.verdict == "holds", check.because
    assert set(found.throughput["payload_bytes"]) <= {10, 100}


@pytest.mark.live
def test_a_round_trip_that_is_wrong_is_found(tmp_path: Path) -> None:
    native = run_part(tmp_path, "udp", "--seconds", "1", "--payloads", "10")
    found = read_all([("run", native)])
    wrong = found.exchanges.with_columns(pl.col("rtt_ns") // 2)
    (check,) = measured_sum_checks(transport_runs(wrong, found.links))
    assert check.verdict == "broken"


@pytest.mark.live
@on_board
def test_the_emulated_uart(tmp_path: Path) -> None:
    native = run_part(tmp_path, "uart", "--seconds", "4", "--drift-ppb", "400000")
    found = read_all([("run", native)])
    assert found.throughput.height == 0
    assert next(iter(found.links.values())).emulated
    (run,) = transport_runs(found.exchanges, found.links)
    # A machine that is very busy may leave time for a few exchanges only: then it says so.
    if run.rtt_ns.size < 10:
        assert run.fit.refused is not None
        return
    assert run.fit.refused is None
    assert run.fit.drift[0] <= 400e-6 <= run.fit.drift[1]
    assert measured_sum_checks([run])[0].verdict == "holds"


@pytest.mark.live
def test_a_board_of_the_user_takes_qemu_s_place(tmp_path: Path) -> None:
    """A board that leaves the files is read the same; one that does not is named."""
    board = tmp_path / "board.py"
    board.write_text(
        "import os, pathlib, shutil, sys\n"
        "shutil.copy('/bin/true', 'firmware.elf')\n"
        "pathlib.Path('tasks.txt').write_text('app\\tX\\t1\\t10\\t1\\r\\n')\n"
        "pathlib.Path('stacks.json').write_text('{\"app\": 20}')\n"
        "n = int(os.environ['MICRO_ROS_COUNT'])\n"
        "calls = ''.join(f'@ x + {16 * i + 16:#x} 0x8\\n' for i in range(n))\n"
        "if n < 4:\n"
        "    pathlib.Path('heap.mtrace').write_text('= Start\\n' + calls + '= End\\n')\n"
    )
    options = ("--board", f"{sys.executable} {board}", "--counts")
    native = run_part(tmp_path, "service", *options, "1,2,3")
    found = read_all([("run", native)])
    slopes = {s.memory: s.estimate.value for s in slopes_of(found.memory)}
    assert slopes == pytest.approx({"static": 0, "stack": 0, "dynamic": 8})
    done = subprocess.run(
        [sys.executable, str(RUN), "--part", "service", "--output", str(tmp_path / "again"),
         *options, "4"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "service x 4: the board left no heap.mtrace" in done.stderr
