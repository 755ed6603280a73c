"""``roslens lab`` in a real browser: one server, one page, every name in the trace hostile."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import polars as pl
import psutil
import pytest
from playwright.sync_api import Page, sync_playwright
from rich.console import Console

import roslens as rl
from analysis.reports.numbers import milliseconds
from analysis.timeline.tracks import Timeline
from collectors import store
from collectors.collect import NOTE
from roslens.lab import run_lab
from roslens.recordings import Recordings
from roslens.report import run_report
from roslens.widgets.timeline import timeline_of
from tracing.recording import UsageError

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "samples" / "two_process" / "000_r0_fastrtps"
# Generous: the machine may be busy.
SECONDS = 240
HOSTILE = '<img src=x onerror="window.hacked=1">'
TOPIC, NODE = f"/data{HOSTILE}", f"/listener{HOSTILE}"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace alone, as `ros2 trace` leaves it, with names in its tables that are HTML."""
    bare = tmp_path_factory.mktemp("recordings") / "session-20260101120000"
    shutil.copytree(SAMPLE / "trace", bare)
    (recording,) = rl.open(bare).recordings
    for path in recording.tables.glob("*.parquet"):
        frame = pl.read_parquet(path)
        for name in frame.columns:
            if frame.schema[name] == pl.String:
                renamed = pl.col(name).replace({"/data": TOPIC, "/listener": NODE})
                frame = frame.with_columns(renamed)
        frame.write_parquet(path)
    # The digests of the tables as they are now, or they would be made again.
    note = recording.tables / NOTE
    told = json.loads(note.read_text())
    files = store.describe(recording)
    note.write_text(json.dumps(told | {"files": {name: files[name] for name in told["files"]}}))
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

    def timeline(self, name: str) -> Any:
        """What the timeline says of itself."""
        return json.loads(
            self.page.locator(".roslens-timeline").get_attribute(f"data-{name}") or "null"
        )

    def picture(self) -> str:
        """What is drawn now."""
        return str(self.page.locator(".roslens-timeline canvas").evaluate("e => e.toDataURL()"))

    @property
    def timeline_tables(self) -> Timeline:
        """The timeline again, made in this process."""
        return timeline_of(self.opened)

    def show_all(self) -> None:
        """Zoom out."""
        self.page.locator(".roslens-timeline").get_by_role("button", name="all").click()
        made = self.timeline_tables
        self.page.wait_for_function(
            "span => { const { begin, end } = JSON.parse("
            "document.querySelector('.roslens-timeline').dataset.places);"
            " return begin === 0 && end === span; }",
            arg=made.end_ns - made.begin_ns,
        )

    def wait_for_answers(self, answers: int) -> None:
        """Wait until the kernel has sent so many pictures."""
        self.page.wait_for_function(
            "n => Number(document.querySelector('.roslens-timeline').dataset.answers) >= n",
            arg=answers,
        )


def wait_until(what: str, condition: Any) -> Any:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.2)
    pytest.fail(f"in {SECONDS} s: no {what}")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture(scope="module")
def server(
    hostile: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """``roslens lab`` of a user whose JupyterLab keeps all cells in the page."""
    home = tmp_path_factory.mktemp("home")
    settings = home / ".jupyter/lab/user-settings/@jupyterlab/notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text('{"windowingMode": "none"}')
    environment = {name: v for name, v in os.environ.items() if not name.startswith("JUPYTER")}
    environment |= {
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        # A token of none in the user's settings must not win.
        "JUPYTER_TOKEN": "",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    log = home / "lab.log"
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "roslens", "lab", str(hostile)),
                *("--port", str(free_port()), "--no-browser"),
            ],
            cwd=home,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        pattern = re.compile(r"^http://127\.0\.0\.1:\d+/lab/tree/\S+token=\w{40,}$", re.MULTILINE)
        found = wait_until("address", lambda: pattern.search(log.read_text()))
        url = found.group()

        def runs() -> bool:
            assert process.poll() is None, log.read_text()
            return "is running at" in log.read_text()

        wait_until("server", runs)
        yield process, url, home
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def lab(server: tuple[subprocess.Popen[bytes], str, Path], hostile: Path) -> Iterator[Lab]:
    """The start page, run through in Chromium."""
    process, url, home = server
    browser_file = shutil.which("chromium")
    assert browser_file is not None, "apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_file, args=["--no-sandbox"], timeout=SECONDS * 1000
        )
        page = browser.new_page(viewport={"width": 1300, "height": 3000})
        page.set_default_timeout(SECONDS * 1000)
        page.goto(url)
        page.wait_for_function(
            "!document.querySelector('.jp-NotebookPanel .jp-Spinner')"
            " && document.querySelector('.jp-NotebookPanel .jp-CodeCell')"
            " && /\\| Idle/.test(document.querySelector('#jp-main-statusbar').innerText)"
        )
        page.locator('.lm-MenuBar-item:has-text("Run")').click()
        page.locator('.lm-Menu-item[data-command="runmenu:run-all"]').click()
        page.wait_for_function("document.querySelector('.roslens-timeline')?.dataset.marks > 0")
        # The last cell is done, and so are all before it.
        page.get_by_text("Ask further:").wait_for()
        yield Lab(page, rl.open(hostile), psutil.Process(process.pid), url, home)
        browser.close()


