"""Test what a calibration reports, by hand, and that its simulations agree with the estimators."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from roslens.analysis.calibration import intervals, losses, verdicts, zoo
from roslens.analysis.calibration.report import SECTIONS, CalibrationParameters, CalibrationReport
from roslens.analysis.calibration.results import Result, Section, from_csv, results_frame
from roslens.analysis.calibration.series import autoregressive, generator, skewed_effects
from roslens.analysis.calibration.verdicts import pools
from roslens.analysis.metrics import read_metrics
from roslens.analysis.runs import Run
from roslens.analysis.statistics.over_runs import student_t
from roslens.recording.errors import UsageError

ROOT = Path(__file__).parents[2]


def result(hits: int, low: float | None = None, high: float | None = None) -> Result:
    return Result("a title", {"n": "5", "phi": "0.9"}, "coverage", hits, 100, low, high)


def test_fractions_and_bars_by_hand() -> None:
    # 95 of 100: error sqrt(.95 * .05 / 100) = .0218.
    assert str(result(95)) == "0.950 ± 0.022"
    assert result(95).holds is None
    assert result(95, 0.93, 0.97).holds is True
    # Two errors at .5 are .1: .5 is within .6 give or take, .49 is not.
    assert result(50, 0.6).holds is True
    assert result(49, 0.6).holds is False
    # For none or all, the error is that of one: two errors of 1 in 100 are .0199.
    assert result(0).error == pytest.approx(0.00995, abs=1e-5)
    assert result(100, None, 0.97).holds is False
    assert result(100, None, 0.981).holds is True


def test_results_survive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    results = [result(95, 0.93, 0.97), result(3, None, 0.06), result(7)]
    results_frame(results).write_csv(path)
    text = path.read_text()
    assert from_csv(path) == results
    for wrong in ("section,cell\n", "section,cell\na,b\n", text.replace("95", "x")):
        path.write_text(wrong)
        with pytest.raises(UsageError, match="calibrate"):
            from_csv(path)
    with pytest.raises(UsageError, match="calibrate"):
        from_csv(tmp_path / "none.csv")


def test_the_page_marks_what_misses() -> None:
    text = Section(
        "a title", "how", ("n",), [result(95, 0.93, 0.97), result(40, 0.93, 0.97)]
    ).markdown()
    assert "Bar: coverage 0.93 to 0.97 (1 miss it, in bold)." in text
    assert "**0.400 ± 0.049**" in text
    assert "| phi | 5, coverage |" in text
    assert "Bar" not in Section("t", "how", (), [result(95)]).markdown()


def test_series_have_the_correlation_asked_for() -> None:
    series = autoregressive(generator("a"), (50, 4000), 0.9)
    assert float(series.var()) == pytest.approx(1, abs=0.05)
    assert float((series[:, 1:] * series[:, :-1]).mean()) == pytest.approx(0.9, abs=0.05)
    dealt = skewed_effects(generator("b"), (100_000,))
    assert float(dealt.mean()) == pytest.approx(0, abs=0.02)
    assert float(dealt.std()) == pytest.approx(1, abs=0.02)
    assert float((dealt**3).mean()) == pytest.approx(2, abs=0.3)
    # The same cell gives the same numbers.
    assert generator("c", 1).normal() == generator("c", 1).normal()
    assert generator("c", 1).normal() != generator("c", 2).normal()


def test_the_vectorised_interval_is_that_of_the_estimator() -> None:
    samples = np.random.default_rng(1).normal(size=(200, 5))
    hits = 0
    for row in samples:
        interval = student_t(row)
        hits += interval.low <= 0.3 <= interval.high
    assert intervals.covered(samples, 0.3) == hits


def test_the_vectorised_exit_codes_are_those_of_the_verb() -> None:
    rng = np.random.default_rng(2)
    base = np.abs(1 + 0.05 * rng.normal(size=(30, 4, 6)))
    new = rng.choice([0.8, 1.0, 1.06, 1.2], size=(30, 1, 1)) * np.abs(
        1 + 0.03 * rng.normal(size=(30, 4, 6))
    )
    codes = verdicts.exit_codes(new, base)
    assert set(codes.tolist()) == {0, 1, 3}
    assert [verdicts.compared(n, b) for n, b in zip(new, base, strict=True)] == codes.tolist()


@pytest.mark.parametrize("name", [n for n in SECTIONS if n not in {"leaks", "spreads", "shapes"}])
def test_each_section_simulates(name: str) -> None:
    """So few simulations show only a gross error: most meet the bar, give or take two errors."""
    section = SECTIONS[name](40)
    assert section.results
    assert all(
        r.count in ((40,) if name not in {"one_run", "losses"} else range(41))
        and r.section == section.title
        for r in section.results
    )
    missed = sum(r.holds is False for r in section.results)
    assert missed <= 0.3 * len(section.results)
    assert section.markdown().startswith(f"## {section.title}")


def test_shapes_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a few of the shapes run, with two experiments of each."""
    monkeypatch.setattr(zoo, "OTHERS", ())
    chosen = ["20 kB/s", "saw of 10 MB, 60 s", "8 MB once, at 300 s"]
    monkeypatch.setattr(zoo, "SHAPES", {name: zoo.SHAPES[name] for name in chosen})
    section = zoo.shapes(50)
    assert {r.cell["shape"] for r in section.results} == set(chosen)
    assert [r.hits for r in section.results if r.what == "wrong"] == [0] * 6
    climbs = [r.hits for r in section.results if r.what == "climbs"]
    assert climbs == [2, 2, 0, 0, 0, 0]


