"""Test in which functions callbacks spend CPU time, by perf, against what programs count."""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import polars as pl
import pytest
from psutil import Process, process_iter
from tests.analysis.test_perfetto import stacks_in
from tests.analysis.test_stacks import read_by_pprof
from tests.programs import wait_for
from tests.rclcpp import need_sources

import roslens as rl
from roslens.analysis.interop.perfetto import write_perfetto
from roslens.analysis.interop.stack_files import pprof
from roslens.analysis.measures.stacks import CALLBACK
from roslens.collectors.schema import TABLES
from roslens.explore.stacks import Stacks
from roslens.export import export
from roslens.tracing.attach import record_attached
from roslens.tracing.command import record_command
from roslens.tracing.ftrace.tracefs import why_no_ftrace
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.ros import RosEnvironment
from roslens.tracing.ros.packages import with_prefix
from roslens.tracing.ros.rclcpp import rclcpp_for
from roslens.tracing.sampling.rates import SamplerRates
from roslens.tracing.sampling.stacks import StackSampler, forget_old_maps

NODES = Path(__file__).with_name("nodes")
OPTIONS = TracingOptions(tracer="native", kernel="off")
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not shutil.which("perf"), reason="needs perf"),
]
HZ = 997.0
EXECUTIONS = 200


def rclcpp_program(ros: RosEnvironment, folder: Path, work: str = "burn.c") -> list[str]:
    need_sources()
    build, program, burn = rclcpp_for(ros), folder / "burner", folder / "burn.o"
    subprocess.run(["cc", "-O2", "-c", NODES / work, "-o", burn], check=True)
    # The object lies beside the folders of all tests, so that it is compiled once.
    if not (node := folder.parent / "burner.o").exists():
        source = ["-c", NODES / "burner.cpp", "-o", node]
        subprocess.run([*build.compiler, *build.compile_flags(), *source], check=True)
    subprocess.run(
        [*build.compiler, node, burn, "-o", str(program), *build.link_flags()], check=True
    )
    return [str(program)]


def rclpy_program(ros: RosEnvironment, folder: Path, work: str = "burn.c") -> list[str]:
    library = folder / "libburn.so"
    command = ["cc", "-O2", "-shared", "-fPIC", NODES / work, "-o", library]
    subprocess.run(command, check=True)
    return [str(ros.python), str(NODES / "burner.py"), str(library)]


@pytest.mark.parametrize("made", [rclcpp_program, rclpy_program])
def test_the_split_of_two_callbacks_is_what_the_program_counts(
    ros: RosEnvironment, tmp_path: Path, made
) -> None:
    output, folder = tmp_path / "said", tmp_path / "run"
    program = " ".join(f'"{word}"' for word in [*made(ros, tmp_path), str(EXECUTIONS)])
    command = ["sh", "-c", f'exec {program} > "{output}"']
    _, manifest = record_command(
        command,
        folder,
        options=OPTIONS,
        ros="embedded",
        samplers=SamplerRates(stacks=HZ),
        time_limit=300,
    )
    assert manifest.status == "complete", manifest.failure
    spent = [float(word) for word in output.read_text().split()]
    stacks = rl.open(folder).stacks
    export(folder, tmp_path / "perfetto", "perfetto")
    samples = stacks.frame().select("time_ns", "vpid", "vtid", "path")
    assert sorted(stacks_in(tmp_path / "perfetto")) == sorted(samples.iter_rows())
    callbacks = {"timer": [*spent[:2], spent[4]], "subscription": [*spent[2:4], spent[5]]}
    for kind, (alpha, beta, lasted) in callbacks.items():
        row = alpha_split(stacks, kind, alpha / (alpha + beta))
        # CPU time of the whole: each sample stands for a part of a second. Perf's clock goes on
        # while the host of a virtual machine has the CPU, but the program's CPU time does not.
        error = 4 / math.sqrt(row["total_share"] * row["samples"]) + 0.02
        seconds = row["total_ns"] * row["executions"] / 1e9
        assert (1 - error) * alpha <= seconds <= (1 + error) * lasted


