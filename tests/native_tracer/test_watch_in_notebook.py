"""Test ``rl.watch`` in a kernel during a recording; expected is what the program does."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import nbformat
import polars as pl
import pytest
from nbclient import NotebookClient
from tests.native_tracer.test_native_tracer import environment
from tests.native_tracer.test_watch import is_written, record, running, wait_for

from roslens.collectors.collection import collect
from roslens.recording import find_recordings

pytestmark = pytest.mark.live
CHAIN = "/talker -> /chatter -> /listener"


class Client(NotebookClient):
    """A notebook client that keeps each refresh."""

    def __init__(self, *cells: str) -> None:
        self.pages: list[str] = []
        code_cells = [
            nbformat.v4.new_code_cell(source) for source in ("import roslens as rl", *cells)
        ]
        notebook = nbformat.v4.new_notebook(cells=code_cells)
        super().__init__(notebook, kernel_name="python3", timeout=600, startup_timeout=300)

    def process_message(self, msg: dict, *where: object) -> object:
        if msg["msg_type"] == "update_display_data":
            self.pages.append(msg["content"]["data"]["text/html"])
        return super().process_message(msg, *where)


def rows_of(page: str, caption: str) -> list[list[str]]:
    """Return the cells of a table."""
    (table,) = re.findall(f">{caption}</caption>(.*?)</table>", page, re.DOTALL)
    return [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in table.split("<tr")[2:]]


def counts_of(client: Client) -> list[int]:
    """Return the number of executions in each refresh."""
    pages = [page for page in client.pages if "callbacks" in page]
    return [int(rows_of(page, "callbacks")[0][3].replace(",", "")) for page in pages]


def test_a_cell_shows_a_recording_until_it_ends(talking: Path, tmp_path: Path) -> None:
    """Message 20 takes 60 ms, 40 is lost; the tables, collected afterwards, tell how many ran."""
    run, workload = tmp_path / "run", tmp_path / "workload"
    shutil.copy2(talking, workload)
    endless = (workload, "1000000", "500", "20", "40")
    recording = record(run, "triggers: [gap of /a > 1000 s]", "--", *endless)
    chain = f"['{CHAIN} > 50 ms']"
    client = Client(f"rl.watch({str(run)!r}, window=0, every=0.3, chains={chain})")

    def end() -> None:
        wait_for(lambda: len(set(counts_of(client))) > 2)
        for process in running(workload):
            os.kill(process, signal.SIGKILL)

    thread = threading.Thread(target=end)
    try:
        wait_for(lambda: list(run.glob("**/ros2-*/ros2_[0-9]*")))
        thread.start()
        client.execute()
        thread.join()
        recording.communicate(timeout=300)
    finally:
        recording.kill()
        recording.communicate()
    (shown,) = client.nb.cells[1].outputs
    page = shown["data"]["text/html"]
    assert page == client.pages[-1]
    counts = counts_of(client)
    assert counts == sorted(counts)
    collect(find_recordings(run)[0])
    ran = pl.read_parquet(run / "tables" / "callback_instances.parquet")
    assert counts[-1] == ran.height > 40
    ((chain, count, *_, deadline, missed),) = rows_of(page, "chains")
    assert (chain, deadline) == (CHAIN.replace(">", "&gt;"), "50.0 ms")
    assert count == f"{ran['end_ns'].drop_nulls().len():,}"
    # The slow message, the lost one, and those that waited behind the slow one.
    assert int(missed) >= 2
    assert "roslens-marked" in page


def test_an_interrupt_ends_it_and_nothing_else(
    talking: Path, library: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    program = subprocess.Popen(
        [str(talking), "1000000", "500", "0", "0"], env=environment(library, folder)
    )
    client = Client(f"rl.watch({str(folder)!r}, every=0.2)", "1 + 1")

    def interrupt() -> None:
        wait_for(lambda: len(client.pages) > 2)
        os.kill(client.km.provisioner.pid, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    try:
        wait_for(lambda: is_written(folder))
        thread.start()
        client.execute()
    finally:
        program.kill()
        program.wait()
    thread.join()
    _, watching, after = client.nb.cells
    assert [output.output_type for output in watching.outputs] == ["display_data"]
    assert after.outputs[0]["data"]["text/plain"] == "2"
    assert list(place.glob("roslens-live-*")) == []
