"""Test the workbench's screen in Chromium: panes, range, and the timeline by keyboard."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

import _timeline as measured
import polars as pl
import pytest
from hostile_lab import NODE, TOPIC, Lab
from playwright.sync_api import Locator
from running_lab import (
    PANES,
    SECONDS,
    address_of,
    open_notebook,
    run_all,
    wait_for_answers,
    wait_for_picture,
    wait_until,
)

from roslens.analysis.interop.perfetto import write_perfetto
from roslens.analysis.reports.numbers import milliseconds
from roslens.analysis.timeline.tracks import MOST_MARKS, Picture
from roslens.export import perfetto_tables
from roslens.recording import Recording
from roslens.widgets.timeline import timeline_of

pytestmark = [pytest.mark.live, pytest.mark.recording]


def themed(lab: Lab, name: str) -> None:
    """Choose a theme of JupyterLab, as a user does."""
    page = lab.page
    page.locator('.lm-MenuBar-item:has-text("Settings")').click()
    page.locator('.lm-Menu-item:has-text("Theme")').first.hover()
    page.locator(".lm-Menu-item", has_text=re.compile(f"^{name}$")).click()
    page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)


def brightness(lab: Lab, canvas: str) -> float:
    """Return the brightness (0..255) of the picture's corner, where nothing is drawn."""
    corner = "e => [...e.getContext('2d').getImageData(2, 2, 1, 1).data]"
    data = lab.box.locator(canvas).evaluate(corner)
    return float(sum(data[:3]) / 3)


def test_one_screenful_holds_all_panes_in_light_and_dark(lab: Lab) -> None:
    lab.show_all()
    assert lab.page.viewport_size == {"width": 1440, "height": 900}
    boxes = {}
    for title in PANES:
        box = lab.pane(title).bounding_box()
        assert box is not None, title
        boxes[title] = box
        assert box["x"] >= 0, title
        assert box["y"] >= 0, title
        assert box["x"] + box["width"] <= 1440, title
        assert box["y"] + box["height"] <= 900, title
        # This is enough to read something.
        assert box["width"] >= 250, title
        assert box["height"] >= 100, title
    # The timeline is on top, over the full width of the panes.
    assert boxes["Timeline"]["width"] > 1300
    assert all(boxes["Timeline"]["y"] < box["y"] for t, box in boxes.items() if t != "Timeline")
    # Latency lies below the tracks with the same left and right end, so on the same time axis.
    tracks = lab.canvas.bounding_box()
    below = lab.box.locator(".latency canvas").bounding_box()
    assert tracks is not None
    assert below is not None
    assert (below["x"], below["width"]) == (tracks["x"], tracks["width"])
    assert below["y"] >= tracks["y"] + tracks["height"] - 1
    assert below["height"] >= 100
    lab.keep("light")
    light = [brightness(lab, ".plot canvas"), brightness(lab, ".latency canvas")]
    themed(lab, "JupyterLab Dark")
    try:
        wait_until("dark pictures", lambda: brightness(lab, ".plot canvas") < 60)
        dark = [brightness(lab, ".plot canvas"), brightness(lab, ".latency canvas")]
        lab.keep("dark")
    finally:
        themed(lab, "JupyterLab Light")
    wait_until("light pictures", lambda: brightness(lab, ".plot canvas") > 200)
    assert min(light) > 200
    assert max(dark) < 60


def zoom_in(lab: Lab, times: int) -> None:
    for _ in range(times):
        answers = lab.timeline("answers")
        lab.box.get_by_role("button", name="+", exact=True).click()
        wait_for_answers(lab.page, answers + 1)


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
    lab.press("ArrowRight")
    wait_for_answers(lab.page, answers + 1)
    assert lab.timeline("places")["begin"] == pytest.approx(places["begin"] + span / 5)


