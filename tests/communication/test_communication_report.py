"""Test the communication report over real recordings of rclcpp.

Expected values are what the program itself logged (``native/messages.csv``), read by csv alone.
"""

from __future__ import annotations

import csv
import json
import shutil
import statistics
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest
from rich.console import Console

import roslens as rl
from roslens.analysis.metrics import read_metrics
from roslens.analysis.reports.table import ReportTable
from roslens.collectors.decoding import read_raw
from roslens.collectors.ros2 import build_tables
from roslens.recording import Recording, UsageError
from roslens.report import run_report
from roslens.studies.communication.backlog import Backlog
from roslens.studies.communication.estimates import latency_measures
from roslens.studies.communication.logged import agreement
from roslens.studies.communication.published import by_reference, read_published
from roslens.studies.communication.report import (
    CommunicationParameters,
    CommunicationReport,
)
from roslens.studies.communication.tables import published_table
from roslens.studies.communication.traffic import HOPS

ROOT = Path(__file__).parents[2]
SAMPLES = [ROOT / "data" / "samples" / name for name in ("communication", "communication_shared")]
PUBLISHED = ROOT / "studies" / "communication" / "data"

pytestmark = pytest.mark.recording


def report_of(*paths: Path, collect: bool = True, **more: object) -> CommunicationReport:
    given = {"recordings": [str(path) for path in paths], **more}
    parameters = CommunicationParameters.checked(given)
    return CommunicationReport(rl.open(paths, collect=collect), parameters, PUBLISHED)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Copy the samples, as tables are written into them."""
    folder = tmp_path_factory.mktemp("recordings")
    ignored = shutil.ignore_patterns("events", "tables")
    return [shutil.copytree(path, folder / path.name, ignore=ignored) for path in SAMPLES]


@pytest.fixture(scope="module")
def report(samples: list[Path]) -> CommunicationReport:
    return report_of(*samples)


def logged(run: Path) -> list[tuple[int, int | None]]:
    """Return when each message was published and, if ever, received."""
    with (run / "native" / "messages.csv").open() as stream:
        return [
            (int(row["publish_realtime_ns"]), int(row["callback_realtime_ns"] or 0) or None)
            for row in csv.DictReader(stream)
        ]


def folder_of(run: str) -> Path:
    return next(path for sample in SAMPLES for path in sample.glob(f"*{run.rpartition('/')[2]}"))


def test_counts_periods_and_latency_are_those_of_the_log(report: CommunicationReport) -> None:
    rows = report.cells.rows(named=True)
    assert len(rows) == 8
    for row in rows:
        log = logged(folder_of(row["run"]))
        received = [(sent, got) for sent, got in log if got is not None]
        assert row["publications"] == len(log)
        assert row["receptions"] == len(received)
        assert row["lost"] == len(log) - len(received)
        assert row["evidence"] == "exact"
        sent = [sent for sent, _ in log]
        period = (max(sent) - min(sent)) / (len(sent) - 1) / 1e6
        assert row["publisher_period_ms"] == pytest.approx(period, rel=1e-4)
        # The queue has depth 10, and only a receiver that cannot keep up fills it.
        full = row["callback"] == "unique_ptr" and row["intra_process"] == "false"
        assert row["queue_full"] is full
        assert (row["queue_depth_seen"], row["queue_depth"]) == (10.0 if full else 0.0, 10)
        if not full:
            # The copy that the log's latency includes and the trace's does not is tested below.
            mine = [got - at for at, got in received]
            traced = report.analysed.messages.filter(pl.col("run") == row["run"])["latency_ns"]
            assert abs(statistics.median(mine) - statistics.median(traced)) < 30_000


def test_the_copy_of_a_unique_ptr_is_a_hop_of_its_own(report: CommunicationReport) -> None:
    copied = report.copied.filter(pl.col("copy_ns").is_not_null())
    assert copied["run"].unique().str.ends_with("unique_ptr_ipc-off").all()
    # With the copy, the trace's latency is the log's, except for the time before the first event.
    whole = pl.col("logged_callback_ns") - pl.col("logged_publish_ns")
    rest = copied.select(whole - pl.col("latency_ns") - pl.col("copy_ns")).to_series()
    assert rest.median() < 30_000
    copy = next(e for e in report.estimates if e.metric == "copy_after_callback_start")
    assert copy.value == pytest.approx(6.9e6, rel=0.05)
    assert "copy" in [hop.name for hop in flows_of(report)["unique_ptr", False]]


def test_the_log_s_own_latency_stands_beside_the_study_s(
    report: CommunicationReport,
) -> None:
    """Means of runs follow the programs' files; without a file the trace says only "at least"."""
    for estimate in (e for e in report.estimates if e.metric == "logged_latency_mean"):
        runs = [run for run in report.counting if dict(run.cell) == dict(estimate.cell)]
        of_runs = [
            statistics.fmean(got - at for at, got in logged(folder_of(run.name)) if got)
            for run in runs
        ]
        assert estimate.value == pytest.approx(statistics.fmean(of_runs), rel=1e-9)
    copies = repr(report.copies())
    assert "0; by reference 1" in copies
    assert "before the first event, by the log [ms]" in copies
    assert "at least 0" not in repr(report.published())
    cell = {"pointer": "shared", "intra_process": "on", "payload": 10_000_000}
    lacks = replace(
        next(e for e in report.estimates if e.metric == "latency_mean"), cell=cell, value=9e5
    )
    run = replace(report.counting[0], cell=cell)
    # One message of many was pushed out, which is no latency of a full queue.
    seldom = {run.name: Backlog(0.0, 10, pushed_out=1, largest_seen=9)}
    shown = published_table(read_published(PUBLISHED), [run], seldom, [lacks])
    assert "at least 0.9" in repr(shown)
    (ours,) = [row for row in shown.rows if row[1].startswith("here") and row[2:] != [""] * 6]
    assert ours[-1] == "latency, and waiting in a queue that was full at times"
    # No message that was received had any behind it: none waited.
    none_waited = {run.name: Backlog(0.0, 1, pushed_out=1, largest_seen=0)}
    assert latency_measures([run], none_waited) == "latency"


