"""Test executor threads' waits, and their CPU time, against what the program notes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest
from tests.rclcpp import compiled

import roslens as rl
from roslens.tracing.command import record_command
from roslens.tracing.ftrace.tracefs import why_no_ftrace
from roslens.tracing.lttng import TracingOptions

SOURCE = Path(__file__).with_name("nodes") / "executing.cpp"
pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(why_no_ftrace() is not None, reason=str(why_no_ftrace())),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(SOURCE, tmp_path_factory.mktemp("executing") / "executing")


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Keep all CPUs busy with other processes."""
    processes = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    yield
    for process in processes:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("executor", "tracer"),
    [
        ("SingleThreaded", "native"),
        ("MultiThreaded", "native"),
        ("Events", "native"),
        ("EventsCBG", "native"),
        ("EventsCBGMultiThreaded", "native"),
        # Both tracers record the same events of all; that kernel and program fit shows with one.
        ("MultiThreaded", "lttng"),
    ],
)
@pytest.mark.usefixtures("busy_machine")
def test_stretches_add_up_to_the_cpu_time_of_their_thread(
    program: Path, executor: str, tracer: str, tmp_path: Path
) -> None:
    """CPU time runs from the first to the last note of a thread, by CLOCK_THREAD_CPUTIME_ID.

    Time taken by a virtual machine's host counts only for the kernel's switches.
    """
    output, folder = tmp_path / "said", tmp_path / "run"
    _, manifest = record_command(
        ["sh", "-c", f'exec "{program}" {executor} > "{output}"'],
        folder,
        options=TracingOptions(tracer=tracer, kernel="ftrace"),
        ros="embedded",
        time_limit=60,
    )
    assert manifest.status == "complete", manifest.failure
    notes = pl.read_csv(
        output, separator=" ", has_header=False, new_columns=["vtid", "time_ns", "cpu_ns"]
    )
    cpu_ns = (manifest.end_ns - manifest.start_ns) * manifest.host.cpu_count
    stolen_ns = (manifest.host.steal_fraction or 0) * cpu_ns
    intervals = rl.open(folder).executor_intervals.collect()
    assert set(intervals["vtid"]) == set(notes["vtid"])
    assert notes["vtid"].n_unique() == (2 if "Multi" in executor else 1)
    for (vtid,), of_thread in notes.partition_by("vtid", as_dict=True).items():
        mine = intervals.filter(pl.col("vtid") == vtid).sort("begin_ns")
        counted = used = 0
        # A loaded machine may lose kernel events, and then knows no CPU time for a while.
        mine = mine.with_columns(part=pl.col("cpu_ns").is_null().rle_id())
        for part in mine.partition_by("part"):
            of_part = of_thread.filter(
                pl.col("time_ns").is_between(part["begin_ns"].min(), part["end_ns"].max())
            )
            # A stretch ends just after its last note, but the last one ends with the program.
            positions = part["begin_ns"].search_sorted(of_part["time_ns"], "right")
            ends = of_part.filter(positions != positions.shift(-1, fill_value=-1))[:-1]
            if part["cpu_ns"].null_count() or ends.height < 2:
                continue
            first, last = ends.row(0, named=True), ends.row(-1, named=True)
            since_first = pl.col("begin_ns") > first["time_ns"]
            counted += part.filter(since_first, pl.col("begin_ns") <= last["time_ns"])[
                "cpu_ns"
            ].sum()
            used += last["cpu_ns"] - first["cpu_ns"]
        assert used > 1e8
        assert 0.995 * used <= counted <= 1.005 * used + stolen_ns
        # No note is made while its thread waits.
        noted = of_thread.join_asof(
            mine.filter(pl.col("state") == "wait"), left_on="time_ns", right_on="begin_ns"
        ).drop_nulls("begin_ns")
        assert noted.height > 100
        assert noted.filter(pl.col("time_ns") < pl.col("end_ns")).is_empty()
