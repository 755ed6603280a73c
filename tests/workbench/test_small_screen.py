"""Test the workbench on a small screen, beside notebooks, and with nothing to read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import nbformat
import polars as pl
import pytest
from playwright.sync_api import Page, sync_playwright
from running_lab import (
    ROOT,
    chromium,
    open_notebook,
    pane_of,
    running_lab,
    wait_for_screen,
    wait_until,
)

import roslens as rl
from roslens.widgets import FOLDER, RANGE

pytestmark = [pytest.mark.live, pytest.mark.recording]

CUT = """() => [...document.querySelectorAll('.roslens-pane')].flatMap(pane =>
  [...pane.querySelectorAll('table')].filter(t => t.checkVisibility()
    && t.getBoundingClientRect().right > pane.getBoundingClientRect().right + 1)
  .map(t => `${pane.id}: ${t.getBoundingClientRect().width} of ${pane.clientWidth}`))"""


def brush(page: Page) -> None:
    """Brush the third fifth of the timeline."""
    box = page.locator(".roslens-pane .roslens-timeline .plot canvas").bounding_box()
    assert box is not None
    places = [box["x"] + 230 + (box["width"] - 230) * part for part in (0.4, 0.5, 0.6)]
    page.keyboard.down("Shift")
    page.mouse.move(places[0], box["y"] + 40)
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(place, box["y"] + 40)
    page.mouse.up()
    page.keyboard.up("Shift")


def test_tables_are_whole_and_notebooks_open_beside_the_timeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    demo = tmp_path / "demo"
    shutil.copytree(ROOT / "data/samples/demo", demo)
    home = tmp_path / "home"
    home.mkdir()
    # These modules of the user's have the names of roslens' rooms.
    for name in ("analysis", "tracing", "report"):
        (home / f"{name}.py").write_text("raise SystemExit('the wrong module')\n")
    (home / "data").mkdir()
    with running_lab(demo, home) as (_, url, _), sync_playwright() as playwright:
        browser = chromium(playwright)
        page = open_notebook(browser, url, width=1280, height=800)
        wait_for_screen(page)
        # Nothing but the address was printed.
        assert (home / "lab.log").read_text().splitlines() == [url]
        assert page.evaluate(CUT) == []
        brush(page)
        (start,) = home.glob("data/reports/start/*/start.ipynb")
        selection = start.with_name(RANGE)
        wait_until(
            "range", lambda: selection.is_file() and json.loads(selection.read_text())["window_ns"]
        )
        page.locator(".lm-TabBar-tab", has_text="Notebooks").click()
        pane_of(page, "Notebooks").get_by_role("link", name="latency", exact=True).click()
        notebook = page.locator(".jp-NotebookPanel:visible", has_text="run.view(), below")
        notebook.first.wait_for()
        box = notebook.first.bounding_box()
        timeline = pane_of(page, "Timeline").bounding_box()
        assert box is not None
        assert timeline is not None
        assert box["x"] >= timeline["x"] + timeline["width"] - 1
        assert abs(box["y"] - timeline["y"]) < 2 * 30
        browser.close()
        copied = nbformat.read(start.with_name("latency.ipynb"), as_version=4)
        assert any(str(demo) in cell.source for cell in copied.cells)
        selected = json.loads(selection.read_text())
        opened = rl.open(demo)
        assert opened.view().runs == opened.runs
        monkeypatch.setenv(FOLDER, str(start.parent))
        begin, end = selected["window_ns"]
        whole = opened.only(selected["run"]).messages.collect()
        wanted = whole.filter((pl.col("publish_ns") >= begin) & (pl.col("publish_ns") < end))
        assert 0 < wanted.height < whole.height
        assert opened.view().messages.collect().equals(wanted)


def test_why_nothing_can_be_read_stands_on_the_screen(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with running_lab(empty, tmp_path / "home") as (_, url, _), sync_playwright() as playwright:
        page = open_notebook(chromium(playwright), url)
        reason = pane_of(page, "Timeline").get_by_text("empty: no recording here")
        reason.wait_for()
        assert pane_of(page, "Timeline").get_by_text("Reading the recordings").count() == 0
