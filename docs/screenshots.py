"""Make the pictures of docs/images from the samples: ``python docs/screenshots.py``.

Needs Chromium (the system's) and playwright; what it shows is what a user sees.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, sync_playwright
from playwright.sync_api import TimeoutError as NotInTime

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SAMPLE = ROOT / "data" / "samples" / "two_process"
SECONDS = 240


def main() -> None:
    """Make them."""
    browser_file = shutil.which("chromium")
    if browser_file is None:
        sys.exit("chromium is not installed: sudo apt-get install -y chromium")
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_file, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 4200})
        page.set_default_timeout(SECONDS * 1000)
        report(page, Path(place))
        lab(page, Path(place))
        browser.close()


def report(page: Page, place: Path) -> None:
    """The head of a latency report."""
    command = [sys.executable, "-m", "roslens", "report", "latency", ROOT / "data/samples/demo"]
    subprocess.run([*map(str, command), "-o", str(place / "report")], cwd=place, check=True)
    page.goto((place / "report" / "latency.html").as_uri())
    page.screenshot(
        path=IMAGES / "report.png", clip={"x": 0, "y": 0, "width": 1200, "height": 1100}
    )


def lab(page: Page, place: Path) -> None:
    """The timeline, zoomed in, with a message clicked; and the graph."""
    log = place / "lab.log"
    environment = {**os.environ, "HOME": str(place), "PYTHONPATH": str(ROOT)}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [*(sys.executable, "-m", "roslens", "lab", str(SAMPLE)), "--no-browser"],
            cwd=place,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
    try:
        deadline = time.monotonic() + SECONDS
        while "is running at" not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.5)
        address = re.search(r"^http://\S+token=\w+", log.read_text(), re.MULTILINE)
        assert address is not None, log.read_text()
        page.goto(address.group())
        page.wait_for_function(
            "!document.querySelector('.jp-NotebookPanel .jp-Spinner')"
            " && document.querySelector('.jp-NotebookPanel .jp-CodeCell')"
            " && /\\| Idle/.test(document.querySelector('#jp-main-statusbar').innerText)"
        )
        page.locator('.lm-MenuBar-item:has-text("Run")').click()
        page.locator('.lm-Menu-item[data-command="runmenu:run-all"]').click()
        page.get_by_text("Ask further:").wait_for()
        timeline = page.locator(".roslens-timeline")
        for _ in range(8):
            answers = int(timeline.get_attribute("data-answers") or 0)
            timeline.get_by_role("button", name="+", exact=True).click()
            page.wait_for_function(
                "n => document.querySelector('.roslens-timeline').dataset.answers > n",
                arg=answers,
            )
        click_something(page)
        timeline.screenshot(path=IMAGES / "timeline.png")
    finally:
        process.terminate()
        process.wait(60)


def click_something(page: Page) -> None:
    """Click along the first track until a message is found."""
    canvas = page.locator(".roslens-timeline canvas")
    hops = page.locator(".roslens-timeline .journey tr").first
    for x in range(400, 900, 12):
        canvas.click(position={"x": x, "y": 50})
        try:
            hops.wait_for(timeout=3000)
        except NotInTime:
            continue
        return


if __name__ == "__main__":
    main()