def test_a_click_on_a_callback_shows_the_hops_of_its_message(lab: Lab) -> None:
    lab.show_all()
    zoom_in(lab, 7)
    places = lab.timeline("places")
    timeline = lab.timeline_tables
    # From the messages table: the one whose callback is closest to the middle of the picture.
    middle = lab.origin + (places["begin"] + places["end"]) / 2
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
    moment = (row["callback_start_ns"] + row["callback_end_ns"]) / 2 - lab.origin
    scale = places["width"] / (places["end"] - places["begin"])
    lab.canvas.click(
        position={
            "x": places["left"] + (moment - places["begin"]) * scale,
            "y": line["y"] + line["height"] / 2,
        }
    )
    detail = lab.pane("Message").locator(".roslens-message")
    detail.get_by_text(f"message {row['message_id']}, delivered").wait_for()
    lab.said(f"latency {milliseconds(row['latency_ns'])} ms")
    shown = [
        (cells.nth(0).inner_text(), cells.nth(1).inner_text())
        for cells in (r.locator("td") for r in detail.locator("tr:has(td)").all())
    ]
    # From the messages table: the first part and the last.
    sent = milliseconds(row["rmw_publish_ns"] - row["publish_ns"])
    ran = milliseconds(row["callback_end_ns"] - row["callback_start_ns"])
    assert (shown[0], shown[-1]) == (("publishing", f"{sent} ms"), ("running", f"{ran} ms"))
    whole = (row["callback_end_ns"] - row["publish_ns"]) / 1e6
    parts = sum(float(text.removesuffix(" ms").replace(",", "")) for _, text in shown)
    assert parts == pytest.approx(whole, abs=0.001 * len(shown))
    assert f"delivered, {milliseconds(row['latency_ns'])} ms" in detail.inner_text()
    # Names with markup are shown letter by letter.
    assert NODE in detail.inner_text()
    assert lab.page.evaluate("window.hacked") is None


def select_middle_fifth(lab: Lab, canvas: str = ".plot canvas") -> tuple[int, int]:
    """Drag over the middle fifth; return begin and end in ns since the epoch, to the pixel."""
    page, places = lab.page, lab.timeline("places")
    box = lab.box.locator(canvas).bounding_box()
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
    lab.said("range selected")
    return lab.range()


def cells_of(row: Locator) -> list[str]:
    return [cell.inner_text() for cell in row.locator("td").all()]


@pytest.mark.parametrize("canvas", [".plot canvas", ".latency canvas"])
def test_a_range_is_that_of_every_pane(lab: Lab, canvas: str) -> None:
    """The range is brushed in either picture; the tables give the shown values a second time."""
    lab.show_all()
    messages = lab.opened.messages.filter(pl.col("topic") == TOPIC).collect()
    callbacks = lab.opened.callback_instances.filter(pl.col("node") == NODE).collect()
    begin, end = select_middle_fifth(lab, canvas)
    places = lab.timeline("places")
    length = places["end"] - places["begin"]
    first, per_pixel = lab.origin + places["begin"], length / places["width"]
    assert begin == pytest.approx(first + 0.4 * length, abs=2 * per_pixel)
    assert end == pytest.approx(first + 0.6 * length, abs=2 * per_pixel)
    sent = messages.filter(pl.col("publish_ns").is_between(begin, end))
    began = callbacks.filter((pl.col("start_ns") >= begin) & (pl.col("start_ns") < end))
    topics = lab.pane("Topics").locator("tr:has(td)", has_text=TOPIC)
    wait_until("topic of the range", lambda: cells_of(topics)[3] == str(sent.height))
    ran = lab.pane("Callbacks").locator("tr:has(td)").filter(has_text=NODE).filter(has_text=TOPIC)
    of_topic = began.filter(pl.col("name") == TOPIC)
    wait_until("callbacks of the range", lambda: cells_of(ran)[2] == str(of_topic.height))
    took = (of_topic["end_ns"] - of_topic["start_ns"]) / 1e6
    expected = [took.sum(), took.mean(), took.max()]
    assert [float(cell) for cell in cells_of(ran)[3:6]] == pytest.approx(expected, rel=6e-3)
    worst = sent["latency_ns"].max()
    assert isinstance(worst, int)
    slowest = lab.pane("Worst messages").locator("tr:has(td)").first
    wait_until(
        "worst of the range",
        lambda: float(cells_of(slowest)[0]) == pytest.approx(worst / 1e6, rel=6e-3),
    )
    chains = lab.pane("Chains").locator("tr:has(td)", has_text=TOPIC)
    finished = sent.filter(pl.col("outcome") == "delivered").height
    wait_until("chains of the range", lambda: cells_of(chains.first)[3] == str(finished))
    graph = lab.pane("Nodes").locator("svg")
    in_range = graph.text_content()
    lab.press("Escape")
    wait_until("topic of all", lambda: cells_of(topics)[3] == str(messages.height))
    wait_until("graph of all", lambda: graph.text_content() != in_range)


