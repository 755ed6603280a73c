"""The timeline on a recording of 10 million events: first picture, then zooming and panning.

Makes the tables that such a recording has (20 nodes in 4 processes, callbacks of 0.2 ms on
average), opens them as a notebook does, and answers what the browser asks. With ``--browser`` the
same in JupyterLab and Chromium: from running the cell to the first picture drawn, and from each key
to the picture that answers it.

    python benchmarks/timeline.py [--events 10000000] [--browser] [--keep FOLDER]

``--keep`` leaves the tables in a folder, and takes them from there the next time.
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
import polars as pl

from roslens.analysis.runs import runs_of
from roslens.analysis.timeline.tracks import MOST_MARKS
from roslens.collectors.schema import TABLES
from roslens.recording import Recording
from roslens.recordings import Recordings
from roslens.widgets.timeline import TimelineWidget

ROOT = Path(__file__).parents[1]
# Of one message: publish in three layers, take, callback start and end; of the executor's
# interval: one event.
EVENTS_PER_MESSAGE = 7
NODES, PROCESSES = 20, 4
FIRST_NS = 1_700_000_000_000_000_000
WIDTH = 1200


def table(name: str, columns: dict[str, object], rows: int) -> pl.DataFrame:
    """A table of the schema; columns that are not given are null."""
    frame = pl.DataFrame(columns)
    assert frame.height == rows
    empty = TABLES[name].empty()
    return frame.select(
        (pl.col(c) if c in columns else pl.lit(None)).cast(kind).alias(c)
        for c, kind in empty.schema.items()
    )


def write_tables(folder: Path, events: int) -> int:
    """Tables of a recording with so many events; returns how many callbacks it has."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(20261121)
    count = events // EVENTS_PER_MESSAGE
    node = rng.integers(0, NODES, count)
    start = FIRST_NS + np.sort(rng.integers(0, count * 100_000, count))
    duration = rng.exponential(200_000, count).astype(np.int64) + 1000
    process = node % PROCESSES
    names = np.array([f"/node_{i}" for i in range(NODES)])[node]
    topics = np.array([f"/topic_{i}" for i in range(NODES)])[node]
    host = ["h0"] * count
    identity = np.arange(count)
    publish = start - rng.exponential(300_000, count).astype(np.int64) - 1000
    own = {"host": host, "vpid": 100 + process, "vtid": 100 + process}
    callbacks = {
        "callback_instance_id": identity, **own, "kind": ["subscription"] * count, "name": topics,
        "node": names, "start_ns": start, "end_ns": start + duration, "duration_ns": duration,
    }  # fmt: skip
    messages = {
        "message_id": identity, "host": host, "topic": topics, "subscription_node": names,
        "publish_ns": publish, "rcl_publish_ns": publish + 300, "rmw_publish_ns": publish + 600,
        "take_ns": start - 400, "callback_start_ns": start, "callback_end_ns": start + duration,
        "latency_ns": start - publish, "outcome": ["delivered"] * count,
        "callback_instance_id": identity,
    }  # fmt: skip
    sender = np.where(identity > 100, identity - rng.integers(1, 100, count), 0)
    publications = {
        "message_id": identity, "host": host, "topic": topics, "publish_ns": publish,
        "callback_instance_id": sender,
    }  # fmt: skip
    waits = {
        **own, "state": ["wait"] * count, "begin_ns": start - 50_000, "end_ns": start - 1000,
    }  # fmt: skip
    processes = {
        "process_id": range(PROCESSES), "host": ["h0"] * PROCESSES,
        "vpid": [100 + i for i in range(PROCESSES)],
        "procname": [f"container_{i}" for i in range(PROCESSES)],
    }  # fmt: skip
    for name, columns in (
        ("callback_instances", callbacks),
        ("messages", messages),
        ("publications", publications),
        ("executor_intervals", waits),
    ):
        table(name, columns, count).write_parquet(folder / f"{name}.parquet")
    table("processes", processes, PROCESSES).write_parquet(folder / "processes.parquet")
    return count


def opened(folder: Path) -> Recordings:
    """The recording whose tables `write_tables` wrote below `folder`."""
    recording = Recording.at(folder)
    return Recordings([recording], runs_of([recording]))


def ask(widget: TimelineWidget, begin: float, end: float) -> float:
    """Seconds that one question of the browser takes."""
    shown = list(range(len(widget.timeline.tracks)))
    started = time.perf_counter()
    widget._answer(
        widget,
        {"type": "view", "begin": begin, "end": end, "width": WIDTH, "shown": shown},
        [],
    )
    return time.perf_counter() - started


