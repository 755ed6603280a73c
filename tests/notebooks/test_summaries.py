"""Test summaries for pages and pull requests, and the index over reports.

Expected values are what the test itself wrote into metrics.json.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from roslens.analysis.estimate import Estimate
from roslens.analysis.metrics import Metrics, write_metrics
from roslens.index import write_index
from roslens.recording import UsageError
from roslens.summary_text import Summary

HOSTILE = "<img src=x onerror=alert(1)>|`a`\n# b"


def write(folder: Path, *, lost: int = 0) -> Path:
    estimates = [
        Estimate(
            metric="write_rate", definition="", better="higher", cell={"node": HOSTILE},
            value=value, low=None, high=None, level=0.95, unit="messages/s", runs=2, samples=9,
            effective_samples=None, method="", refused=HOSTILE, verdict=verdict,
        )
        for value, verdict in [(5.0, "leaks"), (7.0, "leaks"), (9.0, "not_enough_evidence")]
    ]  # fmt: skip
    run = {"run": "a", "cell": {}, "discarded_events": lost, "lost_packets": 0, "counts": True}
    runs = [run] * 2
    recorded = {"recording": HOSTILE, "recorded": "2026-11-21", "ROS 2": "jazzy"}
    return write_metrics(Metrics(runs, {}, estimates, recorded=recorded), folder)


def test_markdown_has_loss_and_verdicts_above_the_figures(tmp_path: Path) -> None:
    text = Summary.read(write(tmp_path, lost=3), "other").markdown()
    lines = text.splitlines()
    assert lines[0] == "### other: estimates"
    assert lines[2] == "2 runs (0 left out); the tracer lost events: 6 discarded."
    assert lines[4] == "Verdicts: leaks in 1 cell, not enough evidence in 1 cell."
    rows = [line for line in lines if line.startswith("|")]
    assert len(rows) == 2 + 3
    # Markup of a trace or of a reason is text: it adds no cell, heading or element.
    bars = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert len(bars) == 1
    assert not re.search(r"(?<!\\)<", text)
    assert not re.search(r"^# b", text, re.MULTILINE)


def test_the_section_for_a_page_is_loud_about_loss_and_escapes(tmp_path: Path) -> None:
    html = Summary.read(write(tmp_path, lost=3), "other").section()._repr_html_()
    assert "roslens-loud" in html
    assert "<img" not in html
    assert html.index("the tracer lost") < html.index("Verdicts") < html.index("<table")
    quiet = Summary.read(write(tmp_path), "other").section()._repr_html_()
    assert "roslens-loud" not in quiet


def test_the_index_links_every_report_with_loss_and_verdicts(tmp_path: Path) -> None:
    for name, lost in (("a b", 0), ("<i>c", 7)):
        folder = tmp_path / "latency" / name
        write(folder, lost=lost)
        for suffix in ("ipynb", "html"):
            (folder / f"latency.{suffix}").write_text("<html></html>")
    # Here are no metrics, a page that is no report, and one that a full disk cut off.
    (tmp_path / "start.ipynb").write_text("")
    (tmp_path / "start.html").write_text("<html></html>\n")
    (tmp_path / "other.html").write_text("<html></html>")
    (tmp_path / "half.ipynb").write_text("")
    (tmp_path / "half.html").write_text("<html>")
    page = write_index(tmp_path).read_text()
    links = re.findall(r'<a href="([^"]+)">', page)
    assert sorted(links) == ["latency/%3Ci%3Ec/latency.html", "latency/a%20b/latency.html",
                             "start.html"]  # fmt: skip
    assert "<i>c" not in page
    assert "<img" not in page
    assert page.count("&lt;img") == page.count("<td>2026-11-21</td><td>jazzy</td>") == 2
    assert page.count("leaks in 1 cell, not enough evidence in 1 cell") == 2
    assert "lost events: 14 discarded" in page
    assert page.count("background:#fde2d4") == 1
    # The index itself is no report.
    assert write_index(tmp_path).read_text().count("<a href") == 3


def test_no_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no report below it"):
        write_index(tmp_path)
    with pytest.raises(UsageError, match="no such folder"):
        write_index(tmp_path / "nowhere")