@pytest.mark.skipif(why_no_ftrace() is not None, reason=str(why_no_ftrace()))
@pytest.mark.parametrize("made", [rclcpp_program, rclpy_program])
def test_waits_are_those_that_the_program_and_the_kernel_count(
    ros: RosEnvironment, tmp_path: Path, made
) -> None:
    """alpha sleeps, beta waits for a lock: by the program's log, and by the kernel's scheduler.

    By its own clocks, a program is also off the CPU while another program or a virtual machine's
    host has it, which is no wait; the kernel counts that time.
    """
    output, folder = tmp_path / "said", tmp_path / "run"
    program = " ".join(f'"{word}"' for word in [*made(ros, tmp_path, "wait.c"), str(EXECUTIONS)])
    command = ["sh", "-c", f'exec {program} > "{output}"']
    options = TracingOptions(tracer="native", kernel="ftrace")
    _, manifest = record_command(
        command,
        folder,
        options=options,
        ros="embedded",
        samplers=SamplerRates(stacks=199, waits=True),
        time_limit=300,
    )
    assert manifest.status == "complete", manifest.failure
    waited = [float(word) for word in output.read_text().split()]
    stolen = manifest.host.steal_fraction or 0
    run = rl.open(folder)
    number = "callback_instance_id"
    kernel = run.table("callback_scheduling").collect()
    executions = run.callbacks.frame().join(kernel, on=number)
    table = run.stacks.functions(waits=True)
    for kind, expected in {"timer": waited[:2], "subscription": waited[2:4]}.items():
        mine = table.filter(pl.col("kind") == kind)
        totals = [
            mine.filter(pl.col("function") == function).select(
                pl.col("total_ns") * pl.col("executions")
            )
            for function in ("alpha", "beta")
        ]
        seconds = [total.item() / 1e9 for total in totals]
        preempted = executions.filter(pl.col("kind") == kind)["preempted_ns"].sum() / 1e9
        for measured, off_cpu in zip(seconds, expected, strict=True):
            assert (0.98 - stolen) * off_cpu - preempted <= measured <= 1.02 * off_cpu
        tolerance = 0.02 + preempted / sum(expected)
        assert seconds[0] / sum(seconds) == pytest.approx(
            expected[0] / sum(expected), abs=tolerance
        )
    ours = run.stacks.frame(waits=True).group_by(number).agg(pl.col("wait_ns").sum())
    waits = pl.col("blocked_ns") + pl.col("scheduling_delay_ns").fill_null(0)
    joined = kernel.select(number, ns=waits).join(ours, on=number, how="left").fill_null(0)
    assert joined.height > EXECUTIONS
    assert joined["wait_ns"].sum() == pytest.approx(joined["ns"].sum(), rel=0.02)
    assert (joined["wait_ns"] - joined["ns"]).abs().quantile(0.9) < 100_000
    slow = " ".join(run.stacks.sentences())
    assert re.search(r"slow executions of the timer .* wait \d+% of their time", slow)


def alpha_split(stacks: Stacks, kind: str | None, share: float) -> dict[str, float]:
    """Check alpha()'s share of both functions' time against the program's, and return its row.

    The tolerance is 4 standard deviations of as many independent samples, and at least 2 points.
    """
    table = stacks.functions().filter(pl.col("kind").eq_missing(pl.lit(kind)))
    by_function = {row["function"]: row for row in table.iter_rows(named=True)}
    of_both = by_function["alpha"]["total_share"] + by_function["beta"]["total_share"]
    samples = by_function["alpha"]["samples"] * of_both
    error = by_function["alpha"]["total_share"] / of_both - share
    assert abs(error) < max(0.02, 4 * math.sqrt(share * (1 - share) / samples))
    assert of_both > 0.9
    return by_function["alpha"]


@pytest.mark.skipif(why_no_ftrace() is not None, reason=str(why_no_ftrace()))
def test_a_program_that_runs_already(ros: RosEnvironment, tmp_path: Path) -> None:
    """The events that name timers came before attaching; perf and its file go, the node stays."""
    folder = tmp_path / "run"
    with with_prefix(ros, rclcpp_for(ros).prefix).isolated(tmp_path / "log") as isolated:
        program = subprocess.Popen(
            [*rclcpp_program(ros, tmp_path), str(1000 * EXECUTIONS)],
            env=isolated.process_environment(dict(os.environ)),
            stdout=subprocess.PIPE,
        )
        try:
            # Its timer exists, as nearly all of its CPU time is spent in callbacks.
            wait_for(lambda: Process(program.pid).cpu_times().user > 2)
            _, manifest = record_attached([str(program.pid)], folder, time_limit=5, stacks=HZ)
            assert program.poll() is None
            program.send_signal(signal.SIGINT)
            output, _ = program.communicate(timeout=60)
        finally:
            program.kill()
    assert (manifest.status, program.returncode) == ("complete", 0)
    # A busy machine lets it run for a part of the 5 s; the shares' tolerance follows the samples.
    assert manifest.samplers["stacks"].rounds > 100
    assert not list(folder.glob("perf.data*"))
    assert not any(
        str(folder) in " ".join(process.info["cmdline"] or ())
        for process in process_iter(["cmdline"])
    )
    spent = [float(word) for word in output.split()]
    stacks = rl.open(folder).stacks
    assert stacks.frame()["vpid"].unique().to_list() == [program.pid]
    for kind, (alpha, beta) in {None: spent[:2], "subscription": spent[2:4]}.items():
        alpha_split(stacks, kind, alpha / (alpha + beta))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root for a namespace of process ids")