def test_a_table_is_sorted_by_its_heads(lab: Lab) -> None:
    """It is sorted up, down, and as it was."""
    lab.press("Escape")
    pane = lab.pane("Topics")
    head = pane.locator("th", has_text=re.compile("^n$")).locator("button")

    def counts() -> list[int]:
        return [int(cells_of(row)[3]) for row in pane.locator("tr:has(td)").all()]

    given = counts()
    assert given != sorted(given)
    for expected in (sorted(given), sorted(given, reverse=True), given):
        head.click()
        assert counts() == expected


def test_a_click_on_one_of_the_worst_messages_jumps_there(lab: Lab) -> None:
    lab.show_all()
    of_topic = pl.col("topic") == TOPIC
    worst = lab.opened.messages.filter(of_topic, pl.col("latency_ns").is_not_null()).collect()
    row = worst.sort("latency_ns", descending=True).row(0, named=True)
    lab.pane("Worst messages").locator("tr:has(td)").first.click()
    lab.said(f"message {row['message_id']} ")
    lab.pane("Message").get_by_text(f"message {row['message_id']}, delivered").wait_for()
    state = lab.timeline("state")
    origin = lab.origin
    assert state["begin"] < row["publish_ns"] - origin
    assert state["end"] > row["callback_start_ns"] - origin
    # Close enough to see it: it takes a tenth of what is seen, at least.
    assert row["latency_ns"] > 0.1 * (state["end"] - state["begin"])
    lab.keep("worst-message")
    lab.press("Escape")
    lab.pane("Message").get_by_text("Click a callback").wait_for()


