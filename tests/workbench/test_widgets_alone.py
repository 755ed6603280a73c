"""Test widgets alone in Chromium, without JupyterLab and a kernel: what they show of data."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from playwright.sync_api import Page, sync_playwright
from running_lab import ROOT, chromium, new_page

from roslens.analysis.figures.graph import draw_graph
from roslens.widgets.parts import GraphWidget
from roslens.widgets.timeline import TimelineWidget

WIDGETS = ROOT / "src" / "roslens" / "widgets"
# As anywidget does it; what is written on a canvas is kept.
_SHOW = """async ([url, data]) => {
  window.written = [];
  CanvasRenderingContext2D.prototype.fillText = (text, x, y) => window.written.push([text, x, y]);
  if (data.first) data.first.buffers = Array(19).fill(new DataView(new ArrayBuffer(0)));
  window.told = data;
  const model = { get: (name) => data[name], set: (name, value) => { data[name] = value; },
                  save_changes() {}, send() {}, on() {}, off() {} };
  (await import(url)).default.render({ model, el: document.body });
}"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        yield new_page(browser, 1000, 500)
        browser.close()


def show(page: Page, script: str, style: str, data: dict[str, Any]) -> None:
    page.set_content(f"<style>{style}</style><body class=roslens-pane>")
    url = "data:text/javascript;base64," + base64.b64encode(script.encode()).decode()
    page.evaluate(_SHOW, [url, json.loads(json.dumps(data))])


@pytest.mark.parametrize("p99", [308, 400])
def test_labels_of_percentiles_do_not_lie_over_each_other(page: Page, p99: float) -> None:
    latency = {"topic": "/t", "columns": 1, "rows": 36, "low": 274e6, "high": 547e6, "p50": 304e6,
               "p99": p99 * 1e6}  # fmt: skip
    meta = {"begin": 0, "end": 10**9, "columns": 1, "arrows": 0, "shown": 0, "latency": latency}
    show(
        page,
        TimelineWidget._esm,
        (WIDGETS / "timeline_view" / "timeline.css").read_text(),
        {"title": "r", "tracks": [], "names": [], "topics": ["/t"], "topic": "/t", "origin": "0",
         "extent": [0, 1e9], "searched": "", "selected_range": [], "first": {"meta": meta}},
    )  # fmt: skip
    page.wait_for_function("window.written.some(([text]) => text.startsWith('P99'))")
    written = page.evaluate("window.written")
    places = {text: y for text, _, y in written}
    # Letters are 11 px high.
    assert places["P50 304 ms"] - places[f"P99 {p99} ms"] >= 11


def test_rows_that_are_not_drawn_are_counted_and_sorted(page: Page) -> None:
    content = {"columns": ["n"], "rows": [[i] for i in range(1301)]}
    script, style = ((WIDGETS / f"table.{kind}").read_text() for kind in ("js", "css"))
    show(page, script, style, {"content": content, "choosable": True, "chosen": -1})
    rows = page.locator("tbody tr")
    assert (rows.count(), rows.first.inner_text(), rows.last.inner_text()) == (300, "0", "299")
    assert "300 of 1,301 rows" in page.locator("tfoot").inner_text()
    for _ in range(2):
        page.get_by_role("button", name="n").click()
    assert (rows.count(), rows.first.inner_text(), rows.last.inner_text()) == (300, "1300", "1001")


def test_a_row_is_chosen_by_keys_alone(page: Page) -> None:
    content = {"columns": ["n"], "rows": [[i] for i in range(9)]}
    script, style = ((WIDGETS / f"table.{kind}").read_text() for kind in ("js", "css"))
    show(page, script, style, {"content": content, "choosable": True, "chosen": -1})
    page.get_by_role("button", name="n").focus()
    for key in ("Tab", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert page.evaluate("window.told.chosen") == 2
    # All rows together are one stop of the tabulator key.
    assert page.locator("tbody tr[tabindex='0']").count() == 1


def test_the_graph_of_a_pane_says_what_is_not_drawn(page: Page) -> None:
    script = (WIDGETS / "graph.js").read_text()
    style = (WIDGETS / "timeline_view" / "timeline.css").read_text()
    style += (WIDGETS / "graph.css").read_text()
    drawn = draw_graph(
        pl.DataFrame({"node": "/a", "topic": f"/t{i}", "publishes": True, "messages": 9,
                      "rate_hz": 1.0, "p50_ms": None, "lost": None} for i in range(43))
    )  # fmt: skip
    for drawing, sentence in ((drawn, "3 less busy topics are not shown"), (None, "No node sent")):
        graph = GraphWidget()
        graph.show(drawing)
        data = {name: getattr(graph, name) for name in ("svg", "caption", "chosen", "marked")}
        show(page, script, style, data)
        assert page.get_by_text(sentence).is_visible()
