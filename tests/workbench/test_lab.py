"""``roslens lab`` in a real browser: one server, one page, every name in the trace hostile."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat
import polars as pl
import psutil
import pytest
from playwright.sync_api import Page, sync_playwright
from rich.console import Console

import roslens as rl
from roslens.analysis.interop.perfetto import write_perfetto
from roslens.analysis.reports.numbers import milliseconds
from roslens.analysis.timeline.tracks import MOST_MARKS, Picture, Timeline
from roslens.collectors import store
from roslens.collectors.collection import NOTE
from roslens.export import tables_of_one
from roslens.lab import run_lab
from roslens.recordings import Recordings
from roslens.report import run_report
from roslens.tracing.recording import Recording, UsageError
from roslens.widgets.timeline import timeline_of

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[2] / "benchmarks")]
import timeline as measured  # noqa: E402
from running_lab import (  # noqa: E402
    SECONDS,
    address_of,
    chromium,
    open_notebook,
    run_all,
    run_start_page,
    running_lab,
    wait_for_answers,
    wait_until,
)

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "data" / "samples" / "two_process" / "000_r0_fastrtps"
HOSTILE = '<img src=x onerror="window.hacked=1">'
TOPIC, NODE = f"/data{HOSTILE}", f"/listener{HOSTILE}"
# Two lines, from right to left, and longer than any place for it.
TALKER = "/talker\n\u202e" + 300 * "x" + "<script>window.hacked=1</script>\\$\"'&"
FOLDERS_SETTINGS = ("jupyter_config", "jupyter_server_config", "jupyter_lab_config")
# As JupyterLab itself names and writes it.
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
    """The trace alone, as `ros2 trace` leaves it, with names in its tables that are HTML."""
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
    # The digests of the tables as they are now, or they would be made again.
    note = recording.tables / NOTE
    told = json.loads(note.read_text())
    with store.describing(recording) as described:
        files = described.all()
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
        wait_for_answers(self.page, answers)


@pytest.fixture(scope="module")
def server(
    hostile: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[subprocess.Popen[bytes], str, Path]]:
    """``roslens lab``, of a user of its own, who has a layout, in a folder with settings."""
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
def lab(server: tuple[subprocess.Popen[bytes], str, Path], hostile: Path) -> Iterator[Lab]:
    """The start page, run through in Chromium."""
    process, url, home = server
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        page = open_notebook(browser, url)
        run_start_page(page)
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
    assert lab.page.locator("script", has_text="window.hacked").count() == 0
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
    begin, end = select_middle_fifth(lab)
    # By the table: messages published in the middle fifth, to the pixel.
    inside = of_topic["publish_ns"].is_between(begin, end).sum()
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


def select_middle_fifth(lab: Lab) -> tuple[int, int]:
    """Drag over it; begin and end in ns since the epoch, to the pixel."""
    page, places = lab.page, lab.timeline("places")
    box = page.locator(".roslens-timeline canvas").bounding_box()
    assert box is not None
    x = [box["x"] + places["left"] + places["width"] * part for part in (0.4, 0.6)]
    y = box["y"] + 40
    page.mouse.move(x[0], y)
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move((x[0] + x[1]) / 2, y)
    page.mouse.move(x[1], y)
    page.mouse.up()
    page.keyboard.up("Shift")
    page.locator(".roslens-timeline .status", has_text="range:").wait_for()
    origin = lab.timeline_tables.begin_ns
    return origin + round(0.4 * places["end"]), origin + round(0.6 * places["end"])


@pytest.mark.live
@pytest.mark.recording
def test_a_range_is_that_of_the_topics_and_of_the_graph(lab: Lab) -> None:
    page = lab.page
    lab.show_all()
    cell = page.locator("tr", has=page.locator("td", has_text=TOPIC)).locator("td").nth(3)
    every = lab.opened.messages.filter(pl.col("topic") == TOPIC).collect()
    cell.get_by_text(str(every.height), exact=True).wait_for()
    edge = f'.roslens-graph g[data-topic="{css(TOPIC)}"]'
    whole = page.locator(".roslens-graph svg").text_content()
    begin, end = select_middle_fifth(lab)
    inside = every["publish_ns"].is_between(begin, end).sum()
    per_pixel = every.height / lab.timeline("places")["width"]
    page.wait_for_function(
        "([all, near, about]) => { const row = [...document.querySelectorAll('tr')]"
        ".find(r => r.cells.length === 9 && r.cells[0].innerText.trim() === about);"
        " const shown = row && Number(row.cells[3].innerText.replace(/,/g, ''));"
        " return row && Math.abs(shown - all) <= near; }",
        arg=[inside, 6 * per_pixel + 2, TOPIC],
    )
    page.wait_for_function(
        "before => document.querySelector('.roslens-graph svg').textContent !== before", arg=whole
    )
    assert page.locator(edge).count() >= 3
    page.locator(".roslens-timeline canvas").press("Escape")
    page.wait_for_function(
        "before => document.querySelector('.roslens-graph svg').textContent === before", arg=whole
    )


def css(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


@pytest.mark.live
@pytest.mark.recording
def test_what_is_clicked_in_the_graph_is_searched_for_in_the_timeline(lab: Lab) -> None:
    page = lab.page
    lab.show_all()
    search = page.locator(".roslens-timeline input")
    before = lab.picture()
    topic = page.locator(f'.roslens-graph g[data-topic="{css(TOPIC)}"]:not([data-node])')
    topic.click()
    page.wait_for_function(
        "wanted => document.querySelector('.roslens-timeline input').value === wanted",
        arg=f'"{TOPIC}"',
    )
    page.wait_for_function(
        "before => document.querySelector('.roslens-timeline canvas').toDataURL() !== before",
        arg=before,
    )
    # A node by key: only its tracks are left.
    node = page.locator(f'.roslens-graph g[data-node="{css(NODE)}"]:not([data-topic])')
    node.press("Enter")
    page.wait_for_function(
        "wanted => document.querySelector('.roslens-timeline input').value === wanted",
        arg=f'"{NODE}"',
    )
    tracks = lab.timeline_tables.tracks
    own = [i for i, t in enumerate(tracks) if t.label == NODE]
    page.wait_for_function(
        "wanted => JSON.parse(document.querySelector('.roslens-timeline').dataset.places).rows"
        ".filter(r => 'track' in r).map(r => r.track).join() === wanted",
        arg=",".join(map(str, own)),
    )
    node.press("Enter")
    page.wait_for_function("document.querySelector('.roslens-timeline input').value === ''")
    assert search.input_value() == ""


@pytest.mark.live
@pytest.mark.recording
def test_by_keys_alone_to_a_message_and_its_way(lab: Lab) -> None:
    page = lab.page
    lab.show_all()
    canvas = page.locator(".roslens-timeline canvas")
    tracks = lab.timeline_tables.tracks
    wanted = next(i for i, t in enumerate(tracks) if t.label == NODE)
    canvas.press("Escape")
    page.locator(".roslens-timeline .journey").get_by_text("Click a callback").wait_for()
    for key, times in (("ArrowUp", len(tracks)), ("ArrowDown", wanted)):
        for _ in range(times):
            canvas.press(key)
    # The first callback, and on to one that received the topic's message.
    messages = (
        lab.opened.messages.filter(pl.col("topic") == TOPIC)
        .drop_nulls("callback_instance_id")
        .collect()
    )
    number = int(messages["callback_instance_id"].min())  # type: ignore[arg-type]
    steps = int((tracks[wanted].ids <= number).sum())
    for _ in range(steps):
        canvas.press("n")
    message = messages.filter(pl.col("callback_instance_id") == number)["message_id"].item()
    page.locator(".roslens-timeline .journey").get_by_text(f"message {message},").wait_for()
    # Its way stands above, and is marked in the graph.
    page.locator("figcaption", has_text="one message on each topic").wait_for()
    page.locator(".roslens-graph .marked").first.wait_for(state="attached")
    help_panel = page.locator(".roslens-timeline .help")
    assert not help_panel.is_visible()
    canvas.press("?")
    help_panel.get_by_text("zoom in and out").wait_for()
    canvas.press("Escape")
    help_panel.wait_for(state="hidden")


@pytest.mark.live
@pytest.mark.recording
def test_pictures_and_perfetto_are_saved(lab: Lab, tmp_path: Path) -> None:
    page = lab.page
    lab.show_all()
    bar = page.locator(".roslens-timeline .bar")
    saved = {}
    for name in ("PNG", "SVG", "Perfetto"):
        with page.expect_download() as download:
            bar.get_by_role("button", name=name).click()
        saved[name] = tmp_path / download.value.suggested_filename
        download.value.save_as(saved[name])
    assert saved["PNG"].read_bytes().startswith(b"\x89PNG")
    svg = ElementTree.parse(saved["SVG"]).getroot()
    texts = ["".join(e.itertext()) for e in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert any(text.startswith("/listener<img") for text in texts)
    assert len(list(svg.iter("{http://www.w3.org/2000/svg}rect"))) > 100
    # As `roslens export` writes it.
    opened = lab.opened
    expected = tmp_path / "expected"
    write_perfetto(tables_of_one(opened, opened.runs[0].name), expected)
    assert saved["Perfetto"].read_bytes() == expected.read_bytes()


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of a recording with more callbacks than marks are ever sent."""
    folder = tmp_path_factory.mktemp("dense")
    assert measured.write_tables(Recording.at(folder).tables, 400_000) > 5 * MOST_MARKS
    return folder


