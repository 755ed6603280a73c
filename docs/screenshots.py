"""Make the pictures of docs/images from the samples: ``python docs/screenshots.py``.

Needs Chromium (the system's) and playwright; what it shows is what a user sees.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import roslens as rl

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SAMPLE = ROOT / "data" / "samples" / "two_process"

sys.path.insert(0, str(ROOT / "tests" / "workbench"))
from running_lab import (  # noqa: E402
    chromium,
    open_notebook,
    pane_of,
    running_lab,
    wait_for_screen,
)


def main() -> None:
    """Make them."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = chromium(playwright)
        report(browser, Path(place))
        lab(browser, Path(place))
        why()
        browser.close()


def report(browser: Browser, place: Path) -> None:
    """The head of a latency report."""
    page = browser.new_page(viewport={"width": 1200, "height": 1100})
    command = [sys.executable, "-m", "roslens", "report", "latency", ROOT / "data/samples/demo"]
    subprocess.run([*map(str, command), "-o", str(place / "report")], cwd=place, check=True)
    page.goto((place / "report" / "latency.html").as_uri())
    page.screenshot(path=IMAGES / "report.png")


def why() -> None:
    """What made messages of the chain late."""
    made = rl.open(SAMPLE.parent / "chain.tar.zst").why.plot()
    made.savefig(IMAGES / "why.png")


def lab(browser: Browser, place: Path) -> None:
    """The screen, with one of the worst messages clicked."""
    with running_lab(SAMPLE, place / "home") as (_, url, _):
        page = open_notebook(browser, url)
        wait_for_screen(page)
        pane_of(page, "Worst messages").locator("tr:has(td)").first.click()
        pane_of(page, "Message").get_by_text("delivered").wait_for()
        # The arrows of what is seen now.
        page.wait_for_function(
            "document.querySelector('.roslens-pane .roslens-timeline').dataset.arrows > 0"
        )
        page.screenshot(path=IMAGES / "workbench.png")


if __name__ == "__main__":
    main()
