"""The workbench's screen: from ``roslens lab`` to the first picture, from a range to all panes.

The first is measured on the recordings given (bar: 6 s on the demo's 20 runs, collected before),
from the start of the command to the timeline drawn in Chromium, without a click. The second on
tables of a recording of a million events (bar: 300 ms): in the kernel alone, and in JupyterLab and
Chromium from the key that selects a range to the last change of any pane.

    python benchmarks/screen.py PATH [--events 1000000] [--ranges 10]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import nbformat
import numpy as np
from _timeline import opened, write_tables
from playwright.sync_api import Page, sync_playwright

from roslens.recording import Recording
from roslens.report_folder import find_notebook
from roslens.widgets.start import StartPage

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.workbench.running_lab import (
    address_of,
    chromium,
    open_notebook,
    running_lab,
    wait_for_picture,
    wait_for_screen,
)

# Notes the time of the last change of each pane.
_WATCH = """() => {
  window.changed = {};
  for (const pane of document.querySelectorAll('.roslens-pane:not(#roslens-Timeline)')) {
    new MutationObserver(() => { window.changed[pane.id] = performance.now(); })
      .observe(pane, { subtree: true, childList: true, characterData: true });
  }
}"""
FOLLOWING = 4  # topics, worst messages, callbacks and nodes follow a range; no chains are made


def say(what: str, taken: Sequence[float], bar: float) -> None:
    """Print the median and the largest duration, in ms."""
    print(
        f"{what:<34}{statistics.median(taken):>9.0f} ms   worst {max(taken):.0f}   (bar: {bar:.0f})"
    )


def first_picture(path: Path) -> None:
    """Measure the time from the command to the first picture."""
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        page = chromium(playwright).new_page(viewport={"width": 1440, "height": 900})
        started = time.perf_counter()
        with running_lab(path.resolve(), Path(home)) as (_, url, _):
            serving = time.perf_counter() - started
            page.goto(url)
            wait_for_picture(page)
            drawn = time.perf_counter() - started
            say("lab to its address", [1e3 * serving], 6000)
            say("lab to the first picture", [1e3 * drawn], 6000)
            wait_for_screen(page)
            say("lab to all panes", [1e3 * (time.perf_counter() - started)], 6000)


def ranges_of(count: int, length: int) -> list[tuple[int, int]]:
    """Draw ranges of a tenth to all of a recording's time."""
    rng = np.random.default_rng(26)
    spans = (length * rng.uniform(0.1, 1, count)).astype(int)
    begins = [int(rng.integers(0, max(1, length - span))) for span in spans]
    return [(begin, begin + int(span)) for begin, span in zip(begins, spans, strict=True)]


def in_kernel(folder: Path, count: int) -> None:
    """Measure all panes without a browser."""
    page = StartPage([], opened(folder))
    for pane in (page.timeline, page.runs, page.topics, page.worst, page.callbacks, page.graph,
                 page.chains, page.message):  # fmt: skip
        pane()
    timeline = page.widget.timeline
    taken = []
    for begin, end in ranges_of(count, timeline.end_ns - timeline.begin_ns):
        started = time.perf_counter()
        page.widget.select(timeline.begin_ns + begin, timeline.begin_ns + end)
        taken.append(1e3 * (time.perf_counter() - started))
    say("range to all panes, kernel", taken, 300)


def notebook_of(folder: Path, path: Path) -> None:
    """Write the start notebook with a page on the generated tables."""
    notebook = nbformat.read(find_notebook("start"), as_version=4)
    for cell in notebook.cells:
        if "StartPage" in cell.source:
            cell.source = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from _timeline import opened
from roslens.widgets.start import StartPage
page = StartPage([], opened(Path({str(folder)!r})))
"""
        elif "notebooks" in cell.source:
            cell.source = "'Ask ' 'further:'"  # seen once: in its output
    nbformat.write(notebook, path)


def wait_until_still(page: Page, after: float) -> float:
    """Return the last change of any pane after a moment, once nothing changed for a second."""
    page.wait_for_function(
        "([after, count]) => { const all = Object.values(window.changed).filter(t => t > after);"
        " return all.length >= count && performance.now() - Math.max(...all) > 1000; }",
        arg=[after, FOLLOWING],
    )
    return float(page.evaluate("Math.max(...Object.values(window.changed))"))


def in_browser(folder: Path, count: int) -> None:
    """Measure all panes in a browser, as a user sees them."""
    with (
        tempfile.TemporaryDirectory() as home,
        running_lab(folder.parent / "sample", Path(home)) as (_, url, place),
        sync_playwright() as playwright,
    ):
        notebook_of(folder.resolve(), place / "screen.ipynb")
        page = open_notebook(chromium(playwright), address_of(url, "screen.ipynb"))
        wait_for_screen(page)
        canvas = page.locator(".roslens-pane .roslens-timeline .plot canvas")
        page.evaluate(_WATCH)
        page.wait_for_timeout(2000)
        taken = []
        for number in range(count):
            # Change the visible range each time by zooming or panning.
            canvas.press("+" if number % 3 == 0 else "ArrowRight" if number % 3 == 1 else "-")
            page.wait_for_timeout(1000)
            began = float(page.evaluate("performance.now()"))
            canvas.press("r")
            taken.append(wait_until_still(page, began) - began)
    say("range to all panes, browser", taken, 300)


def main() -> None:
    """Run all measurements and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--ranges", type=int, default=10)
    given = parser.parse_args()
    first_picture(given.path)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, "recording")
        Path(place, "sample").symlink_to(given.path.resolve())
        count = write_tables(Recording.at(folder).tables, given.events)
        print(f"events, about {given.events:,}; callbacks and messages {count:,}")
        in_kernel(folder, given.ranges)
        in_browser(folder, given.ranges)


if __name__ == "__main__":
    main()
