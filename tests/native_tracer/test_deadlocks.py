"""Test programs that deadlock: their source says who waits for whom.

`roslens dump` reports it while they hang, and the recording afterwards.
"""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.native_tracer.test_dump import shown

import roslens as rl
from roslens.recording import UsageError
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions

NODE = Path(__file__).parent / "deadlock_node.py"
pytestmark = pytest.mark.live


def recorded(command: list[str], folder: Path, *nodes: str) -> Path:
    """Record a program that hangs until it ends, and return the run."""
    run, manifest = record_command(
        [*command, *nodes],
        folder / "run",
        options=TracingOptions(tracer="native", kernel="off"),
        ros="embedded",
        trace_rclpy=command[0] == "python",
        time_limit=60,
    )
    assert manifest.status == "complete", manifest.failure
    return run


def sentences(run: Path) -> dict[str, str]:
    """Return the sentence for each node that hangs."""
    rows = rl.open(run).silences()
    assert set(rows["state"]) == {"hung"}
    return {row["node"]: row["sentence"] for row in rows.iter_rows(named=True)}


DEADLOCKS = {
    "alone/own/own": [("/alone", "/alone", "/own")],
    # Whichever request comes first is served once, but its response cannot be taken.
    "one/a/b two/b/a": [("/one", "/two", "/b"), ("/two", "/one", "/a")],
    "one/a/b two/b/c three/c/a": [
        *(("/one", "/two", "/b"), ("/two", "/three", "/c")),
        ("/three", "/one", "/a"),
    ],
}
"""By the program's arguments: each node, the node it waits for, and the service."""


@pytest.mark.parametrize("nodes", DEADLOCKS)
def test_executors_that_wait_for_themselves_or_each_other(
    program: list[str],
    nodes: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits, stop = DEADLOCKS[nodes], tmp_path / "stop"
    monkeypatch.setenv("STOP", str(stop))
    # The width is large enough that no cell is wrapped.
    monkeypatch.setenv("COLUMNS", "200")
    screen = ""
    with ThreadPoolExecutor() as pool:
        recording = pool.submit(recorded, program, tmp_path, *nodes.split())
        while not recording.done() and screen.count(": a deadlock") < len(waits):
            time.sleep(0.5)
            try:
                screen = shown(waits[0][0], capsys)
            except UsageError:
                capsys.readouterr()
        time.sleep(1)  # a shorter silence does not count
        stop.touch()
        by_node = sentences(recording.result())
    assert sorted(by_node) == sorted(node for node, _, _ in waits)
    for node, server, service in waits:
        # No execution before took an answer, so that it waits is likely, but not shown.
        assert f"it has not got the answer of {service} of {server}, which only" in screen
        assert re.search(rf"in the timer callback 50 ms of {node} [\d.]+ m?s asleep", screen)
        cycle = f"{service} of {server}, which only this thread could serve: a deadlock"
        assert (cycle if node == server else f"{service} of {server}, which only") in by_node[node]
        assert by_node[node].count(": a deadlock, if it waits for that") == 1


def test_a_service_of_the_own_callback_group(
    program: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor's second thread is free, but the timer and the service exclude one another.

    A thread that has run no callback is not known to be one of the executor's.
    """
    monkeypatch.setenv("THREADS", "2")
    by_node = sentences(recorded(program, tmp_path, "alone/own/own"))
    assert list(by_node) == ["/alone"]
    free = r"no thread has served although thread \d+ waits for work"
    named = rf"/own of /alone, which ({free}|only this thread could serve): a deadlock"
    assert re.search(named, by_node["/alone"])
