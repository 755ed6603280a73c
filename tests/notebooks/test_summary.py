"""Test the table that ends ``roslens report``, against estimates written by the test itself."""

from __future__ import annotations

from pathlib import Path

from roslens.analysis.estimate import Estimate
from roslens.analysis.metrics import Metrics, write_metrics
from roslens.printed import table_lines
from roslens.summary import summary_table


def estimate(metric: str, value: float | None, **more: object) -> Estimate:
    fields: dict[str, object] = {
        "metric": metric,
        "definition": "",
        "better": "lower",
        "cell": {"executor": "single", "payload": 10},
        "value": value,
        "low": None if value is None else 0.9 * value,
        "high": None if value is None else 1.1 * value,
        "level": 0.95,
        "unit": "messages",
        "runs": 3,
        "samples": 30,
        "effective_samples": None,
        "method": "",
    }
    return Estimate(**{**fields, **more})  # type: ignore[arg-type]


def text_of(folder: Path, notebook: str, *estimates: Estimate, failed: int = 0) -> str:
    recordings = [
        {"run": str(i), "cell": {}, "discarded_events": 2, "lost_packets": 0, "counts": i >= failed}
        for i in range(4)
    ]
    metrics = write_metrics(Metrics(recordings, {}, list(estimates)), folder)
    return "\n".join(line for line, _ in table_lines(summary_table(metrics, notebook), 110))


def test_any_metrics_have_a_table(tmp_path: Path) -> None:
    text = text_of(
        tmp_path,
        "other",
        estimate("memory_slope", 1000.0, verdict="climbs"),
        estimate("write_rate", None, refused="2 runs; at least 3 are needed"),
        estimate("cpu", None, refused="2 runs; at least 3 are needed"),
        failed=1,
    )
    assert "other: estimates" in text
    for shown in ("memory_slope", "1,000", "[900, 1,100]", "messages", "climbs", "payload=10"):
        assert shown in text, shown
    assert text.count("refused (1)") == 2
    assert text.count("(1) 2 runs; at least 3 are needed") == 1
    assert "4 runs (1 left out); the tracer lost events: 8 discarded" in text


def test_what_refuses_every_interval_is_said_once(tmp_path: Path) -> None:
    refusal = "1 run; at least 3 are needed"
    estimates = [estimate(name, 1000.0, refused=refusal) for name in ("memory_slope", "cpu")]
    text = text_of(tmp_path, "other", *estimates, estimate("rss", None, refused="not measured"))
    assert text.count("1,000") == 2
    assert text.count(f"no intervals: {refusal}") == text.count(refusal) == 1
    assert text.count("refused (1)") == text.count("(1) not measured") == 1
    further = estimate("rss", 3.0, refused="too few samples")
    text = text_of(tmp_path / "two", "other", *estimates, further)
    assert text.count("1,000 (1)") == 2
    assert text.count("3.00 (2)") == 1
    assert f"(1) no interval: {refusal}" in text


def test_what_no_run_was_recorded_for_says_where_it_is_from(tmp_path: Path) -> None:
    for folder, recorded, origin in (
        ("one", {}, "from published figures"),
        ("two", {"from": "mine.csv", "rows": "3"}, "from mine.csv"),
    ):
        metrics = Metrics([], {}, [estimate("x", 1.0)], recorded=recorded)
        table = summary_table(write_metrics(metrics, tmp_path / folder), "storage")
        assert table.notes[0] == origin


def test_no_column_of_verdicts_without_one(tmp_path: Path) -> None:
    assert "verdict" not in text_of(tmp_path, "own", estimate("x", 1.0))


def test_many_estimates_are_cut_and_counted(tmp_path: Path) -> None:
    many = [estimate(f"m{i}", 1.0) for i in range(50)]
    text = text_of(tmp_path, "own", *many)
    assert "10 more estimates are in metrics.json" in text
    assert "m49" not in text


def test_latency_has_one_row_per_cell(tmp_path: Path) -> None:
    text = text_of(
        tmp_path,
        "latency",
        *(estimate(name, 2e6, unit="ns") for name in ("latency_mean", "latency_p50")),
        estimate("latency_p50", 2e6, unit="ns", cell={"topic": "/x"}),
        estimate("cpu", 1.0, unit="core"),
    )
    assert "Latency, publish to callback" in text
    assert "P50 [ms]" in text
    assert "cpu" not in text
    assert "/x" not in text
