"""Test that only a thread's waits between callbacks are its executor's, by the program's source."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.native_tracer.test_native_tracer import compile_program, environment

from roslens.collectors.reader import open_trace


def test_what_waits_between_callbacks_waits_for_work(
    library: Path, folder: Path, tmp_path: Path
) -> None:
    program = tmp_path / "waiting"
    compile_program(Path(__file__).with_name("waiting.c"), library, program)
    subprocess.run([program], env=environment(library, folder), check=True)
    events = sorted(
        (time, name.removeprefix("ros2:"))
        for name, frame in open_trace(folder).read().items()
        for time in frame["time_ns"]
    )
    waits = ["executor_wait_start", "executor_wait_end"]
    assert [name for _, name in events] == [
        *("callback_start", "callback_start", "callback_end", "callback_end", *waits),
        *("callback_start", "callback_end", *waits, "rclcpp_executor_wait_for_work"),
    ]
    times = [time for time, name in events if name in waits]
    assert all(end - start > 900_000 for start, end in zip(times[::2], times[1::2], strict=True))
