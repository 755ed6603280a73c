"""Make the pictures of docs/images from the samples: ``python docs/screenshots.py``.

Needs Chromium (the system's) and playwright; what it shows is what a user sees.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SAMPLE = ROOT / "data" / "samples" / "two_process"

sys.path.insert(0, str(ROOT / "tests" / "workbench"))
from running_lab import (  # noqa: E402
    chromium,
    open_notebook,
    run_start_page,
    running_lab,
    wait_for_answers,
)


def main() -> None:
    """Make them."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = chromium(playwright)
        report(browser, Path(place))
        lab(browser, Path(place))
        browser.close()


def report(browser: Browser, place: Path) -> None:
    """The head of a latency report."""
    page = browser.new_page(viewport={"width": 1200, "height": 1100})
    command = [sys.executable, "-m", "roslens", "report", "latency", ROOT / "data/samples/demo"]
    subprocess.run([*map(str, command), "-o", str(place / "report")], cwd=place, check=True)
    page.goto((place / "report" / "latency.html").as_uri())
    page.screenshot(path=IMAGES / "report.png")


def lab(browser: Browser, place: Path) -> None:
    """The timeline, zoomed in, with a message clicked, and the graph and its way above it."""
    with running_lab(SAMPLE, place / "home") as (_, url, _):
        page = open_notebook(browser, url, width=1300, height=4200)
        run_start_page(page)
        timeline = page.locator(".roslens-timeline")
        for _ in range(8):
            answers = int(timeline.get_attribute("data-answers") or 0)
            timeline.get_by_role("button", name="+", exact=True).click()
            wait_for_answers(page, answers + 1)
        canvas = timeline.locator("canvas")
        # The second track is the listener's, whose callbacks received messages.
        for key in ("ArrowDown", "ArrowDown", "n", "n"):
            canvas.press(key)
        timeline.locator(".journey tr").first.wait_for()
        page.locator("figcaption", has_text="one message on each topic").wait_for()
        timeline.screenshot(path=IMAGES / "timeline.png")
        page.locator(".roslens-graph").screenshot(path=IMAGES / "graph.png")


if __name__ == "__main__":
    main()