def test_a_program_in_a_container(ros: RosEnvironment, tmp_path: Path) -> None:
    command = ["unshare", "-pf", "--mount-proc", *rclcpp_program(ros, tmp_path), "20"]
    _, manifest = record_command(
        command, tmp_path / "run", options=OPTIONS, ros="embedded", samplers=SamplerRates(stacks=HZ)
    )
    assert manifest.status == "complete", manifest.failure
    run = rl.open(tmp_path / "run")
    assert run.stacks.functions().height == 0
    assert "record inside of it" in run.stacks.sentences()[-1]
    timers = pl.col("kind") == "timer"
    assert run.callbacks.frame().filter(timers).height == 20


def test_totals_are_those_of_perf_report(tmp_path: Path) -> None:
    """Each function's children's and own percentages are as perf prints them.

    Perfetto's file has each sample on its thread and at its time.
    """
    program = tmp_path / "burn"
    main = "double alpha(double), beta(double); int main() { alpha(0.7); beta(0.3); return 0; }"
    (tmp_path / "main.c").write_text(main)
    subprocess.run(["cc", "-O2", tmp_path / "main.c", NODES / "burn.c", "-o", program], check=True)
    sampler = StackSampler(tmp_path, HZ)
    with sampler:
        subprocess.run([program], check=True)
    kept = shutil.copy(tmp_path / "perf.data", tmp_path / "kept")
    # Otherwise the figures of perf itself are wrong, too: its stacks end in libc.
    forget_old_maps(kept)
    sampler.write(tmp_path / "samples.parquet", 0)
    assert sampler.troubles == []
    samples = pl.read_parquet(tmp_path / "samples.parquet")
    # A sample taken while the program is loaded need not be whole.
    assert samples.filter(pl.col("path").str.contains("alpha|beta"))["whole"].all()
    command = ["perf", "report", "-f", "-i", kept, "--stdio", "-g", "none", "--children"]
    report = subprocess.check_output(
        [*command, "--no-inline", "--comm", "burn", "--percentage", "relative"], text=True
    )
    rows = re.findall(r"^ +([\d.]+)% +([\d.]+)% .*\[\.\] (alpha|beta|spend)$", report, re.MULTILINE)
    assert len(rows) == 3
    whole = samples["cpu_ns"].sum()
    callback = dict.fromkeys(CALLBACK, pl.lit(None, dtype=pl.String))
    (tmp_path / "pb.gz").write_bytes(pprof(samples.with_columns(**callback)))
    read = read_by_pprof(tmp_path / "pb.gz") if shutil.which("go") else {}
    tables = {name: table.empty() for name, table in TABLES.items()}
    write_perfetto({**tables, "cpu_samples": samples}, tmp_path / "perfetto")
    shown = stacks_in(tmp_path / "perfetto")
    command = ["perf", "script", "-f", "-i", kept, "--ns", "-F", "pid,tid,time"]
    lines = subprocess.check_output(command, text=True)
    taken = re.findall(r"^ *(\d+)/(\d+) +(\d+)\.(\d{9}):", lines, re.MULTILINE)
    ours = [(int(s + ns), int(pid), int(tid)) for pid, tid, s, ns in taken]
    assert sorted(row[:3] for row in shown) == sorted(row for row in ours if row[1] != os.getpid())
    for total, own, function in rows:
        stacks = samples.filter(pl.col("path").str.split("\n").list.contains(function))
        first = samples.filter(pl.col("path").str.starts_with(f"{function}\n"))
        # perf counts the moments before exec under another name.
        assert 100 * stacks["cpu_ns"].sum() / whole == pytest.approx(float(total), abs=0.5)
        assert 100 * first["cpu_ns"].sum() / whole == pytest.approx(float(own), abs=0.5)
        in_perfetto = [path.split("\n") for *_, path in shown]
        assert sum(function in stack for stack in in_perfetto) == stacks.height
        assert sum(function == stack[0] for stack in in_perfetto) == first.height
        if read:
            assert read[function] == (first["cpu_ns"].sum(), stacks["cpu_ns"].sum())