def test_p99_of_the_trace_is_not_held_against_means_of_the_logs(samples: list[Path]) -> None:
    """P99 of the cells in the order of their means, turned round."""
    here = report_of(*samples)
    p99 = [e for e in here.estimates if e.metric == "latency_p99"]
    # The larger the mean of the log, the smaller the made-up P99.
    logged_means = [e for e in here.estimates if e.metric == "logged_latency_mean"]
    contrary = [replace(e, metric="latency_p99", value=1 / e.value) for e in logged_means]
    here.__dict__["estimates"] = [e for e in here.estimates if e not in p99] + contrary
    sentences = " ".join(here.sentences())
    assert "by the programs' own logs" in sentences
    assert "At P99" not in sentences


def flows_of(report: CommunicationReport) -> dict[tuple[str, bool], list]:  # type: ignore[type-arg]
    from roslens.studies.communication.figures import median_flows

    flows = median_flows(report.copied, report.counting)
    return {
        ("unique_ptr" if "unique" in flow.title else "shared_ptr", "=True" in flow.title): flow.hops
        for flow in flows
    }


def test_hops_add_up_to_the_latency_of_each_message(report: CommunicationReport) -> None:
    messages = report.analysed.messages.filter(pl.col("latency_ns").is_not_null())
    assert messages.height == 599 + 600 + 3 * 600 + 339 + 354 + 342
    total = pl.sum_horizontal(*(f"hop_{hop}_ns" for hop in HOPS))
    assert messages.filter(total != pl.col("latency_ns")).is_empty()
    for hops in flows_of(report).values():
        assert all(a.end_ns == b.begin_ns for a, b in pairwise(hops))


def most_behind(report: CommunicationReport, cell: str) -> int:
    """Return the most publications of a topic between a message's publication and its take."""
    most = 0
    messages = report.analysed.messages.filter(pl.col("run").str.contains(cell))
    for _, rows in messages.group_by("run", "publisher_id"):
        sent = sorted(rows["publish_ns"].drop_nulls())
        for at, taken in rows.select("publish_ns", "take_ns").drop_nulls().iter_rows():
            most = max(most, bisect_right(sent, taken) - bisect_right(sent, at))
    return most


def test_a_full_queue_is_said_to_measure_backlog(report: CommunicationReport) -> None:
    text = repr(report.loss())
    # The logs count 252 + 240 + 251; publications behind are counted again here.
    most = most_behind(report, "unique_ptr_ipc-off")
    assert (
        "callback=unique_ptr, intra_process=False: the queue (depth 10) was full in 3 of 3 runs. "
        f"It pushed out 743 messages; those received had up to {most} later ones behind them. Its "
        "latency measures the backlog"
    ) in text
    depths = {
        (e.cell["callback"], e.cell["intra_process"]): e.verdict
        for e in report.estimates
        if e.metric == "queue_depth_seen"
    }
    assert depths.pop(("unique_ptr", False)) == "queue_full"
    assert set(depths.values()) == {"queue_not_full"}
    for e in report.estimates:
        if e.metric == "latency_mean":
            full = e.cell == {"callback": "unique_ptr", "intra_process": False}
            assert ("backlog" in e.definition) is full
    # The backlog is about depth x period, as in the study's inter-process cells.
    table = repr(report.backlog())
    assert "10.3" in table
    assert "101.2" in table