def messages(runs: int, each: int) -> pl.DataFrame:
    rng = np.random.default_rng(3)
    return pl.concat(
        pl.DataFrame(
            {
                "run": f"r{i}",
                "topic": "/a",
                "outcome": "delivered",
                "publish_ns": np.arange(each),
                "latency_ns": rng.integers(1000, 2000, each),
            }
        )
        for i in range(runs)
    )


def test_pieces_of_recorded_runs_by_hand() -> None:
    frame = messages(3, 120)
    callbacks = frame.select(
        "run",
        name=pl.lit("/b"),
        kind=pl.lit("timer"),
        start_ns="publish_ns",
        duration_ns=pl.lit(7, pl.Int64),
    )
    runs = [Run(f"r{i}", {"c": 1}) for i in range(3)]
    by_label = pools(frame.lazy(), callbacks.lazy(), runs)
    # Durations never vary and are left out. There are four pieces of 30 from each of 3 runs.
    assert set(by_label) == {f"c=1, /a: {s}" for s in ("mean", "P50", "P90")}
    first = frame["latency_ns"][:30].to_numpy()
    assert by_label["c=1, /a: mean"].size == 12
    assert by_label["c=1, /a: mean"][0] == pytest.approx(first.mean())
    # One run is too short for four pieces of 30, and one failed.
    assert pools(messages(3, 119).lazy(), callbacks.lazy(), runs) == {}
    failed = [Run(r.name, r.cell, status="failed") for r in runs]
    assert pools(frame.lazy(), callbacks.lazy(), failed) == {}


def test_splits_of_the_same_are_no_regression() -> None:
    rng = np.random.default_rng(4)
    series = [rng.lognormal(size=12) for _ in range(24)]
    section = verdicts.splits(series, 200, "simulated")
    (exit_1,) = [r for r in section.results if r.what == "exit 1"]
    assert exit_1.holds is True


def test_stored_results_hold_every_bar_and_are_those_of_the_page() -> None:
    stored = from_csv(ROOT / "data" / "calibration" / "results.csv")
    assert not [r for r in stored if r.holds is False]
    # There are enough simulations. Shapes of memory take longer, and more of them are shown; for
    # losses those that are not refused count.
    held = [r for r in stored if r.holds is not None]
    assert min(r.count for r in held if r.section not in (zoo.TITLE, losses.TITLE)) >= 5000
    assert min(r.count for r in held) >= 200
    page = (ROOT / "docs" / "calibration.md").read_text()
    assert [str(r) for r in stored if str(r) not in page] == []
    assert {f"## {r.section}" for r in stored} <= set(page.splitlines())


def test_a_report_of_stored_results(tmp_path: Path) -> None:
    stored = ROOT / "data" / "calibration" / "results.csv"
    report = CalibrationReport(
        None,
        CalibrationParameters.checked({"results": str(stored), "output_dir": str(tmp_path)}),
    )
    assert "cells hold their bar; 200 to 5,000" in repr(report.overview())
    figure = report.fractions("exit 1")
    assert "0 miss it" in repr(figure)
    assert "There are no results of nothing" in repr(report.fractions("nothing"))
    report.write()
    metrics = read_metrics(tmp_path)
    assert len(metrics.estimates) == sum(r.holds is not None for r in from_csv(stored))
    assert {e.verdict for e in metrics.estimates} == {"holds"}
    assert from_csv(tmp_path / "results.csv") == from_csv(stored)