def in_kernel(folder: Path) -> None:
    """What the kernel takes, without a browser."""
    recordings = opened(folder)
    started, used = time.perf_counter(), time.process_time()
    widget = TimelineWidget(recordings)  # holds the first picture
    first, cpu = time.perf_counter() - started, time.process_time() - used
    length = float(widget.timeline.end_ns - widget.timeline.begin_ns)
    rng = np.random.default_rng(1)
    taken = []
    for _ in range(300):
        span = length * 10 ** rng.uniform(-5, 0)
        begin = rng.uniform(0, length - span)
        taken.append(ask(widget, begin, begin + span))
    whole = widget.timeline.picture(widget.timeline.begin_ns, widget.timeline.end_ns, WIDTH)
    print(f"tracks                    {len(widget.timeline.tracks):>12,}")
    print(f"first picture             {first:>12.3f} s    (CPU {cpu:.3f} s; bar: 2 s)")
    say(taken)
    print(f"marks of the whole        {whole.marks:>12,}    (at most {MOST_MARKS:,})")


def say(taken: Sequence[float]) -> None:
    """Print how long answers took, in seconds."""
    print(f"pan or zoom, median       {1e3 * statistics.median(taken):>12.1f} ms   (bar: 100 ms)")
    print(f"pan or zoom, worst of {len(taken):<4}{1e3 * max(taken):>12.1f} ms")


def notebook_of(folder: Path, path: Path) -> None:
    """A notebook that draws the timeline in its second cell."""
    prepare = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
import roslens as rl
from timeline import opened
recordings = opened(Path({str(folder)!r})); rl.timeline; 'ready'
"""
    cells = [prepare.strip(), "rl.timeline(recordings)"]
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "", "language": "python"}},
    )
    nbformat.write(notebook, path)


def in_browser(folder: Path) -> None:
    """What a user waits for, in JupyterLab and Chromium."""
    sys.path.insert(0, str(ROOT / "tests" / "workbench"))
    from playwright.sync_api import sync_playwright  # noqa: PLC0415
    from running_lab import (  # noqa: PLC0415
        address_of,
        chromium,
        open_notebook,
        running_lab,
        wait_for_answers,
    )

    with (
        tempfile.TemporaryDirectory() as home,
        running_lab(ROOT / "data" / "samples" / "two_process", Path(home)) as (_, url, place),
        sync_playwright() as playwright,
    ):
        notebook_of(folder.resolve(), place / "dense.ipynb")
        browser = chromium(playwright)
        page = open_notebook(browser, address_of(url, "dense.ipynb"), height=1000)
        page.locator(".jp-CodeCell .cm-content").first.click()
        page.keyboard.press("Shift+Enter")
        page.get_by_text("'ready'", exact=True).last.wait_for()
        began = page.evaluate("performance.now()")
        page.keyboard.press("Shift+Enter")
        page.wait_for_function("document.querySelector('.roslens-timeline')?.dataset.marks > 0")
        timeline = page.locator(".roslens-timeline")
        drawn = float(timeline.get_attribute("data-drawn") or "nan")
        most = int(timeline.get_attribute("data-marks") or 0)
        canvas = timeline.locator(".plot canvas")
        rng, taken = np.random.default_rng(1), []
        wait_for_answers(page, 1)
        for _ in range(60):
            answers = int(timeline.get_attribute("data-answers") or 0)
            canvas.press(str(rng.choice(["+", "+", "-", "ArrowLeft", "ArrowRight"])))
            wait_for_answers(page, answers + 1)
            taken.append(float(timeline.get_attribute("data-answer-ms") or "nan") / 1e3)
            most = max(most, int(timeline.get_attribute("data-marks") or 0))
        browser.close()
    print(f"browser: first picture    {(drawn - began) / 1e3:>12.3f} s    (bar: 2 s)")
    say(taken)
    print(f"browser: most marks       {most:>12,}    (at most {MOST_MARKS:,})")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--browser", action="store_true")
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = given.keep or Path(place, "recording")
        tables = Recording.at(folder).tables
        if not tables.is_dir():
            write_tables(tables, given.events)
        count = pl.scan_parquet(tables / "messages.parquet").select(pl.len()).collect().item()
        print(f"events, about             {count * EVENTS_PER_MESSAGE:>12,}")
        print(f"callbacks, messages       {count:>12,}")
        in_kernel(folder)
        if given.browser:
            in_browser(folder)


if __name__ == "__main__":
    main()