def test_a_queue_that_was_full_at_times_is_not_said_to_have_been_empty(tmp_path: Path) -> None:
    """In the demo's log, 9 of 277 messages were not received; half of the others did not wait."""
    ignored = shutil.ignore_patterns("events", "tables")
    folder = shutil.copytree(ROOT / "data" / "samples" / "demo", tmp_path / "demo", ignore=ignored)
    report = report_of(folder)
    (cell,) = report.cells.filter(pl.col("queue_full")).rows(named=True)
    log = logged(folder / cell["run"])
    missed = [at for at, got in log if got is None]
    assert (len(log), len(missed), cell["queue_depth_seen"]) == (277, 9, 0)
    most = most_behind(report, cell["run"])
    assert most >= 9
    assert (
        "executor=SingleThreaded: the queue (depth 10) was full in 1 of 3 runs. It pushed out "
        f"9 messages; those received had up to {most} later ones behind them. Its latency holds "
        "waiting in the queue."
    ) in repr(report.loss())


def test_published_figures_and_what_they_imply(report: CommunicationReport) -> None:
    text = repr(report.published())
    for shown in ("58.5 % (implied)", "56.0 % (implied)", "10.6", "10.4", "0.0 % (implied)"):
        assert shown in text, shown
    # Two are the study's inter-process cells, one is our cell in which messages are lost.
    assert text.count("backlog of a full queue") == 3
    assert "42 [37, 82] % (counted)" in text
    # The samples tell which pointer the callback takes, but not which one is published.
    assert text.count("callback takes shared_ptr") == text.count("callback takes unique_ptr") == 2


def test_the_log_is_shown_beside_the_trace(report: CommunicationReport) -> None:
    assert "Counts equal those of the log in all 8 runs." in repr(report.log())


