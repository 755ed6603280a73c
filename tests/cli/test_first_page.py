"""Test ``roslens PATH``, the first page of a bare recording, against the program's own log."""

import json
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import Roslens
from test_errors import check_one_line
from tests.samples import RUN, SAMPLES, amend, uncollected

import roslens as rl
from roslens.first_page import FirstPage


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy a session as `ros2 trace` leaves it: without a manifest."""
    path = tmp_path_factory.mktemp("traces") / "session-1"
    shutil.copytree(RUN / "trace", path)
    return path


def duration(ns: float) -> str:
    """Write a duration with three digits and a unit, as a second implementation."""
    power = min(3, max(0, int(np.floor(np.log10(ns) / 3))))
    value = ns / 1000**power
    decimals = 0 if value >= 100 else 1 if value >= 10 else 2
    decimals += 0 if value >= 1 else int(-np.floor(np.log10(value)))
    return f"{value:.{decimals}f} {('ns', 'us', 'ms', 's')[power]}"


def test_figures_are_those_of_the_programs_log(bare: Path, roslens: Roslens) -> None:
    """The log's latency is 2 to 12 us longer than the trace's, at P99 22 us (samples' README)."""
    run = roslens(bare, "--json")
    assert run.returncode == 0, run.stderr
    page = json.loads(run.stdout)
    log = pl.read_csv(RUN / "native" / "messages.csv")
    took = (log["callback_realtime_ns"] - log["publish_realtime_ns"]).drop_nulls().to_numpy()
    (topic,) = page["topics"]
    assert (topic["topic"], topic["from"], topic["to"]) == ("/data", "/talker", "/listener")
    assert topic["messages"] == topic["delivered"] == log.height == took.size
    assert topic["not_arrived"] == topic["unknown"] == 0
    for name, q in (("p50_ms", 50), ("p99_ms", 99), ("worst_ms", 100)):
        logged = np.percentile(took, q, method="median_unbiased")
        assert 0 < logged - 1e6 * topic[name] < 30_000, name
    # The topics that each node has are not the application's, though they are by far the slowest.
    assert not {"/parameter_events", "/rosout"} & {row["name"] for row in page["callbacks"]}
    (chain,) = page["chains"]
    assert chain["chain"] == "/talker -> /data -> /listener"
    assert chain["instances"] == chain["complete"] == log.height
    # By hand: the 5 ms timer has 1,000 releases in the log's 4.995 s, one of which has no message.
    (wrong,) = page["looks_wrong"]
    assert "The 5.00 ms timer of /talker did not run 1 of the 1,000 times" in wrong["what"]
    assert page["recorded"]["ROS 2"] == "Jazzy (tracetools 8.2.2)"
    assert page["recorded"]["runs"] == "1: no intervals"
    assert "cannot be told apart" in page["not_seen"]


def test_runs_of_several_cells_are_not_told_as_if_they_were_one(roslens: Roslens) -> None:
    text = " ".join(roslens(SAMPLES / "communication").stdout.split())
    assert "The runs differ in intra_process: each row below is of one cell" in text
    assert "The runs differ" not in roslens(RUN).stdout


def test_each_cell_has_rows_of_its_own_as_the_programs_log_has_them(roslens: Roslens) -> None:
    """The log's latency also includes logging and copying; lost messages are in both."""
    page = json.loads(roslens(SAMPLES / "communication", "--json").stdout)
    rows = {row["cell"]: row for row in page["topics"]}
    for name, pattern in (("False", "*ipc-off"), ("True", "*ipc-on")):
        logs = [pl.read_csv(run / "native" / "messages.csv")
                for run in (SAMPLES / "communication").glob(pattern)]  # fmt: skip
        took = [(log["callback_realtime_ns"] - log["publish_realtime_ns"]) / 1e6 for log in logs]
        row = rows.pop(f"intra_process={name}")
        assert row["messages"] == sum(log.height for log in logs)
        assert row["not_arrived"] == sum(int(of_run.null_count()) for of_run in took)
        median = np.mean([np.median(of_run.drop_nulls()) for of_run in took])
        assert 0 < median - row["p50_ms"] < max(0.05, 0.1 * median)
    assert not rows
    for part in ("callbacks", "chains"):
        assert {row["cell"] for row in page[part]} == {"intra_process=False", "intra_process=True"}


def test_cpu_is_that_of_the_samples_by_process(roslens: Roslens) -> None:
    """The process samples taken beside the run are evaluated a second time, per process."""
    page = json.loads(roslens(RUN, "--json").stdout)
    used = {}
    for (process,), rows in pl.read_parquet(RUN / "resources.parquet").group_by("vpid"):
        samples = rows.drop_nulls("cpu_time_ns").sort("time_ns")
        took = samples["cpu_time_ns"][-1] - samples["cpu_time_ns"][0]
        used[process] = took / (samples["time_ns"][-1] - samples["time_ns"][0])
    nodes = rl.open(RUN).nodes.select("vpid", "node").collect()
    wanted = {row["node"]: used[row["vpid"]] for row in nodes.iter_rows(named=True)}
    assert {row["nodes"]: row["cpu"] for row in page["processes"]} == pytest.approx(wanted)
    assert len(wanted) == 2


def test_that_no_callback_was_recorded_is_said(bare: Path) -> None:
    """A Python node started without roslens is such a case: its callbacks emit no events."""
    with_them, without = (FirstPage(rl.open(bare), [bare]) for _ in range(2))
    without.callbacks = with_them.callbacks.clear()
    assert "callbacks" not in with_them.not_seen
    assert "Not recorded: callbacks, so that no latency has an end" in without.not_seen


def test_page_in_html_stands_alone_and_holds_the_same(
    bare: Path, roslens: Roslens, tmp_path: Path
) -> None:
    run = roslens(bare, "--html", tmp_path / "page.html")
    assert run.returncode == 0
    html = (tmp_path / "page.html").read_text()
    assert "page.html" in run.stderr
    assert "http" not in html
    rows = json.loads(roslens(bare, "--json").stdout)["topics"]
    assert f">{duration(1e6 * rows[0]['p99_ms'])}<" in html


def test_several_sessions_and_runs_with_a_manifest(roslens: Roslens, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / "demo", tmp_path / "demo")
    page = json.loads(roslens(tmp_path / "demo", "--json").stdout)
    assert page["recorded"]["runs"] == "6"
    assert page["recorded"]["middleware"] == "rmw_fastrtps_cpp"
    pairs = [(row["cell"], row["topic"]) for row in page["topics"]]
    assert pairs == [("executor=SingleThreaded", "/samples"), ("executor=Events", "/samples")]
    # The page lists the latest ten of all runs, as the frame of all late messages has them.
    late = rl.open(tmp_path / "demo").why()["late_by_ns"].sort(descending=True)
    assert [row["late_by_ns"] for row in page["late"]] == late.head(10).to_list()


def test_commands_that_are_proposed_can_be_run(roslens: Roslens, tmp_path: Path) -> None:
    """There are several paths, and a topic whose name means something to a shell and to YAML."""
    run = tmp_path / "a b"
    shutil.copytree(min(SAMPLES.glob("demo/001*")), run, ignore=shutil.ignore_patterns("tables"))
    evil = b"/a';id>z"
    for file in (run / "trace").rglob("*"):
        if file.is_file() and file.name != "metadata":
            file.write_bytes(file.read_bytes().replace(b"/samples\0", evil + b"\0"))
    page = json.loads(roslens(run, SAMPLES / "hung.tar.zst", "--json").stdout)
    commands = [shlex.split(row["command"]) for row in page["looks_wrong"]]
    words = [word for command in commands for word in command if ";" in word]
    assert set(words) <= {evil.decode(), 'topics=["/a\';id>z"]'}
    assert words
    infos = [command for command in commands if command[1] == "info"]
    assert infos
    for command in infos:
        assert roslens(*command[1:]).returncode in (0, 3)


def test_what_is_neither_a_command_nor_a_path(roslens: Roslens) -> None:
    check_one_line(roslens("inof"), 2, "did you mean 'roslens info'?")
    check_one_line(roslens("no/such/folder"), 2, "no/such/folder")


def test_a_leak_is_told_of_the_cell_that_was_made_to_leak(roslens: Roslens) -> None:
    """By hand: 50 messages/s keep 1,024 B each, 51,200 B/s, plus the allocator's share of each."""
    page = json.loads(roslens(SAMPLES / "leak.tar.zst", "--json").stdout)
    (leak,) = (row for row in page["looks_wrong"] if row["what"].startswith("Memory"))
    match = re.fullmatch(
        r"Memory climbs with leak_bytes_per_message=1024: ([\d,]+) B/s \[([\d,]+), ([\d,]+)\], "
        r"from 5 to 60\.2 s after the first sample\.",
        leak["what"],
    )
    value, low, high = (int(number.replace(",", "")) for number in match.groups())
    assert low < value < high
    assert 51_200 < value < 1.05 * 51_200
    assert leak["command"].startswith("roslens report leaks ")


def test_a_run_that_is_being_recorded_is_called_so(tmp_path: Path, roslens: Roslens) -> None:
    amend(uncollected(RUN, tmp_path / "long"), status="running")
    text = " ".join(roslens(tmp_path / "long").stdout.split())
    assert "long is still being recorded" in text
    assert "did not complete" not in text
    assert "long is still being recorded" in repr(rl.open(tmp_path / "long"))
    checked = json.loads(roslens("info", "--check", tmp_path / "long", "--json").stdout)
    (row,) = [row for row in checked["findings"] if row["kind"] == "incomplete_run"]
    assert "long: is still being recorded" in row["what"]
