"""Run a lab with its start page in Chromium, every name in its trace hostile."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import polars as pl
import psutil
import pytest
from playwright.sync_api import Locator, Page, sync_playwright
from running_lab import (
    chromium,
    open_notebook,
    pane_of,
    running_lab,
    wait_for_screen,
)

import roslens as rl
from roslens.analysis.timeline.tracks import Timeline
from roslens.collectors import store
from roslens.collectors.collected import NOTE
from roslens.recordings import Recordings
from roslens.widgets.timeline import timeline_of

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "samples" / "two_process" / "000_r0_fastrtps"
HOSTILE = '<img src=x onerror="window.hacked=1">'
TOPIC, NODE = f"/data{HOSTILE}", f"/listener{HOSTILE}"
# The name has two lines, runs from right to left, and is longer than any place for it.
TALKER = "/talker\n\u202e" + 300 * "x" + "<script>window.hacked=1</script>\\$\"'&"
FOLDERS_SETTINGS = ("jupyter_config", "jupyter_server_config", "jupyter_lab_config")
# JupyterLab itself names and writes the workspace like this.
USERS_WORKSPACE = ".jupyter/lab/workspaces/default-37a8.jupyterlab-workspace"
LAYOUT = {
    "data": {
        "layout-restorer:data": {
            "main": {
                "dock": {"type": "tab-area", "currentIndex": 0, "widgets": ["notebook:other.ipynb"]}
            }
        },
        "notebook:other.ipynb": {"data": {"path": "other.ipynb", "factory": "Notebook"}},
    },
    "metadata": {"id": "default"},
}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the bare trace, as `ros2 trace` leaves it, with HTML for names in its tables."""
    bare = tmp_path_factory.mktemp("recordings") / "session-20260101120000"
    shutil.copytree(SAMPLE / "trace", bare)
    (recording,) = rl.open(bare).recordings
    for path in recording.tables.glob("*.parquet"):
        frame = pl.read_parquet(path)
        for name in frame.columns:
            if frame.schema[name] == pl.String:
                renamed = pl.col(name).replace(
                    {"/data": TOPIC, "/listener": NODE, "/talker": TALKER}
                )
                frame = frame.with_columns(renamed)
        frame.write_parquet(path)
    # Without the tables' new digests they would be made again.
    note = recording.tables / NOTE
    content = json.loads(note.read_text())
    with store.describing(recording) as described:
        files = described.all()
    note.write_text(
        json.dumps(content | {"files": {name: files[name] for name in content["files"]}})
    )
    assert TOPIC in rl.open(bare).messages.collect()["topic"].to_list()
    return bare


@dataclass
class Lab:
    """A running lab with its start page executed."""

    page: Page
    opened: Recordings
    process: psutil.Process
    url: str
    folder: Path
    pictures: Path

    @property
    def box(self) -> Locator:
        """Return the visible timeline."""
        return self.page.locator(".roslens-pane .roslens-timeline")

    @property
    def canvas(self) -> Locator:
        """Return the timeline's tracks."""
        return self.box.locator(".plot canvas")

    def pane(self, title: str) -> Locator:
        """Return another pane of the screen."""
        return pane_of(self.page, title)

    def timeline(self, name: str) -> Any:
        """Return what the timeline reports in a data attribute."""
        return json.loads(self.box.get_attribute(f"data-{name}") or "null")

    def range(self) -> tuple[int, int]:
        """Return the selected range, in ns since the epoch."""
        begin, end = self.timeline("state")["range"]
        return self.origin + round(begin), self.origin + round(end)

    def said(self, text: str) -> None:
        """Wait until the live text, which screen readers say, holds this text."""
        self.box.locator(".live", has_text=text).wait_for()

    def picture(self) -> str:
        """Return the picture drawn now."""
        return str(self.canvas.evaluate("e => e.toDataURL()"))

    def keep(self, name: str) -> None:
        """Keep a picture of the screen in the test's output."""
        self.page.screenshot(path=self.pictures / f"{name}.png")

    def press(self, *keys: str) -> None:
        """Press keys on the timeline."""
        for key in keys:
            self.canvas.press(key)

    @property
    def timeline_tables(self) -> Timeline:
        """Make the timeline again, in this process."""
        return timeline_of(self.opened)

    @property
    def origin(self) -> int:
        """Return the zero of all times: the first event of the run, as its table of processes."""
        begin: int = self.opened.processes.select(pl.col("begin_ns").min()).collect().item()
        return begin

    def show_all(self) -> None:
        """Zoom out to show everything."""
        self.box.get_by_role("button", name="all").click()
        tables = self.timeline_tables
        self.page.wait_for_function(
            "([first, last]) => { const { begin, end } = JSON.parse("
            "document.querySelector('.roslens-pane .roslens-timeline').dataset.places);"
            " return begin === first && end === last; }",
            arg=[tables.begin_ns - self.origin, tables.end_ns - self.origin],
        )


@pytest.fixture(scope="module")
def server(
    hostile: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """Run ``roslens lab`` as a user with a layout, in a folder with settings."""
    home = tmp_path_factory.mktemp("home")
    workspace = home / USERS_WORKSPACE
    workspace.parent.mkdir(parents=True)
    workspace.write_text(json.dumps(LAYOUT))
    (home / "other.ipynb").write_text(nbformat.writes(nbformat.v4.new_notebook()))
    for name in FOLDERS_SETTINGS:
        (home / f"{name}.py").write_text("open('was-read', 'w')\nc.IdentityProvider.token = ''\n")
        (home / f"{name}.json").write_text('{"IdentityProvider": {"token": ""}}')
    with running_lab(hostile, home) as running:
        yield running


@pytest.fixture(scope="module")
def lab(
    server: tuple[subprocess.Popen[bytes], str, Path],
    hostile: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lab]:
    """Open the start page in Chromium, where it runs by itself."""
    process, url, home = server
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        page = open_notebook(browser, url)
        wait_for_screen(page)
        pictures = tmp_path_factory.mktemp("pictures")
        yield Lab(page, rl.open(hostile), psutil.Process(process.pid), url, home, pictures)
        print(f"pictures of the screen: {pictures}")
        browser.close()