def css(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def test_what_is_clicked_in_the_graph_is_searched_for_in_the_timeline(lab: Lab) -> None:
    lab.show_all()
    search = lab.box.locator("input")
    rows = lab.timeline("places")["rows"]
    before = lab.picture()
    lab.pane("Nodes").locator(f'g[data-topic="{css(TOPIC)}"]:not([data-node])').click()
    wait_until("search", lambda: search.input_value() == f'"{TOPIC}"')
    wait_until("another picture", lambda: lab.picture() != before)
    # The keyboard selects a node, and no track goes away.
    node = lab.pane("Nodes").locator(f'g[data-node="{css(NODE)}"]:not([data-topic])')
    node.press("Enter")
    wait_until("search", lambda: search.input_value() == f'"{NODE}"')
    assert lab.timeline("places")["rows"] == rows
    node.press("Enter")
    wait_until("no search", lambda: search.input_value() == "")


def test_search_goes_from_hit_to_hit_and_never_empties_the_picture(lab: Lab) -> None:
    lab.show_all()
    lab.press("Escape")
    rows = lab.timeline("places")["rows"]
    callbacks = lab.opened.callback_instances.filter(pl.col("name") == TOPIC)
    starts = callbacks.sort("start_ns").collect()["start_ns"].to_list()
    origin = lab.origin
    lab.press("/")
    lab.page.keyboard.type("/data<")
    lab.said("Enter goes to the next hit")
    lab.page.keyboard.press("Enter")
    wait_until("first hit", lambda: lab.timeline("state")["cursor"] == starts[0] - origin)
    lab.press(".")
    wait_until("second hit", lambda: lab.timeline("state")["cursor"] == starts[1] - origin)
    lab.press(",")
    wait_until("first hit again", lambda: lab.timeline("state")["cursor"] == starts[0] - origin)
    lab.said("latency")
    lab.press("/")
    lab.page.keyboard.type("no such name")
    lab.said("nothing is called no such name")
    assert lab.timeline("places")["rows"] == rows
    lab.box.locator("input").fill("")
    lab.press("Escape")


def tracks_shown(lab: Lab) -> list[int]:
    return [row["track"] for row in lab.timeline("places")["rows"] if "track" in row]


def test_zoom_marks_and_range_by_keyboard(lab: Lab) -> None:
    """Each key changes something, and the live text says it."""
    lab.show_all()
    lab.press("Escape")
    lab.said("nothing selected")
    whole = lab.timeline("state")
    lab.press("+")
    zoomed = lab.timeline("state")
    assert zoomed["end"] - zoomed["begin"] == pytest.approx((whole["end"] - whole["begin"]) / 2)
    lab.press("ArrowLeft")
    assert lab.timeline("state")["begin"] < zoomed["begin"]
    lab.press("ArrowRight", "-")
    assert lab.timeline("state")["end"] == pytest.approx(whole["end"])
    lab.press("+", "Home")
    assert lab.timeline("state")["begin"] == whole["begin"]
    # Cursor, marks, and the distance between them: ten steps of a hundredth.
    lab.press("Escape", "m")
    lab.said("mark at")
    lab.press(*10 * ["]"], "m")
    lab.said("apart")
    a, b = lab.timeline("state")["marks"]
    assert b - a == pytest.approx(0.1 * (whole["end"] - whole["begin"]))
    status = lab.box.locator(".status")
    assert "A to B:" in status.inner_text()
    assert re.search(r"cursor .* = 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{9} UTC", status.inner_text())
    lab.press("[")
    lab.said("cursor at")
    # The range between the marks, and back to it.
    lab.press("r")
    lab.said("range selected")
    assert lab.timeline("state")["range"] == pytest.approx([a, b], abs=1)
    lab.keep("marks-and-range")
    lab.press("z")
    assert lab.timeline("state")["begin"] == pytest.approx(a, abs=1)
    lab.press("Home", "Escape")
    assert lab.timeline("state")["range"] is None
    assert lab.timeline("state")["marks"] == []
    lab.press("r")
    assert lab.timeline("state")["range"] == pytest.approx([whole["begin"], whole["end"]])
    lab.press("Escape")


def to_the_node(lab: Lab) -> int:
    """Go by keyboard to a node's track of callbacks, and return the track's number."""
    tracks = lab.timeline_tables.tracks
    wanted = next(i for i, track in enumerate(tracks) if track.label == NODE)
    rows = lab.timeline("places")["rows"]
    place = next(i for i, row in enumerate(rows) if row.get("track") == wanted)
    lab.press(*len(rows) * ["ArrowUp"], *place * ["ArrowDown"])
    return wanted


def test_groups_and_tracks_by_keyboard(lab: Lab) -> None:
    """Tracks are grouped by process, node, executor; collapsed, pinned, hidden."""
    lab.show_all()
    lab.press("Escape")
    tracks = lab.timeline_tables.tracks
    for by in ("node", "executor", "process"):
        lab.press("g")
        lab.said(f"grouped by {by}")
        headings = {row["heading"] for row in lab.timeline("places")["rows"] if "heading" in row}
        assert headings == {track.places[by][0] for track in tracks}
        assert sorted(tracks_shown(lab)) == list(range(len(tracks)))
        lab.keep(f"by-{by}")
    # The first heading, collapsed: its tracks are gone, and come back.
    lab.press(*len(lab.timeline("places")["rows"]) * ["ArrowUp"])
    lab.press("c")
    lab.said("collapsed")
    first = tracks[0].places["process"][0]
    inside = [i for i, track in enumerate(tracks) if track.places["process"][0] == first]
    assert set(tracks_shown(lab)) == set(range(len(tracks))) - set(inside)
    lab.press("c")
    lab.said("expanded")
    lab.press("C")
    lab.said("all groups collapsed")
    assert tracks_shown(lab) == []
    lab.press("C")
    # A node's track of callbacks: pinned, hidden, and shown again.
    lab.press("ArrowDown")
    wanted = to_the_node(lab)
    lab.said("(track)")
    lab.press("i")
    lab.said("pinned to the top")
    assert tracks_shown(lab)[0] == wanted
    assert lab.timeline("places")["rows"][0]["pinned"]
    lab.press("i")
    lab.said("no longer pinned")
    lab.press("h")
    lab.said("hidden")
    assert wanted not in tracks_shown(lab)
    lab.press("H")
    lab.said("all tracks shown")
    assert wanted in tracks_shown(lab)


def test_callbacks_topics_and_help_by_keyboard(lab: Lab) -> None:
    lab.show_all()
    lab.press("Escape")
    tracks = lab.timeline_tables.tracks
    wanted = to_the_node(lab)
    # Its callbacks one by one, up to the first that received the topic's message.
    messages = (
        lab.opened.messages.filter(pl.col("topic") == TOPIC)
        .drop_nulls("callback_instance_id")
        .sort("callback_start_ns")
        .collect()
    )
    number = messages["callback_instance_id"][0]
    steps = int((tracks[wanted].ids <= number).sum())
    lab.press(*steps * ["n"])
    lab.said(f"message {messages['message_id'][0]} ")
    lab.pane("Nodes").locator(".marked").first.wait_for(state="attached")
    # One at a time: what the kernel says later would replace what follows.
    live = lab.box.locator(".live")
    label = f"message {messages['message_id'][0]} "
    lab.press("n")
    wait_until("next callback", lambda: " in " in (t := live.inner_text()) and label not in t)
    lab.press("p")
    lab.said(label)
    # The latency of the next topic, and help.
    topic = lab.box.get_by_label("latency of")
    before = topic.input_value()
    lab.press("t")
    lab.said("latency of")
    wait_until(
        "topic", lambda: topic.locator("option").count() == 1 or topic.input_value() != before
    )
    lab.press("?")
    lab.box.locator(".help").get_by_text("zoom in and out").wait_for()
    lab.keep("help")
    lab.press("Escape")
    lab.box.locator(".help").wait_for(state="hidden")
    lab.press("Escape")


def test_pictures_and_perfetto_are_saved(lab: Lab, tmp_path: Path) -> None:
    page = lab.page
    lab.show_all()
    bar = lab.box.locator(".bar")
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
    # The file is as `roslens export` writes it.
    opened = lab.opened
    expected = tmp_path / "expected"
    write_perfetto(perfetto_tables(opened, opened.runs[0].name), expected)
    assert saved["Perfetto"].read_bytes() == expected.read_bytes()


@pytest.fixture(scope="module")
def dense(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write tables of a recording with more callbacks than marks are ever sent."""
    folder = tmp_path_factory.mktemp("dense")
    assert measured.write_tables(Recording.at(folder).tables, 400_000) > 5 * MOST_MARKS
    return folder


def test_a_dense_recording_is_drawn_by_levels_of_detail(lab: Lab, dense: Path) -> None:
    measured.notebook_of(dense, lab.folder / "dense.ipynb")
    browser = lab.page.context.browser
    assert browser is not None
    page = open_notebook(browser, address_of(lab.url, "dense.ipynb"))
    try:
        run_all(page)
        wait_for_picture(page)
        wait_for_answers(page, 1)
        timeline = page.locator(".roslens-timeline")

        def number(name: str) -> int:
            return int(timeline.get_attribute(f"data-{name}") or 0)

        opened = measured.opened(dense)
        model = timeline_of(opened)
        # Its tables name no process, so nothing says when the run's first event was.
        zero = opened.first_events.get(opened.runs[0].name, model.begin_ns)

        def expected() -> Picture:
            asked = json.loads(timeline.get_attribute("data-question") or "")
            begin, end = (zero + asked[name] for name in ("begin", "end"))
            return model.picture(begin, end, asked["width"], asked["shown"])

        # Columns are drawn, not callbacks; this process computes the same ones.
        wait_until("same picture", lambda: number("marks") == expected().marks)
        assert expected().bins.column.size > 0.9 * number("marks") > 1000
        assert number("marks") <= MOST_MARKS
        assert number("arrows") == 0
        timeline.get_by_text("messages: zoom in for their arrows").wait_for()
        # In a window of few callbacks each is drawn, with the arrows of its messages.
        for _ in range(12):
            answers = number("answers")
            timeline.get_by_role("button", name="+", exact=True).click()
            wait_for_answers(page, answers + 1)
        wait_until("few marks", lambda: 0 < number("marks") < 300)
        assert expected().bins.column.size == 0
        assert number("marks") == expected().marks
        assert number("arrows") > 0
        # The end of a kernel is reported, to the eye and to screen readers.
        token = lab.url.partition("token=")[2]
        base = lab.url.partition("/lab?")[0]
        with urllib.request.urlopen(
            f"{base}/api/sessions?token={token}", timeout=SECONDS
        ) as response:
            sessions = json.load(response)
        (kernel_id,) = [s["kernel"]["id"] for s in sessions if s["path"] == "dense.ipynb"]
        (kernel,) = [
            process
            for process in lab.process.children(recursive=True)
            if any(kernel_id in part for part in process.cmdline())
        ]
        kernel.kill()
        timeline.locator(".live", has_text="The kernel has ended").wait_for()
        page.screenshot(path=lab.pictures / "ended-kernel.png")
    finally:
        page.close()


def scheduled(folder: Path) -> None:
    """Write tables, and kernel switches: each callback has CPU 0, after waiting for it for 1 us."""
    recording = Recording.at(folder)
    measured.write_tables(recording.tables, 2_000)
    calls = pl.read_parquet(recording.tables / "callback_instances.parquet").sort("start_ns")
    calls = calls.filter(pl.col("end_ns") < pl.col("start_ns").shift(-1) - 2_000)
    begin, end, tid = (calls[name].to_list() for name in ("start_ns", "end_ns", "vtid"))
    turns = [(b, 0, t, 0) for b, t in zip(begin, tid, strict=True)]
    turns += [(e, t, 0, 1) for e, t in zip(end, tid, strict=True)]
    names = ["time_ns", "prev_tid", "next_tid", "prev_state"]
    switches = pl.DataFrame(turns, schema=names, orient="row").sort("time_ns").with_columns(
        host=pl.lit("h0"), cpu_id=pl.lit(0, pl.Int32), next_comm=pl.format("t{}", "next_tid")
    )  # fmt: skip
    wakes = switches.filter(pl.col("next_tid") > 0).select(
        "host", pl.col("next_tid").alias("tid"), pl.col("time_ns") - 1_000
    )
    (recording.events / "kernel").mkdir(parents=True)
    switches.write_parquet(recording.events / "kernel" / "sched_switch.parquet")
    wakes.write_parquet(recording.events / "kernel" / "sched_waking.parquet")


def test_lanes_of_the_kernel_are_drawn(lab: Lab, tmp_path: Path) -> None:
    scheduled(tmp_path / "run")
    measured.notebook_of(tmp_path / "run", lab.folder / "kernel.ipynb")
    browser = lab.page.context.browser
    assert browser is not None
    page = open_notebook(browser, address_of(lab.url, "kernel.ipynb"))
    try:
        run_all(page)
        wait_for_picture(page)
        wait_for_answers(page, 1)
        lanes = {"running", "runnable", "core"}
        tracks = timeline_of(measured.opened(tmp_path / "run")).tracks
        indexes = {i for i, track in enumerate(tracks) if track.kind in lanes}
        assert {tracks[i].kind for i in indexes} == lanes
        timeline = page.locator(".roslens-timeline")
        rows = json.loads(timeline.get_attribute("data-places") or "")["rows"]
        assert indexes <= {row.get("track") for row in rows}
        page.screenshot(path=lab.pictures / "kernel.png")
        with page.expect_download() as download:
            timeline.locator(".bar").get_by_role("button", name="SVG").click()
        download.value.save_as(tmp_path / "timeline.svg")
        svg = ElementTree.parse(tmp_path / "timeline.svg").getroot()
        texts = {"".join(e.itertext()) for e in svg.iter("{http://www.w3.org/2000/svg}text")}
        assert {"CPU 0", "on a CPU", "waits for a CPU"} <= texts
    finally:
        page.close()
