"""Test a small campaign of the suite storage: recorded, collected, judged."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from storage_cells import ON_SHM, ROOT

import roslens as rl
from roslens.recording import UsageError
from roslens.studies.storage.report import StorageParameters, StorageReport
from roslens.studies.storage.results.comparison import read_digests
from roslens.studies.storage.results.runs import read_storage_run, write_calls
from roslens.studies.storage.statements import comparisons
from roslens.studies.storage.workloads.storage.cells import PROGRAMS_VARIABLE
from roslens.tracing import campaign
from roslens.tracing.suite import load_suite

CONFIGS = ("sqlite_default", "mcap_default")

pytestmark = [
    *ON_SHM,
    pytest.mark.skipif(shutil.which("lttng") is None, reason="no LTTng"),
]


@pytest.fixture(scope="module")
def folder(programs: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    suite, text = load_suite("storage")
    small = suite.workload.model_copy(update={"parameters": {"bytes": "4MiB"}})
    suite = suite.model_copy(update={"workload": small, "repetitions": 3})
    with pytest.MonkeyPatch.context() as patch:
        variables = {PROGRAMS_VARIABLE: programs}
        patch.setattr(campaign, "prepared_variables", lambda *_: variables)
        result = campaign.run_campaign(
            suite,
            text,
            root=tmp_path_factory.mktemp("recordings"),
            only=[
                *("message_size=10KiB", "batch_size=1KiB"),
                *(f"plugin_config={config}" for config in CONFIGS),
            ],
        )
    assert [m.failure for m in result.failed] == []
    assert len(result.complete) == 6
    return result.folder


def test_tracepoints_and_the_own_clock_agree(folder: Path) -> None:
    """Both are read again here: medians of calls, so that a busy machine decides nothing."""
    opened = rl.open(folder)
    for recording in opened.recordings:
        run = read_storage_run(recording.path / "native")
        assert run.facts.tracepoints
        traced = write_calls(recording.events)
        assert traced is not None
        assert traced["call"].to_list() == list(range(run.facts.write_calls))
        clocked = run.batches.calls["write_ns"].to_numpy()
        seen = (traced["end_ns"] - traced["begin_ns"]).to_numpy()
        # The cost of a tracepoint depends on the machine (200 to 400 ns on a quiet one), but a call
        # is nearer to its own tracepoints than to those of its neighbours.
        difference = np.median(np.abs(seen - clocked))
        assert difference < np.median(np.abs(seen[1:] - clocked[:-1]))
        assert difference < np.median(np.abs(seen[:-1] - clocked[1:]))
        # The tracepoints enclose the readings of the program's clock.
        assert (seen >= clocked).mean() > 0.99


def test_the_report_of_a_small_campaign(folder: Path, tmp_path: Path) -> None:
    parameters = StorageParameters(recordings=[str(folder)], output_dir=str(tmp_path))
    report = StorageReport(
        rl.open(folder), read_digests(ROOT / "studies" / "storage" / "data"), parameters
    )
    assert "equal" not in str(report.loss())
    assert "Read back with" in str(report.loss())
    text = str(report.verdicts())
    assert "mcap" in text.lower()
    assert [t.verdict for t in report.takeaways][1] == "refused"
    assert [a.matched for a in report.agreements] == [a.calls for a in report.agreements]
    disagreeing = sum(not a.agrees for a in report.agreements)  # of a slow machine's tracepoints
    sentence = f"In {disagreeing} of 6 runs" if disagreeing else "agree in all 6 runs"
    assert sentence in str(report.clocks())
    report.write()
    written = pl.read_csv(tmp_path / "cells.csv")
    assert written.height == 2
    for row in written.iter_rows(named=True):
        runs = [
            read_storage_run(r.path / "native")
            for r in rl.open(folder).recordings
            if r.manifest is not None
            and r.manifest.factors["plugin_config"] == row["plugin_config"]
        ]
        # By hand: bytes over the sum of write times and close time, averaged over runs.
        by_hand = [
            r.facts.bytes / (int(r.batches.calls["write_ns"].sum()) + r.facts.close_ns) * 1e9
            for r in runs
        ]
        assert row["mean"] == pytest.approx(np.mean(by_hand), rel=1e-12)


def test_a_cell_without_one_of_its_runs_is_not_compared(folder: Path) -> None:
    report = StorageReport(
        rl.open(folder), pl.DataFrame(), StorageParameters(recordings=[str(folder)])
    )
    assert report.compared.filter(statement="on_par").height == 1
    without = report.digests.filter(
        ~((pl.col("plugin_config") == "mcap_default") & (pl.col("run") == 1))
    )
    assert comparisons(without, 0.05).is_empty()


def test_results_that_contradict_each_other_are_refused(folder: Path, tmp_path: Path) -> None:
    native = next(folder.glob("*/native"))
    copy = tmp_path / "native"
    shutil.copytree(native, copy)
    lines = (copy / "writes.csv").read_text().splitlines(keepends=True)
    (copy / "writes.csv").write_text("".join([*lines[:-2], lines[-1]]))
    with pytest.raises(UsageError, match="contradict"):
        read_storage_run(copy)
    (copy / "run.json").write_text("{}")
    with pytest.raises(UsageError, match=r"run\.json"):
        read_storage_run(copy)