@pytest.mark.live
@pytest.mark.recording
def test_a_dense_recording_is_drawn_by_levels_of_detail(lab: Lab, dense: Path) -> None:
    measured.notebook_of(dense, lab.folder / "dense.ipynb")
    browser = lab.page.context.browser
    assert browser is not None
    page = open_notebook(browser, address_of(lab.url, "dense.ipynb"))
    try:
        run_all(page)
        page.wait_for_function("document.querySelector('.roslens-timeline')?.dataset.marks > 0")
        wait_for_answers(page, 1)
        timeline = page.locator(".roslens-timeline")

        def told(name: str) -> int:
            return int(timeline.get_attribute(f"data-{name}") or 0)

        made = timeline_of(measured.opened(dense))

        def expected() -> Picture:
            asked = json.loads(timeline.get_attribute("data-question") or "")
            begin, end = (made.begin_ns + asked[name] for name in ("begin", "end"))
            return made.picture(begin, end, asked["width"], asked["shown"])

        # Columns, not callbacks; the same that this process computes.
        wait_until("same picture", lambda: told("marks") == expected().marks)
        assert expected().bins.column.size > 0.9 * told("marks") > 1000
        assert told("marks") <= MOST_MARKS
        assert told("arrows") == 0
        timeline.get_by_text("messages: zoom in for their arrows").wait_for()
        # In a window of few callbacks each is drawn, with the arrows of its messages.
        for _ in range(12):
            answers = told("answers")
            timeline.get_by_role("button", name="+", exact=True).click()
            wait_for_answers(page, answers + 1)
        wait_until("few marks", lambda: 0 < told("marks") < 300)
        assert expected().bins.column.size == 0
        assert told("marks") == expected().marks
        assert told("arrows") > 0
    finally:
        page.close()


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


