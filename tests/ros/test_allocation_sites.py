"""Test which functions hold memory, by heaptrack, against what programs say they kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import polars as pl
import pytest
from tests.rclcpp import compiled

import roslens as rl
from roslens.analysis.leaks.sites import short_name
from roslens.recording import UsageError
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.sampling.allocations import Heaptrack, Interpreted
from roslens.tracing.sampling.rates import SamplerRates

NODES = Path(__file__).with_name("nodes")
needs_heaptrack = pytest.mark.skipif(not shutil.which("heaptrack"), reason="needs heaptrack")

# Two lines of spin() allocate 16 (hex 10) bytes each through operator new; one block is freed.
TOLD = """\
v 10400 3
s 9 /opt/prog
s c operator new
s 21 rclcpp::Executor::spin()
s 9 /x/spin.c
s 4 main
i 1 1 2 0 0
i 2 1 3 4 7
i 3 1 3 4 8
i 4 1 5 0 0
t 4 0
t 2 1
t 1 2
t 3 1
t 1 4
a 10 3
a 10 5
+ 0
+ 1
c 1f5
+ 0
- 1
c 400
"""


def test_paths_and_steps_by_hand() -> None:
    interpreted = Interpreted()
    interpreted.read(TOLD.splitlines(keepends=True))
    rows = list(interpreted.rows())
    # At 501 ms, and at 1024 ms.
    assert [at for at, _ in rows] == [501, 501, 1024, 1024]
    assert [(row["line"], row["live_bytes"], row["live_blocks"]) for _, row in rows] == [
        *((7, 16, 1), (8, 16, 1)),
        *((7, 32, 2), (8, 0, 0)),
    ]
    assert {(row["function"], row["file"], row["module"], row["called_by"]) for _, row in rows} == {
        ("rclcpp::Executor::spin()", "spin.c", "prog", "executor")
    }
    assert {row["path"] for _, row in rows} == {"operator new\nrclcpp::Executor::spin()\nmain"}


def test_lines_of_a_function_without_symbols_are_one_path() -> None:
    interpreted = Interpreted()
    interpreted.read(
        TOLD.replace(" 3 4 7", " 3 0 0").replace(" 3 4 8", " 3 0 0").splitlines(keepends=True)
    )
    assert [(at, row["live_bytes"], row["live_blocks"]) for at, row in interpreted.rows()] == [
        (501, 32, 2),
        (1024, 32, 2),
    ]


def test_another_version_of_its_data_is_refused() -> None:
    with pytest.raises(ValueError, match="version 9"):
        Interpreted().read(["v 20000 9\n"])


def test_without_heaptrack_nothing_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="apt-get install heaptrack"):
        Heaptrack.find_installed()


@needs_heaptrack
@pytest.mark.live
def test_a_leak_of_an_executor_and_one_of_a_callback(tmp_path: Path) -> None:
    """In three runs, each block the program says it kept is found; both leaks climb most."""
    program = compiled(NODES / "leaky_executor.cpp", tmp_path / "leaky")
    folders = [tmp_path / "runs" / f"{k}" for k in range(3)]
    for folder in folders:
        output = tmp_path / "said"
        command = ["sh", "-c", f'exec "{program}" > "{output}"']
        _, manifest = record_command(
            command,
            folder,
            options=TracingOptions(kernel="off"),
            ros="embedded",
            samplers=SamplerRates(allocations=True),
            time_limit=300,
        )
        assert manifest.status == "complete", manifest.failure
        assert any("heaptrack" in warning for warning in manifest.warnings)
        executions, messages = map(int, output.read_text().split())
        sites = pl.read_parquet(folder / "allocation_sites.parquet")
        last = sites.group_by("vpid", "function", "path").last()

        def kept(by: str, size: int, last: pl.DataFrame = last) -> list[int]:
            of_size = (pl.col("called_by") == by) & (
                pl.col("live_bytes") == size * pl.col("live_blocks")
            )
            return last.filter(of_size & (pl.col("live_blocks") > 100))["live_blocks"].to_list()

        assert kept("executor", 256) == [executions]
        assert kept("callback", 64) == [messages]
        assert not (folder / "native" / "heaptrack").exists()
    growing = rl.open(tmp_path / "runs").memory.estimates()
    first, second = (
        growing.filter(metric="site_growth").sort("value", descending=True).rows(named=True)[:2]
    )
    assert "LeakyExecutor::spin_next" in first["function"]
    assert (first["called_by"], second["called_by"]) == ("executor", "callback")
    # The executor leaks 256 bytes in each of two executions per message, the callback 64.
    assert first["value"] == pytest.approx(8 * second["value"], rel=0.3)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("a::B<int, c<d> >::run(std::vector<int>&)", "a::B::run"),
        ("(anonymous namespace)::f(int)", "f"),
        ("main", "main"),
        ("operator<(A, B)", "operator<(A, B)"),
    ],
)
def test_names_are_short(function: str, name: str) -> None:
    assert short_name(function) == name
