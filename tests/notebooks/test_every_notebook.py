"""Test every notebook on every sample: it runs, or it refuses in one line.

independent.py computes the figures a second time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from pathlib import Path

import independent
import nbformat
import pytest
from drawn import executed, first_screen
from playwright.sync_api import Browser
from rich.console import Console
from told import checked, reversed_unsaid

import roslens as rl
import roslens.report
from roslens.execution import known_parameters
from roslens.recording import UsageError
from roslens.report import find_notebook, run_report
from roslens.summary_text import SUMMARY_NAME, Summary

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples"

# A browser would load everything except what is within the page itself, and links to click.
LOADED = re.compile(
    r"""<(?!a\b)[a-z]+\b[^>]*\b(?:src|href|srcset|poster|data)\s*=\s*["'](?!data:|\#)""",
    re.IGNORECASE,
)


def pairs() -> list[tuple[str, str]]:
    """Pair every notebook that takes recordings with every sample.

    Calibration is about simulations and takes no sample except for one table, so it runs once. Of
    the sample of chains only the notebook it is for is tested.
    """
    names = [p.name for p in SAMPLES.iterdir() if p.name not in ("README.md", "hung.tar.zst")]
    notebooks = sorted(p.stem for p in (ROOT / "notebooks").glob("*.ipynb"))
    taking = [n for n in notebooks if "recordings" in known_parameters(find_notebook(n))]
    return [(notebook, sample) for notebook in taking for sample in sorted(names)
            if (notebook != "calibration" or sample == "demo")
            and (sample != "chain.tar.zst" or notebook == "chains")]  # fmt: skip


@cache
def runs_of(sample: Path) -> list[independent.Run]:
    """Return the runs of a collected sample, read once."""
    return independent.runs_of(rl.open(sample))


def executed_here(
    source: Path, _: Path, parameters: Mapping[str, object], *more: object
) -> nbformat.NotebookNode:
    """Execute a notebook here, as `roslens.execution.execute` does in a kernel."""
    return executed(source.stem, **parameters)[0]


@pytest.mark.recording
@pytest.mark.parametrize("pair", pairs(), ids="-".join)
def test_a_notebook_on_a_sample(
    samples: Path,
    tmp_path: Path,
    browser: Browser,
    monkeypatch: pytest.MonkeyPatch,
    pair: tuple[str, str],
) -> None:
    notebook, sample = pair
    quiet = Console(quiet=True)
    if sample != "demo":
        # Each notebook runs in a kernel once, as starting one takes longer than most notebooks.
        monkeypatch.setattr(roslens.report, "execute", executed_here)
    if notebook == "storage":
        with pytest.raises(UsageError, match=r"^none of the .* 'roslens record --suite storage'$"):
            run_report(notebook, [samples / sample], tmp_path / "out", console=quiet)
        return
    result = run_report(notebook, [samples / sample], tmp_path / "out", console=quiet)
    estimates = []
    if result.metrics is not None:
        written = json.loads(result.metrics.read_text(encoding="utf-8"))
        estimates = written["estimates"]
        answer = " ".join(written["answer"])
        if notebook != "calibration":
            assert checked(answer, estimates)[1] == []
        assert reversed_unsaid(notebook, answer, estimates) == []
    # Simulations are data/calibration/results.csv, which tests/analysis checks against its bars.
    estimates = [e for e in estimates if "section" not in e["cell"]]
    expected = independent.expected_of(notebook, sample, runs_of(samples / sample), estimates)
    assert independent.differences(expected, estimates) == []
    page = result.html.read_text()
    assert not LOADED.search(page)
    assert page.count("<script") == 1
    assert "@import" not in page
    assert "url(" not in page
    assert len(page) < 3_000_000
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    if result.metrics is not None:
        # Runs and loss, then brief verdicts and figures, stand above everything else.
        summary = Summary.read(result.metrics, notebook)
        assert page.index(escape(summary.runs)) < page.index("<table")
        assert summary.answer
        assert (result.metrics.parent / SUMMARY_NAME).read_text().startswith("**")
        first_screen(browser, result.html, summary.answer[0])