@pytest.mark.live
@pytest.mark.recording
def test_the_users_layout_and_the_settings_of_the_folder_are_left_alone(lab: Lab) -> None:
    assert json.loads((lab.folder / USERS_WORKSPACE).read_text()) == LAYOUT
    assert lab.page.locator(".lm-DockPanel-tabBar", has_text="other.ipynb").count() == 0
    # It keeps its own, beside the start page.
    kept = wait_until(
        "workspace", lambda: [*lab.folder.glob("data/reports/start/*/.workspaces/default-*")]
    )
    assert "start.ipynb" in kept[0].read_text()
    assert not list(lab.folder.rglob("was-read"))


@pytest.mark.live
def test_the_server_answers_when_its_address_is_read(tmp_path: Path) -> None:
    """At once, without a second try."""
    with running_lab(SAMPLE, tmp_path) as (_, url, _):
        base, _, token = url.partition("/lab/tree/")
        asked = f"{base}/api/status?token={token.split('token=')[1]}"
        with urllib.request.urlopen(asked, timeout=SECONDS) as answer:
            assert answer.status == 200


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port}: address already in use; .*--port"):
            run_lab(None, port=port)


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
    # One script, which is ours.
    assert page.count("<script") == 1
    assert "&lt;img src=x" in page
    assert "&lt;script&gt;window.hacked=1&lt;/script&gt;" in page
