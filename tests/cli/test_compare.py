"""Test ``roslens compare`` as a user types it."""

import json
from pathlib import Path

import pytest
from command_line import Roslens
from test_errors import check_one_line
from tests.samples import SAMPLES

from roslens.analysis.estimate import Metric
from roslens.analysis.metrics import Metrics, write_metrics
from roslens.analysis.statistics.over_runs import value_over_runs

CPU = Metric("cpu", "CPU time / time", "core")


def metrics(folder: Path, factor: float, *cells: str, **factors: str) -> Path:
    values = [factor * v for v in (0.99, 1.0, 1.01, 1.0, 1.0)]
    estimates = [value_over_runs(CPU, {"cell": c, **factors}, values, 5) for c in cells or ("a",)]
    runs = [
        {"run": f"{e.cell['cell']}{i}", "cell": dict(e.cell), "counts": True, "discarded_events": 0}
        for e in estimates
        for i in range(5)
    ]
    return write_metrics(Metrics(runs, {}, estimates), folder)


def test_exit_codes(roslens: Roslens, tmp_path: Path) -> None:
    base = metrics(tmp_path / "base", 1.0)
    for factor, code, verdict in ((1.1, 1, "regression"), (1.0, 0, "no_difference")):
        new = metrics(tmp_path / str(factor), factor)
        run = roslens("compare", base, new, "--json", "out.json", "--plot", "out.svg")
        assert run.returncode == code, run.stderr
        assert verdict in run.stdout
        result = json.loads((tmp_path / "out.json").read_text())
        assert result["exit_code"] == code
        assert result["comparisons"][0]["verdict"] == verdict
        assert (tmp_path / "out.svg").read_text().startswith("<?xml")
    new = metrics(tmp_path / "more", 1.0, "a", "b")
    run = roslens("compare", base, new)
    assert run.returncode == 3
    # What CI must do is said first; what only one side has is counted.
    assert run.stdout.splitlines()[0].startswith("compare: 1 comparison in 1 cell: 1 no_difference")
    told = " ".join(run.stdout.split())
    assert "Exit code 3: not enough evidence." in told
    assert "Only in NEW: 1, such as cpu of cell=b." in told
    tolerant = roslens("compare", base, tmp_path / "1.1", "--threshold", "20%", "--metric", "cpu")
    assert tolerant.returncode == 0


def test_wrong_use(roslens: Roslens, tmp_path: Path) -> None:
    base = metrics(tmp_path / "base", 1.0)
    check_one_line(roslens("compare", base, "no/such"), 2, "no/such")
    check_one_line(roslens("compare", base, base, "--metric", "speed"), 2, "speed", "cpu")
    check_one_line(roslens("compare", base, base, "--threshold", "x"), 2, "--threshold x")
    check_one_line(roslens("compare", base, base, "--plot", "a.doc"), 2, "a.doc", ".png")
    base.write_text("{}")
    check_one_line(roslens("compare", base, base), 2, "schema version None")


def test_factors_that_are_not_matched_on(roslens: Roslens, tmp_path: Path) -> None:
    base = metrics(tmp_path / "fast", 1.0, "a", rmw="fastrtps")
    new = metrics(tmp_path / "cyclone", 1.2, "a", rmw="cyclonedds")
    output = " ".join(roslens("compare", base, new).stdout.split())
    assert "compare: nothing was compared" in output
    assert "Only in NEW: 1, such as cpu of rmw=cyclonedds." in output
    # Nothing is tabulated that is only on one side.
    assert "verdict" not in output
    assert "rmw is fastrtps in BASE and cyclonedds in NEW. --across rmw compares them" in output
    several = [metrics(tmp_path / letters, 1.0, *letters) for letters in ("ab", "cd")]
    output = " ".join(roslens("compare", *several).stdout.split())
    assert "cell is a, b in BASE and c, d in NEW. --ignore cell compares them" in output
    for option in ("--across", "--ignore"):
        run = roslens("compare", base, new, option, "rmw", "--markdown")
        assert run.returncode == 1, run.stderr
        assert "+20.0" in run.stdout
    across = roslens("compare", base, new, "--across", "rmw")
    assert "across rmw: BASE fastrtps, NEW cyclonedds" in across.stdout
    check_one_line(roslens("compare", base, new, "--across", "speed"), 2, "speed", "cell, rmw")
    cells = metrics(tmp_path / "cells", 1.0, "a", "b", rmw="fastrtps")
    check_one_line(roslens("compare", cells, new, "--ignore", "cell"), 2, "give the recordings")
    check_one_line(roslens("compare", base), 2, "give two paths", "--by")
    check_one_line(roslens("compare", base, new, "--by", "rmw"), 2, "leave out")
    check_one_line(roslens("compare", base, "--by", "rmw"), 2, "has one level, fastrtps")
    # Levels in a metrics.json, whose runs are not known, are compared as independent sides.
    run = roslens("compare", cells, "--by", "cell")
    assert run.returncode == 0, run.stderr
    assert "b / a" in run.stdout


@pytest.mark.recording
def test_levels_of_recordings_within_blocks(roslens: Roslens, tmp_path: Path) -> None:
    name = "communication"
    run = roslens("compare", SAMPLES / name, "--by", "intra_process", "--json", "out.json")
    assert run.returncode == 3, run.stderr  # P99 of so few messages
    comparisons = json.loads((tmp_path / "out.json").read_text())["comparisons"]
    by_metric = {c["metric"]: c for c in comparisons}
    # Ground truth: the program's own log says that intra-process messages are faster, and that none
    # is lost.
    assert by_metric["latency_p50"]["verdict"] == by_metric["loss"]["verdict"] == "improvement"
    assert "ratio of geometric means within 3 blocks" in by_metric["latency_p50"]["notes"]


@pytest.mark.recording
def test_recordings_against_themselves(roslens: Roslens) -> None:
    run = roslens("compare", SAMPLES / "communication", SAMPLES / "communication")
    # With few short runs, P99 and other metrics are undecided; no metric can have regressed.
    assert run.returncode == 3, run.stderr
    assert "is it the same data?" in " ".join(run.stdout.split())
    assert "regression" not in run.stdout
