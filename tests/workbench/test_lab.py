"""Test ``roslens lab``: one server, a page that runs by itself, every name hostile."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import nbformat
import polars as pl
import psutil
import pytest
from hostile_lab import HOSTILE, LAYOUT, NODE, SAMPLE, TOPIC, USERS_WORKSPACE, Lab
from jupyter_client.blocking.client import BlockingKernelClient
from rich.console import Console
from running_lab import (
    PANES,
    SECONDS,
    address_of,
    new_page,
    running_lab,
    wait_for_picture,
    wait_until,
)

from roslens.analysis.figures.flame import Flame, frames_of
from roslens.lab import run_lab
from roslens.recording import UsageError
from roslens.report import run_report
from roslens.widgets.kernel import PreparedKernel


@pytest.mark.live
@pytest.mark.recording
def test_the_start_notebook_ran_through_when_it_opened(lab: Lab) -> None:
    lab.page.locator(".lm-TabBar-tab", has_text="start.ipynb").click()
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
    assert lab.page.get_by_text("Reading the recordings").count() == 0
    lab.page.locator(".lm-TabBar-tab", has_text="Timeline").click()
    outputs = [output for cell in cells for output in cell.outputs]
    assert len(outputs) == len(PANES) + 1
    assert not [output for output in outputs if output.output_type in ("error", "stream")]
    # The notebooks to continue with lie beside it and have their parameter.
    further = nbformat.read(path.with_name("latency.ipynb"), as_version=4)
    assert any("session-20260101120000" in cell.source for cell in further.cells)
    links = lab.pane("Notebooks").get_by_role("link", include_hidden=True)
    assert [link.inner_text() for link in links.all()].count("latency") == 1


@pytest.mark.live
@pytest.mark.recording
def test_a_flame_graph_is_drawn_and_widens_what_is_clicked(lab: Lab) -> None:
    """All functions are drawn; a click shows a function as wide as all of them."""
    samples = pl.DataFrame(
        {
            "path": ["f\nmain", f"{HOSTILE}\nmain"],
            "cpu_ns": [30, 10],
            "slow": [False, True],
        }
    )
    flame = Flame(frames_of(samples), f"The timer {HOSTILE}", "4 samples")
    data = flame._repr_mimebundle_()
    output = nbformat.v4.new_output("execute_result", data=data, execution_count=1)
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("run.stacks.flame()", outputs=[output])]
    )
    nbformat.write(notebook, lab.folder / "flame.ipynb")
    browser = lab.page.context.browser
    assert browser is not None
    page = new_page(browser)
    page.goto(address_of(lab.url, "flame.ipynb"))
    drawn = page.locator(".mark-rect.role-mark path")
    drawn.first.wait_for()
    page.get_by_role("dialog").get_by_role("button", name="No Kernel").click()
    assert drawn.count() == 4

    def widths() -> list[float]:
        # All of one moment, as the graph is drawn anew.
        found = drawn.evaluate_all("all => all.map((e) => e.getBoundingClientRect().width)")
        return [width / found[0] for width in found]

    assert sorted(widths()) == pytest.approx([0.25, 0.75, 1, 1], abs=0.02)
    page.screenshot(path=lab.pictures / "flame.png")
    drawn.nth(2).hover()
    page.locator(".vg-tooltip", has_text="in the slowest tenth").wait_for()
    drawn.nth(2).click()
    wait_until("wide function", lambda: widths()[2:3] > [0.99])
    assert page.evaluate("window.hacked") is None
    page.close()


@pytest.mark.live
@pytest.mark.recording
def test_names_of_the_trace_are_text(lab: Lab) -> None:
    assert lab.page.evaluate("window.hacked") is None
    assert lab.page.locator('img[src="x"]').count() == 0
    assert lab.page.locator("script", has_text="window.hacked").count() == 0
    # The names are there: in the table of topics, and in the graph.
    assert lab.pane("Topics").locator("td", has_text=TOPIC).count() >= 1
    assert lab.pane("Nodes").locator("svg title").filter(has_text=NODE).count() >= 1


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
    base, _, token = url.partition("/lab?")
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
    # The lab keeps its own workspace, beside the start page.
    places = "data/reports/start/*/.workspaces/default-*"
    wait_until(
        "workspace",
        lambda: any("start.ipynb" in place.read_text() for place in lab.folder.glob(places)),
    )
    assert not list(lab.folder.rglob("was-read"))


def ask(url: str, path: str, method: str = "GET") -> Any:
    """Return what the server of an address answers."""
    base, _, token = url.partition("/lab?token=")
    request = urllib.request.Request(f"{base}/api/{path}?token={token}", method=method)
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        assert answer.status == 200
        return json.load(answer)


@pytest.mark.live
def test_the_server_answers_at_once_and_its_kernel_is_the_prepared_one(tmp_path: Path) -> None:
    with running_lab(SAMPLE, tmp_path) as (process, url, _):
        assert ask(url, "status")["kernels"] <= 1
        (session,) = wait_until("session", lambda: ask(url, "sessions"))
        number = session["kernel"]["id"]

        def answer() -> None:
            """Wait until the kernel runs something."""
            client = BlockingKernelClient()
            (place,) = Path("/tmp").glob(f"roslens-lab-*/kernel-{number}.json")
            client.load_connection_file(str(place))
            # A kernel that is slow to answer is not dead.
            client.start_channels(hb=False)
            client.wait_for_ready(SECONDS)
            assert client.execute("1", reply=True, timeout=SECONDS)["content"]["status"] == "ok"
            client.stop_channels()

        def kernel(part: str) -> psutil.Process | None:
            """Return the one kernel, if `part` is in its command line."""
            kernels = [
                child
                for child in psutil.Process(process.pid).children()
                if "kernel" in re.split(r"\W", " ".join(child.cmdline()))
            ]
            assert len(kernels) <= 1
            return kernels[0] if kernels and part in " ".join(kernels[0].cmdline()) else None

        answer()
        first = kernel("roslens.widgets.kernel")
        assert first is not None
        assert first.cwd() == str(tmp_path / Path(session["path"]).parent)
        assert "ROSLENS_LAB_ARGUMENTS" not in first.environ()
        # A restarted kernel is like any other.
        ask(url, f"kernels/{number}/restart", "POST")
        wait_until("another kernel", lambda: kernel(number))
        assert not first.is_running()
        answer()
        # Only the server listens; the kernel's sockets are files of a private folder.
        server = psutil.Process(process.pid)
        ports = {
            connection.laddr.port
            for member in (server, *server.children(recursive=True))
            for connection in member.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN
        }
        assert ports == {int(url.partition("/lab")[0].rpartition(":")[2])}
        (private,) = {
            path.parent for path in Path("/tmp").glob(f"roslens-lab-*/kernel-{number}.json")
        }
        assert private.stat().st_mode & 0o777 == 0o700
        # A list of the menu waits until nobody needs the server.
        assert "html" in ask(url, "nbconvert")
    assert not private.exists()


def test_a_prepared_kernel_is_only_that_of_the_lab_and_ends_when_nobody_tells_it_more() -> None:
    prepared = PreparedKernel()
    process = prepared.process
    assert process is not None
    assert process.stdin is not None
    assert prepared.take(["julia", "-f", "connection.json"], {}) is None
    assert prepared.take([sys.executable, "-m", "ipykernel_launcher"], {}) is None
    process.stdin.close()
    assert process.wait(SECONDS) == 0


@pytest.mark.live
@pytest.mark.recording
def test_a_second_window_shows_the_start_page_too(lab: Lab, tmp_path: Path) -> None:
    browser = lab.page.context.browser
    assert browser is not None
    with running_lab(SAMPLE, tmp_path) as (_, url, _), browser.new_context() as windows:
        windows.set_default_timeout(SECONDS * 1000)
        for _ in range(2):
            page = windows.new_page()
            page.goto(url)
            wait_for_picture(page)


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(UsageError, match=f"port {port}: address already in use; .*--port"):
            run_lab([], port=port)


@pytest.mark.parametrize("port", [-1, 65536, 70000])
def test_a_port_that_is_none_is_refused(port: int) -> None:
    with pytest.raises(UsageError, match=f"--port {port}: give one from 1 to 65535"):
        run_lab([], port=port)


@pytest.mark.parametrize("ip", ["0.0.0.0", "", "*", "::", "192.0.2.1", "example.org"])
def test_other_addresses_are_refused(ip: str) -> None:
    with pytest.raises(UsageError, match="--beyond-this-machine"):
        run_lab([], ip=ip)


def test_a_recording_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file or directory"):
        run_lab([tmp_path / "nowhere"])


@pytest.mark.recording
@pytest.mark.parametrize("notebook", ["start", "latency"])
def test_names_of_the_trace_are_text_in_reports(
    hostile: Path, tmp_path: Path, notebook: str
) -> None:
    result = run_report(notebook, [hostile], tmp_path / "out", console=Console(quiet=True))
    page = result.html.read_text()
    assert "<img src=x" not in page
    # The only script is ours.
    assert page.count("<script") == 1
    assert "&lt;img src=x" in page
    assert "&lt;script&gt;window.hacked=1&lt;/script&gt;" in page