def test_a_log_in_another_unit_is_said_to_fit_nothing(
    report: CommunicationReport, samples: list[Path]
) -> None:
    """The columns of nanoseconds hold microseconds."""
    altered = report_of(samples[1])
    times = pl.col("publish_realtime_ns", "callback_realtime_ns")
    altered.logged = altered.logged.with_columns(times // 1000)
    assert "In 2 runs no line of the log fits a message" in repr(altered.log())
    assert "no line of the log fits" not in repr(report.log())


def test_trace_and_log_are_compared_over_the_same_messages(report: CommunicationReport) -> None:
    compared = agreement(report.copied, [])
    assert compared.height == 8
    for row in compared.iter_rows(named=True):
        mine = [got - at for at, got in logged(folder_of(row["run"])) if got is not None]
        assert row["messages"] == len(mine)
        assert row["logged_latency_ns"] == pytest.approx(statistics.fmean(mine), rel=1e-9)
        owns = row["run"].endswith("unique_ptr_ipc-off")
        assert (row["after_ns"] > 0) is owns
    # These stand beside the printed latency of each cell.
    table = next(p for p in report.log().parts if isinstance(p, ReportTable))
    assert [row[-1] for row in table.rows] == ["178", "2.4", "185", "0.51"]
    lacks = table.columns.index("the trace lacks")
    assert [row[lacks] for row in table.rows] == ["", "", "the copy after callback_start", ""]


def test_only_the_factor_pointer_says_what_is_published() -> None:
    assert by_reference({"pointer": "shared", "intra_process": "on", "payload": 1})
    assert not by_reference({"pointer": "shared", "intra_process": "off"})
    assert not by_reference({"pointer": "unique", "intra_process": "on"})
    assert not by_reference({"callback": "shared_ptr", "intra_process": "on"})


def test_warm_up_leaves_out_publications_and_their_callbacks(samples: list[Path]) -> None:
    run = samples[0] / "001_r0_unique_ptr_ipc-on"
    (row,) = report_of(run, warm_up_s=3).cells.rows(named=True)
    log = logged(SAMPLES[0] / "001_r0_unique_ptr_ipc-on")
    late = [got for sent, got in log if sent >= log[0][0] + 3_000_000_000]
    assert row["publications"] == row["receptions"] == len(late)


def test_topics_can_be_chosen(samples: list[Path]) -> None:
    run = samples[0] / "001_r0_unique_ptr_ipc-on"
    (row,) = report_of(run, topics="/nothing").cells.rows(named=True)
    assert (row["publications"], row["receptions"]) == (0, 0)


# ---------------------------------------------------------------- with fewer events recorded


def without(sample: Path, folder: Path, dropped: Callable[[str], bool]) -> Path:
    """Make a run in which events of some names were never recorded."""
    shutil.copytree(sample, folder, ignore=shutil.ignore_patterns("events", "tables"))
    raw = read_raw(Recording.at(folder))
    kept = {name: frame for name, frame in raw.events.items() if not dropped(name)}
    (folder / "tables").mkdir()
    for name, frame in build_tables(kept, raw.losses).items():
        frame.write_parquet(folder / "tables" / f"{name}.parquet")
    return folder


def test_without_intra_process_events_the_figures_are_partial(tmp_path: Path) -> None:
    # Humble records like this: its only sign of a reception within the process is callback_start.
    def humble_lacks(name: str) -> bool:
        return any(part in name for part in ("intra_publish", "ring_buffer", "ipb"))

    run = without(SAMPLES[0] / "001_r0_unique_ptr_ipc-on", tmp_path / "run", humble_lacks)
    report = report_of(run, collect=False)
    (row,) = report.cells.rows(named=True)
    log = logged(SAMPLES[0] / "001_r0_unique_ptr_ipc-on")
    assert row["receptions"] == len([got for _, got in log if got])
    assert row["publications"] == 0
    assert row["latency_mean_ms"] is None
    assert row["evidence"].startswith("partial: of 600 callbacks within the process")
    assert "are partial: of 600 callbacks" in repr(report.loss())
    mean = next(e for e in report.estimates if e.metric == "subscription_period")
    assert mean.value == pytest.approx(9.99e6, rel=0.01)
    assert "partial in 1 of 1 runs" in mean.method
    for section in (report.periods, report.latency, report.hops, report.flow, report.copies):
        repr(section())


def test_without_takes_the_figures_are_approximate_or_partial(tmp_path: Path) -> None:
    def is_take(name: str) -> bool:
        return name.endswith("_take")

    run = without(SAMPLES[1] / "000_r0_shared_ptr_ipc-off", tmp_path / "run", is_take)
    report = report_of(run, collect=False)
    (row,) = report.cells.rows(named=True)
    assert row["receptions"] == 599
    assert row["evidence"].startswith(("approximate", "partial"))
    assert row["queue_depth_seen"] is None
    assert "joined by order" in row["evidence"]


def test_tracer_loss_makes_figures_partial(samples: list[Path], tmp_path: Path) -> None:
    run = shutil.copytree(samples[0] / "001_r0_unique_ptr_ipc-on", tmp_path / "run")
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["loss"]["discarded_events"] = 17
    (run / "manifest.json").write_text(json.dumps(manifest))
    report = report_of(run)
    assert "partial: the tracer lost 17 events" in report.cells["evidence"][0]
    assert "The tracer lost events in 1 of 1 runs" in repr(report.loss())


# ---------------------------------------------------------------- the notebook


def test_the_notebook_writes_cells_beside_metrics(samples: list[Path], tmp_path: Path) -> None:
    result = run_report("communication", samples, tmp_path / "out", console=Console(quiet=True))
    assert [path.name for path in result.files] == ["cells.csv"]
    assert result.metrics is not None
    metrics = read_metrics(result.metrics)
    assert len(metrics.recordings) == 8
    rows = list(csv.DictReader((tmp_path / "out" / "cells.csv").open()))
    wanted = {
        *("callback", "intra_process", "publications", "receptions", "lost"),
        *("publisher_period_ms", "subscription_period_ms", "latency_mean_ms", "queue_depth_seen"),
    }
    assert wanted <= set(rows[0])
    assert len(rows) == 8
    lost = {row["run"]: int(row["lost"]) for row in rows}
    assert sum(lost.values()) == 743  # counted in the logs: 252 + 240 + 251
    page = result.html.read_text()
    assert page.count("<figure") == 6
    assert "measures the backlog" in page


def test_published_figures_must_be_there(tmp_path: Path) -> None:
    parameters = CommunicationParameters.checked({"recordings": str(SAMPLES[0])})
    report = CommunicationReport(rl.open(SAMPLES[0], collect=False), parameters, tmp_path)
    with pytest.raises(UsageError, match=r"rclcpp_pr636\.csv: cannot be read"):
        report.published()
