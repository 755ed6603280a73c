"""Test a user's node, compiled for the embedded ROS 2 and recorded, against what it printed."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from tests.programs import roslens

import roslens as rl
from roslens.recording import UsageError
from roslens.recording.terminal import Console
from roslens.ros import compile_nodes

NODE = Path(__file__).parent / "nodes" / "ticking.cpp"


@pytest.mark.live
def test_what_an_own_node_prints_is_what_is_recorded(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    shutil.copy(NODE, package / "node.cpp")
    (package / "CMakeLists.txt").write_text(
        "project(mine)\nadd_executable(${PROJECT_NAME}_node  # ours\n  node.cpp)\n"
    )

    compiled = roslens("dev", "ros", "compile", package, "-o", tmp_path / "made", check=True)
    program = compiled.stdout.splitlines()[-1]
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["mine_node"]
    of_node = (pl.col("topic") == "/ticks") & (pl.col("outcome") == "delivered")
    for tracer in ("lttng", "native"):
        run = tmp_path / tracer
        options = ("--ros", "embedded", "--tracer", tracer, "--kernel", "off", "-o", run)
        printed = roslens("record", *options, "--", program, check=True).stdout
        heard = [line for line in printed.splitlines() if line.isdecimal()]
        messages = rl.open(run).messages.filter(of_node).collect()
        assert heard == ["1", "2", "3"]
        assert messages.height == len(heard)
        assert set(messages["publisher_node"]) == set(messages["subscription_node"]) == {"/ticking"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "give a file of C"),
        ("add_executable(${made} ${files})", "no add_executable names its files"),
        ("add_executable(one src/one.cpp)", "one.cpp is not there"),
    ],
)
def test_what_is_no_node_is_refused(text: str | None, said: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "CMakeLists.txt").write_text(text)
    with pytest.raises(UsageError, match=said):
        compile_nodes(tmp_path, tmp_path, Console())
