"""Make the pictures of docs/images from the samples: ``python docs/screenshots.py``.

Needs Chromium (the system's) and playwright; the pictures show what a user sees.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

import roslens as rl

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
SAMPLE = ROOT / "data" / "samples" / "two_process"
LATE = SAMPLE.parent / "communication"
FRAME_MS = 3500

sys.path.insert(0, str(ROOT / "tests" / "workbench"))
from running_lab import (  # noqa: E402
    chromium,
    open_notebook,
    pane_of,
    running_lab,
    wait_for_screen,
)


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        browser = chromium(playwright)
        lab(browser, Path(place))
        moving(browser, Path(place))
        why()
        browser.close()


def why() -> None:
    """Plot the causes of late messages of the chain."""
    made = rl.open(SAMPLE.parent / "chain.tar.zst").why.plot()
    made.savefig(IMAGES / "why.png")


def lab(browser: Browser, place: Path) -> None:
    """Show the screen with one of the worst messages clicked."""
    with running_lab(SAMPLE, place / "home") as (_, url, _):
        page = open_notebook(browser, url)
        wait_for_screen(page)
        pane_of(page, "Worst messages").locator("tr:has(td)").first.click()
        pane_of(page, "Message").get_by_text("delivered").first.wait_for()
        # Wait until the arrows for the visible part are drawn.
        page.wait_for_function(
            "document.querySelector('.roslens-pane .roslens-timeline').dataset.arrows > 0"
        )
        page.screenshot(path=IMAGES / "workbench.png")


def moving(browser: Browser, place: Path) -> None:
    """Show the way from the first page to the cause of a late message, one frame per step."""
    frames = [place / f"{number}.png" for number in range(4)]
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    sample = str(LATE.relative_to(ROOT))
    command = [sys.executable, "-m", "roslens", sample, "--html", str(place / "first.html")]
    subprocess.run(command, cwd=ROOT, check=True)
    page.goto((place / "first.html").as_uri())
    page.screenshot(path=frames[0])
    with running_lab(LATE, place / "late") as (_, url, _):
        page = open_notebook(browser, url, width=1280, height=800)
        wait_for_screen(page)
        page.screenshot(path=frames[1])
        place_of = page.locator(".roslens-pane .roslens-timeline").bounding_box()
        assert place_of is not None
        page.keyboard.down("Shift")
        for step, part in enumerate((0.4, 0.6)):
            page.mouse.move(place_of["x"] + part * place_of["width"], place_of["y"] + 100)
            (page.mouse.up if step else page.mouse.down)()
        page.keyboard.up("Shift")
        page.wait_for_timeout(3000)
        page.screenshot(path=frames[2])
        pane_of(page, "Worst messages").locator("tr:has(td)").first.click()
        pane_of(page, "Message").get_by_text("delivered").first.wait_for()
        page.wait_for_timeout(3000)
        page.screenshot(path=frames[3])
    first, *more = (
        Image.open(frame).convert("RGB").quantize(128, dither=Image.Dither.NONE) for frame in frames
    )
    first.save(
        IMAGES / "workbench.gif", save_all=True, append_images=more, duration=FRAME_MS, loop=0
    )


if __name__ == "__main__":
    main()
