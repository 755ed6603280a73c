"""Test ``roslens PATH --html`` in Chromium: one screen, and timelines that can be clicked."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from drawn import first_screen
from nbformat.v4 import new_code_cell, new_notebook, new_output
from playwright.sync_api import Browser
from tests.workbench.running_lab import new_page

import roslens as rl
from roslens.analysis.reports.numbers import duration
from roslens.analysis.reports.table import ReportTable
from roslens.first_page import FirstPage
from roslens.html_page import html_document, html_page

SAMPLES = ("two_process", "communication", "demo", "chain.tar.zst", "lifecycle", "leak.tar.zst",
           "hung.tar.zst")  # fmt: skip

# One timer skipped a release, and one topic has a tail: neither is lost messages, a hang or a leak.
SLOWEST_FIRST = ("two_process", "chain.tar.zst")

pytestmark = pytest.mark.recording


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_first_screen(samples: Path, tmp_path: Path, browser: Browser, sample: str) -> None:
    first_page = FirstPage(rl.open(samples / sample), [samples / sample])
    page = tmp_path / "page.html"
    page.write_text(first_page.html())
    assert page.stat().st_size < 3_000_000
    expected = (
        first_page.suspicions[0].sentence if first_page.suspicions else "Nothing that is looked for"
    )
    if sample in SLOWEST_FIRST:
        expected = "Slowest"
    view = new_page(browser)
    view.goto(page.as_uri())
    answer = view.locator(".roslens-answer").inner_text()
    view.close()
    assert answer.startswith(" ".join(expected.split()))
    first_screen(browser, page, answer)


def test_a_wide_frame_is_scrolled_by_itself(tmp_path: Path, browser: Browser) -> None:
    frame = pl.DataFrame({f"column_{i}": ["a" * 30] for i in range(20)})
    shown = new_output("display_data", {"text/html": frame._repr_html_()})
    page = tmp_path / "page.html"
    page.write_text(html_page(new_notebook(cells=[new_code_cell(outputs=[shown])]), "t"))
    view = new_page(browser, 420)
    view.goto(page.as_uri())
    assert view.locator(".dataframe").evaluate("e => e.scrollWidth > e.clientWidth")
    assert view.evaluate("() => document.documentElement.scrollWidth") == 420
    view.close()


def test_a_long_name_leaves_the_figures_in_view(tmp_path: Path, browser: Browser) -> None:
    """Two names of 300 letters and a figure: 2 * 24 em and a little fit into a page."""
    table = ReportTable(["from", "to", "n", "P50"], [["a" * 300, "b" * 300, "1,000", "2.5"]], "t")
    page = tmp_path / "page.html"
    page.write_text(html_document("t", table._repr_html_()))
    view = new_page(browser)
    view.goto(page.as_uri())
    assert view.locator(".roslens-table").evaluate("e => e.scrollWidth <= e.clientWidth")
    view.close()


def test_a_mark_of_the_timeline_tells_what_it_is_without_a_kernel(
    samples: Path, tmp_path: Path, browser: Browser
) -> None:
    """The session is bare; the clicked callback has the duration of the table."""
    bare = Path(shutil.copytree(samples / "two_process/000_r0_fastrtps/trace", tmp_path / "bare"))
    opened = rl.open(bare)
    page = tmp_path / "page.html"
    page.write_text(FirstPage(opened, [bare]).html())
    view = new_page(browser)
    view.goto(page.as_uri())
    strip = view.locator(".roslens-facts").inner_text()
    assert all(name in strip for name in ("bare", "2026-11-21", "Jazzy"))
    (latest,) = opened.why()["message_id"].head(1)
    message = opened.messages.filter(pl.col("message_id") == latest).collect()
    ran = message["callback_end_ns"][0] - message["callback_start_ns"][0]
    figure = view.locator(".roslens-figure:has(svg)").first
    mark = figure.locator("rect:has(title)").filter(has_text=f"/data, /listener: {duration(ran)}")
    mark.first.dispatch_event("click")
    caption = figure.locator("p[aria-live]").inner_text()
    assert caption.startswith(f"/data, /listener: {duration(ran)}, begun at ")
    figure.locator("text").first.click()
    assert figure.locator("p[aria-live]").inner_text() == ""
    view.close()
