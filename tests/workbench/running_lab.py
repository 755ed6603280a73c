"""Run a lab of its own user, and its pages in Chromium: for tests, pictures and measurements."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from playwright.sync_api import Browser, Locator, Page, Playwright
from playwright.sync_api import TimeoutError as NotYet
from tests.free_port import free_port
from tests.programs import roslens_command

ROOT = Path(__file__).parents[2]
# The limit is generous, as the machine may be busy.
SECONDS = int(os.environ.get("ROSLENS_TEST_SECONDS", "300"))
T = TypeVar("T")

_READY = (
    "!document.querySelector('.jp-NotebookPanel .jp-Spinner')"
    " && document.querySelector('.jp-NotebookPanel .jp-CodeCell')"
    " && /\\| Idle/.test(document.querySelector('#jp-main-statusbar')?.innerText)"
)


class NotInTimeError(AssertionError):
    """An error for a condition that did not come true in time."""


def wait_until(what: str, condition: Callable[[], T]) -> T:
    """Wait until the condition is true, and return its value."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise NotInTimeError(f"in {SECONDS} s: no {what}")


@contextmanager
def running_lab(recording: Path, home: Path) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """Run ``roslens lab RECORDING`` for a user whose JupyterLab keeps all cells in the page.

    Yields
    ------
    The process, the address with its token, and the working directory.
    """
    settings = home / ".jupyter/lab/user-settings/@jupyterlab/notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
    environment = {name: v for name, v in os.environ.items() if not name.startswith("JUPYTER")}
    environment |= {
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        # An empty token in the user's settings must not win.
        "JUPYTER_TOKEN": "",
        "PYTHONPATH": os.pathsep.join(
            filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")])
        ),
    }
    log = home / "lab.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [
                *roslens_command("lab", recording, "--port", free_port(), "--no-browser"),
            ],
            cwd=home,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        pattern = re.compile(r"^http://127\.0\.0\.1:\d+/lab\?token=\w{40,}$", re.MULTILINE)

        def address() -> str | None:
            text = log.read_text()
            assert process.poll() is None, text
            match = pattern.search(text)
            return match.group() if match else None

        yield process, str(wait_until("server", address)), home
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(SECONDS)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def chromium(playwright: Playwright) -> Browser:
    """Launch the system's Chromium."""
    path = shutil.which("chromium")
    assert path is not None, "apt-get install chromium"
    return playwright.chromium.launch(
        executable_path=path, args=["--no-sandbox"], timeout=SECONDS * 1000
    )


def address_of(url: str, notebook: str) -> str:
    """Return the address of another notebook of the lab, with nothing else open beside it."""
    base, _, rest = url.partition("/lab?")
    name = notebook.partition(".")[0]
    return f"{base}/lab/workspaces/{name}/tree/{notebook}?{rest}"


def new_page(browser: Browser, width: int = 1280, height: int = 900) -> Page:
    """Open an empty page that is waited for as long as a busy machine needs."""
    page = browser.new_page(viewport={"width": width, "height": height})
    page.set_default_timeout(SECONDS * 1000)
    return page


def open_notebook(browser: Browser, url: str, *, width: int = 1440, height: int = 900) -> Page:
    """Open a page with a notebook whose kernel is ready."""
    page = new_page(browser, width, height)
    page.goto(url)
    page.wait_for_function(_READY)
    return page


_RUNS = (
    "[...document.querySelectorAll('.jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell"
    " .jp-InputPrompt')].some(prompt => /\\[[*0-9]/.test(prompt.innerText))"
)


def run_all(page: Page) -> None:
    """Run all cells, and wait only for the first to begin."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        page.locator('.lm-MenuBar-item:has-text("Run")').click()
        page.locator('.lm-Menu-item[data-command="runmenu:run-all"]').click()
        try:
            page.wait_for_function(_RUNS, timeout=30_000)
        except NotYet:
            continue  # the menu was of a notebook that was not there yet
        return
    raise NotInTimeError(f"in {SECONDS} s: no cell began to run")


# The visible timeline: the notebook behind the screen may hold another.
_SEEN = "[...document.querySelectorAll('.roslens-timeline')].find(e => e.clientWidth)"
PANES = ("Timeline", "Runs", "Topics", "Worst messages", "Callbacks", "Nodes", "Chains", "Message")


def wait_for_picture(page: Page) -> None:
    """Wait until a timeline is drawn."""
    page.wait_for_function(f"{_SEEN}?.dataset.marks > 0")


def wait_for_screen(page: Page) -> None:
    """Wait until the start page, which opens by itself, shows all its panes."""
    wait_for_picture(page)
    for title in PANES:
        pane_of(page, title).locator(".jp-OutputArea-output > *").first.wait_for()
    # The last cell is done, and so are all before it.
    page.get_by_text("Ask further:").first.wait_for(state="attached")


def pane_of(page: Page, title: str) -> Locator:
    """Return a pane of the screen."""
    return page.locator(f"#roslens-{title.replace(' ', '-')}")


def wait_for_answers(page: Page, answers: int) -> None:
    """Wait until the kernel has sent so many pictures to the timeline."""
    page.wait_for_function(f"n => Number({_SEEN}?.dataset.answers || 0) >= n", arg=answers)
