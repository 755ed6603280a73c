"""Every notebook on every sample: it runs, or it refuses in one line; the figures are as kept.

The kept figures are a record of this implementation, with a tolerance; those whose origin is
independent are computed a second time by independent.py: see golden/README.md.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, sync_playwright

import roslens as rl
from roslens.report import ReportResult
from roslens.summary_text import SUMMARY_NAME, Summary

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "workbench"))
import golden
import independent
import running_lab
from drawn import first_screen

# What a browser would load: everything but what is within the page itself, and links to click on.
LOADED = re.compile(
    r"""<(?!a\b)[a-z]+\b[^>]*\b(?:src|href|srcset|poster|data)\s*=\s*["'](?!data:|\#)""",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: the tables are made once, and not in the repository."""
    copy = tmp_path_factory.mktemp("samples") / "samples"
    shutil.copytree(golden.SAMPLES, copy, ignore=shutil.ignore_patterns("tables", "events"))
    return copy


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = running_lab.chromium(playwright)
        yield browser
        browser.close()


@pytest.mark.recording
@pytest.mark.parametrize(("notebook", "sample"), golden.pairs())
def test_a_notebook_on_a_sample(
    samples: Path, tmp_path: Path, browser: Browser, notebook: str, sample: str
) -> None:
    kept = kept_of(notebook, sample)
    result = golden.run(notebook, samples / sample, tmp_path / "out")
    found = golden.found_by(result)
    assert found.get("refused") == kept.get("refused")
    if not isinstance(result, ReportResult):
        assert "\n" not in result
        return
    # The same estimates, in the same order, with the same verdicts and refusals.
    facts = ("metric", "cell", "verdict", "refused")
    assert [[e[name] for name in facts] for e in found["estimates"]] == [
        [e[name] for name in facts] for e in kept["estimates"]
    ]
    for have, want in zip(found["estimates"], kept["estimates"], strict=True):
        for name in ("value", "low", "high"):
            about = f"{name} of {want['metric']} in {want['cell']}"
            if want[name] is None:
                assert have[name] is None, about
            else:
                close = pytest.approx(want[name], rel=kept["tolerance"], abs=1e-9)
                assert have[name] == close, about
    page = result.html.read_text()
    assert not LOADED.search(page)
    assert page.count("<script") == 1
    assert "@import" not in page
    assert "url(" not in page
    assert len(page) < 5_000_000
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    if result.metrics is not None:
        # Runs and loss, then verdicts and figures in short, stand above everything else.
        told = Summary.read(result.metrics, notebook)
        assert page.index(escape(told.runs)) < page.index("<table")
        assert told.answer
        assert (result.metrics.parent / SUMMARY_NAME).read_text().startswith("**")
        first_screen(browser, result.html, told.answer[0])


def kept_of(notebook: str, sample: str) -> dict[str, Any]:
    """The golden file of a pair."""
    kept: dict[str, Any] = json.loads(golden.place(notebook, sample).read_text(encoding="utf-8"))
    return kept


AGAIN = [
    pair for pair in golden.pairs() if golden.INDEPENDENT in kept_of(*pair)["origins"].values()
]


@pytest.fixture(scope="module")
def facts(samples: Path) -> Callable[[str], list[independent.Facts]]:
    """What a sample's runs say, walked through once."""

    @cache
    def of(sample: str) -> list[independent.Facts]:
        opened = rl.open(samples / sample)
        return [independent.facts_of(recording.path) for recording in opened.recordings]

    return of


@pytest.mark.recording
@pytest.mark.parametrize(("notebook", "sample"), AGAIN)
def test_kept_figures_are_those_of_a_second_implementation(
    facts: Callable[[str], list[independent.Facts]], notebook: str, sample: str
) -> None:
    kept = kept_of(notebook, sample)
    compared = set()
    for e in kept["estimates"]:
        if not independent.computed(e, sample):
            continue
        service = e["cell"].get("service")
        told = {"service", "topic"}
        cell = {name: level for name, level in e["cell"].items() if name not in told}
        runs = [f for f in facts(sample) if all(f.cell.get(n) == x for n, x in cell.items())]
        found = independent.figure(e["metric"], runs, service)
        bounds = (e["low"], e["high"]) if e["metric"] not in independent.WITHOUT_INTERVAL else ()
        wanted = [e["value"], *(x for x in bounds if x is not None)]
        about = f"{e['metric']} in {e['cell']}"
        assert found[: len(wanted)] == pytest.approx(wanted, rel=kept["tolerance"], abs=1e-9), about
        compared.add(e["metric"])
    stated = {m for m, origin in kept["origins"].items() if origin == golden.INDEPENDENT}
    assert compared == stated
    assert kept["origins"].keys() == kept["metrics"].keys()
