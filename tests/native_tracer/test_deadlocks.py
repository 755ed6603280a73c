"""Programs that lock themselves, recorded: who waits for whom, by how they are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import roslens as rl
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions

NODE = Path(__file__).parent / "deadlock_node.py"
pytestmark = pytest.mark.live


def sentences(command: list[str], folder: Path, *nodes: str) -> dict[str, str]:
    """What is said of each node that hangs."""
    run, manifest = record_command(
        [*command, *nodes],
        folder / "run",
        options=TracingOptions(tracer="native", kernel="off"),
        ros="embedded",
        trace_rclpy=command[0] == "python",
        time_limit=60,
    )
    assert manifest.status == "complete", manifest.failure
    rows = rl.open(run).silences()
    assert set(rows["state"]) == {"hung"}
    return {row["node"]: row["sentence"] for row in rows.iter_rows(named=True)}


def test_a_service_of_the_own_executor(program: list[str], tmp_path: Path) -> None:
    told = sentences(program, tmp_path, "alone/own/own")
    assert list(told) == ["/alone"]
    assert "/own of /alone, which only this thread could serve: a deadlock" in told["/alone"]


def test_two_executors_that_call_each_other(program: list[str], tmp_path: Path) -> None:
    """Whichever comes first is served once, and then cannot take the answer."""
    told = sentences(program, tmp_path, "one/a/b", "two/b/a")
    assert sorted(told) == ["/one", "/two"]
    for own, other, service in (("/one", "/two", "/b"), ("/two", "/one", "/a")):
        assert f"it waits for the answer of {service} of {other}, which only" in told[own]
        assert told[own].count(": a deadlock") == 1


def test_a_service_of_the_own_callback_group(
    program: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The executor's second thread is free, but the timer and the service exclude one another.

    A thread that has run no callback is not known to be one of the executor's.
    """
    monkeypatch.setenv("THREADS", "2")
    told = sentences(program, tmp_path, "alone/own/own")
    assert list(told) == ["/alone"]
    free = r"no thread has served although thread \d+ waits for work"
    named = rf"/own of /alone, which ({free}|only this thread could serve): a deadlock"
    assert re.search(named, told["/alone"])


def test_three_executors_in_a_ring(program: list[str], tmp_path: Path) -> None:
    told = sentences(program, tmp_path, "one/a/b", "two/b/c", "three/c/a")
    assert sorted(told) == ["/one", "/three", "/two"]
    for own, other, service in (("/one", "/two", "/b"), ("/two", "/three", "/c")):
        assert f"it waits for the answer of {service} of {other}, which only" in told[own]
        assert told[own].count(": a deadlock") == 1