@pytest.mark.live
@pytest.mark.recording
def test_the_start_notebook_runs_through(lab: Lab) -> None:
    lab.page.keyboard.press("Control+s")
    (path,) = lab.folder.glob("data/reports/start/*/start.ipynb")

    def executed() -> list[Any]:
        try:
            notebook = nbformat.read(path, as_version=4)
        except ValueError:  # being written
            return []
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        return code if all(cell.execution_count for cell in code) else []

    cells = wait_until("executed notebook", executed)
    outputs = [output for cell in cells for output in cell.outputs]
    assert len(outputs) >= 7
    assert not [output for output in outputs if output.output_type in ("error", "stream")]
    # The notebooks to go on with lie beside it and have their parameter.
    further = nbformat.read(path.with_name("latency.ipynb"), as_version=4)
    assert any("session-20260101120000" in cell.source for cell in further.cells)
    assert lab.page.get_by_role("link", name="latency", exact=True).count() == 1


@pytest.mark.live
@pytest.mark.recording
def test_names_of_the_trace_are_text(lab: Lab) -> None:
    assert lab.page.evaluate("window.hacked") is None
    assert lab.page.locator('img[src="x"]').count() == 0
    # They are there: in the table of topics, and in the graph.
    assert lab.page.locator("td", has_text=TOPIC).count() >= 1
    assert lab.page.locator("svg title").filter(has_text=NODE).count() >= 1


def zoom_in(lab: Lab, times: int) -> None:
    for _ in range(times):
        answers = lab.timeline("answers")
        lab.page.locator(".roslens-timeline").get_by_role("button", name="+", exact=True).click()
        lab.wait_for_answers(answers + 1)


@pytest.mark.live
@pytest.mark.recording
def test_zoom_changes_the_picture(lab: Lab) -> None:
    lab.show_all()
    before, wide = lab.picture(), lab.timeline("places")
    zoom_in(lab, 2)
    places = lab.timeline("places")
    assert lab.picture() != before
    span = places["end"] - places["begin"]
    assert span == pytest.approx((wide["end"] - wide["begin"]) / 4)
    # The arrow keys pan by a fifth of what is seen.
    answers = lab.timeline("answers")
    lab.page.locator(".roslens-timeline canvas").press("ArrowRight")
    lab.wait_for_answers(answers + 1)
    assert lab.timeline("places")["begin"] == pytest.approx(places["begin"] + span / 5)


@pytest.mark.live
@pytest.mark.recording
def test_a_click_on_a_callback_shows_the_hops_of_its_message(lab: Lab) -> None:
    lab.show_all()
    zoom_in(lab, 7)
    places = lab.timeline("places")
    timeline = lab.timeline_tables
    # From the table of messages: the one whose callback is closest to the middle of the picture.
    middle = timeline.begin_ns + (places["begin"] + places["end"]) / 2
    row = (
        lab.opened.messages.filter(pl.col("topic") == TOPIC, pl.col("callback_start_ns") > middle)
        .sort("callback_start_ns")
        .head(1)
        .collect()
        .row(0, named=True)
    )
    (track,) = [
        i for i, t in enumerate(timeline.tracks) if t.label == NODE and t.kind == "callback"
    ]
    (line,) = [r for r in places["rows"] if r.get("track") == track]
    moment = (row["callback_start_ns"] + row["callback_end_ns"]) / 2 - timeline.begin_ns
    scale = places["width"] / (places["end"] - places["begin"])
    lab.page.locator(".roslens-timeline canvas").click(
        position={
            "x": places["left"] + (moment - places["begin"]) * scale,
            "y": line["y"] + line["height"] / 2,
        }
    )
    detail = lab.page.locator(".roslens-timeline .journey")
    detail.get_by_text(f"message {row['message_id']}, delivered").wait_for()
    shown = [
        (cells.nth(0).inner_text(), cells.nth(1).inner_text())
        for cells in (r.locator("td") for r in detail.locator("tr").all())
    ]
    names = ["publish", "rcl_publish", "rmw_publish", "take", "rclcpp_take", "callback_start"]
    moments = ((row[f"{name}_ns"], name) for name in [*names, "callback_end"])
    steps = sorted((at, name) for at, name in moments if at is not None)
    assert len(steps) >= 6
    expected = [
        (f"{before} -> {after}", f"{milliseconds(end - begin)} ms")
        for (begin, before), (end, after) in pairwise(steps)
    ]
    assert shown == expected
    assert f"latency {milliseconds(row['latency_ns'])} ms" in detail.inner_text()
    # Names with markup are shown letter by letter.
    assert NODE in detail.inner_text()
    assert lab.page.evaluate("window.hacked") is None