PYTHON = """
import time, sys
def spend(seconds):
    begin = time.thread_time()
    while time.thread_time() < begin + seconds:
        sum(range(1000))
    return time.thread_time() - begin
def alpha(): return spend(0.014)
def beta(): return spend(0.006)
spent = [(alpha(), beta()) for _ in range(100)]
print(*map(sum, zip(*spent)))
"""


@pytest.mark.parametrize("name", ["python3.11", "python3.12", "python3.13"])
def test_functions_of_python(name: str, tmp_path: Path) -> None:
    """From 3.12 on the innermost function has its name, from 3.13 on all; /tmp stays clean."""
    interpreter = shutil.which(name)
    if interpreter and Path(interpreter).parent.name == "shims":
        interpreter = next(
            map(str, Path(interpreter).parents[1].glob(f"versions/*/bin/{name}")), None
        )
    if not interpreter:
        pytest.skip(f"no {name}")
    (tmp_path / "burn.py").write_text(PYTHON)
    command = ["sh", "-c", f"exec {interpreter} {tmp_path}/burn.py > {tmp_path}/said"]
    folder, manifest = record_command(
        command, tmp_path / "run", options=OPTIONS, ros="none", samplers=SamplerRates(stacks=HZ)
    )
    assert manifest.status == "complete", manifest.failure
    samples = pl.read_parquet(folder / "cpu_samples.parquet")
    alpha, beta, spend = (
        samples.filter(pl.col("path").str.contains(rf"(?m)^py::{symbol}:burn\.py$"))["cpu_ns"].sum()
        for symbol in ("alpha", "beta", "spend")
    )
    spent = [float(word) for word in (tmp_path / "said").read_text().split()]
    assert (spend / sum(spent) > 0.9e9) == (name != "python3.11")
    match = re.search(r"([\d,]+) of [\d,]+ samples are in Python", " ".join(manifest.warnings))
    nameless = int(match[1].replace(",", "")) / samples.height if match else 0
    assert nameless > 0.9 if name == "python3.11" else nameless < 0.1
    if name == "python3.13":
        share = spent[0] / sum(spent)
        error = 4 * math.sqrt(share * (1 - share) / samples.height)
        assert alpha / (alpha + beta) == pytest.approx(share, abs=max(0.02, error))
        assert (alpha + beta) / spend > 0.9
    pids = samples["vpid"].unique().to_list()
    assert not [path for pid in pids for path in Path("/tmp").glob(f"*-{pid}[-.]*")]


def test_without_perf_the_rest_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (programs := tmp_path / "bin").mkdir()
    for program in Path("/usr/bin").iterdir():
        if program.name != "perf":
            (programs / program.name).symlink_to(program)
    monkeypatch.setenv("PATH", str(programs))
    folder, manifest = record_command(
        ["true"], tmp_path / "run", options=OPTIONS, ros="none", samplers=SamplerRates(stacks=199)
    )
    assert manifest.status == "complete"
    assert any("perf is not installed (apt-get install" in warning for warning in manifest.warnings)
    assert not (folder / "cpu_samples.parquet").exists()


def test_a_perf_that_may_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is perf 6.1's where perf_event_paranoid forbids it."""
    error = "Error:\nAccess to performance monitoring and observability operations is limited."
    (tmp_path / "perf").write_text(f"#!/bin/sh\necho '{error}' >&2\nexit 255\n")
    (tmp_path / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    folder, manifest = record_command(
        ["true"], tmp_path / "run", options=OPTIONS, ros="none", samplers=SamplerRates(stacks=199)
    )
    assert manifest.status == "complete"
    assert any("perf_event_paranoid to 2 or less" in warning for warning in manifest.warnings)
    assert not (folder / "native" / "perf.data").exists()


def test_a_perf_that_is_killed_is_said_and_no_sample_is_denied(tmp_path: Path) -> None:
    """The workload kills perf, which is another child of the recorder."""
    folder, manifest = record_command(
        ["sh", "-c", "kill -KILL $(pgrep -P $PPID -x perf)"],
        tmp_path / "run",
        options=OPTIONS,
        samplers=SamplerRates(stacks=HZ),
        ros="none",
    )
    assert manifest.status == "complete"
    said = " ".join(manifest.warnings)
    assert "perf was killed" in said
    assert "no sample was taken" not in said
    assert not (folder / "cpu_samples.parquet").exists()