@pytest.mark.live
@pytest.mark.recording
def test_a_range_changes_the_plot_below(lab: Lab) -> None:
    page = lab.page
    lab.show_all()
    caption = page.locator("figcaption", has_text="delivered messages by time")
    of_topic = lab.opened.messages.filter(
        pl.col("topic") == TOPIC, pl.col("latency_ns").is_not_null()
    ).collect()
    caption.get_by_text(f"{of_topic.height:,} delivered messages").wait_for()
    places = lab.timeline("places")
    box = page.locator(".roslens-timeline canvas").bounding_box()
    assert box is not None
    x, y = [box["x"] + places["left"] + places["width"] * part for part in (0.4, 0.6)], 40
    page.mouse.move(x[0], box["y"] + y)
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move((x[0] + x[1]) / 2, box["y"] + y)
    page.mouse.move(x[1], box["y"] + y)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.locator(".roslens-timeline .status", has_text="range:").wait_for()
    # By the table: messages published in the middle fifth, to the pixel.
    begin, end = 0.4 * places["end"], 0.6 * places["end"]
    origin = lab.timeline_tables.begin_ns
    inside = of_topic["publish_ns"].is_between(origin + begin, origin + end).sum()
    assert 0 < inside < of_topic.height / 2
    page.wait_for_function(
        "all => ![...document.querySelectorAll('figcaption')].some("
        "e => e.innerText.includes(all + ' delivered messages'))",
        arg=f"{of_topic.height:,}",
    )
    caption.wait_for()
    told = re.search(r"([\d,]+) delivered messages", caption.inner_text())
    assert told is not None
    per_pixel = of_topic.height / places["width"]
    assert abs(int(told.group(1).replace(",", "")) - inside) <= 6 * per_pixel + 2
    page.locator(".roslens-timeline canvas").press("Escape")
    caption.get_by_text(f"{of_topic.height:,} delivered messages").wait_for()


# ---------------------------------------------------------------- who reaches it


@pytest.mark.live
@pytest.mark.recording
def test_only_this_machine_and_only_with_the_token(
    server: tuple[subprocess.Popen[bytes], str, Path],
) -> None:
    process, url, _ = server
    running = psutil.Process(process.pid)
    listening = [c.laddr for c in running.net_connections("inet") if c.status == "LISTEN"]
    assert listening
    assert {address.ip for address in listening} <= {"127.0.0.1", "::1"}
    base, _, token = url.partition("/lab/tree/")
    token = token.split("token=")[1]
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(f"{base}/api/contents", timeout=SECONDS)
    with urllib.request.urlopen(f"{base}/api/contents?token={token}", timeout=SECONDS) as answer:
        assert answer.status == 200
    # Everyone on a machine can read the arguments of a process.
    assert token not in " ".join(running.cmdline())


@pytest.mark.parametrize("ip", ["0.0.0.0", "", "*", "::", "192.0.2.1", "example.org"])
def test_other_addresses_are_refused(ip: str) -> None:
    with pytest.raises(UsageError, match="--beyond-this-machine"):
        run_lab(None, ip=ip)


def test_a_recording_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or directory"):
        run_lab(tmp_path / "nowhere")


@pytest.mark.recording
@pytest.mark.parametrize("notebook", ["start", "latency"])
def test_names_of_the_trace_are_text_in_reports(
    hostile: Path, tmp_path: Path, notebook: str
) -> None:
    result = run_report(notebook, [hostile], tmp_path / "out", console=Console(quiet=True))
    page = result.html.read_text()
    assert "<img src=x" not in page
    assert "<script" not in page
    assert "&lt;img src=x" in page
