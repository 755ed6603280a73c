"""Test what the native tracer's library writes, and that it never troubles the traced program.

Ground truth is what the programs passed and counted themselves. roslens reads the traces and, where
values are compared, babeltrace2 does too.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from tests.native_tracer.every_event import program
from tests.programs import wait_for
from tests.small_disk import small_disk

from roslens.collectors.reader import open_trace
from roslens.recording import RunFailedError
from roslens.tracing.native_tracer.library import native_library, prepare
from roslens.tracing.native_tracer.table import distributions
from roslens.tracing.native_tracer.trace_files import cut_to_content, read_written

EVENT = "ros2:callback_start"
EVENT_BYTES = 2 + 8 + 25 + 12


@pytest.fixture(scope="session")
def emit(tmp_path_factory, library) -> Path:
    program = tmp_path_factory.mktemp("programs") / "emit"
    compile_program(Path(__file__).with_name("emit.c"), library, program)
    return program


def compile_program(source: Path, library: Path, program: Path) -> None:
    subprocess.run(
        ["cc", "-O1", str(source), str(library), "-lpthread", "-o", str(program)], check=True
    )


def environment(library: Path, folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "LD_PRELOAD": str(library), "ROSLENS_TRACE_FOLDER": str(folder), **more}


def emitted(emit: Path, library: Path, folder: Path, *arguments: object, **more: str) -> int:
    run = subprocess.run(
        [str(emit), *map(str, arguments)],
        env=environment(library, folder, **more),
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stderr == ""
    return int(run.stdout)


def completed(counter: Path) -> int:
    """Return how many events a program that emits ``forever`` says it has completed."""
    content = counter.read_bytes()[:8] if counter.exists() else b""
    return int.from_bytes(content, sys.byteorder)


def counted(folder: Path) -> tuple[int, int]:
    info = open_trace(folder).info()
    assert info.warnings == []
    return info.events, info.discarded_events


@pytest.mark.parametrize("distribution", distributions())
def test_every_event_of_a_distribution_is_read_back(distribution, tmp_path, folder):
    source, expected = program(distribution)
    (tmp_path / "every.c").write_text(source)
    library = native_library(distribution)
    compile_program(tmp_path / "every.c", library, tmp_path / "every")
    subprocess.run([str(tmp_path / "every")], env=environment(library, folder), check=True)
    check_every_event(folder, expected)


def check_every_event(folder: Path, expected: list) -> None:
    assert counted(folder) == (len(expected), 0)
    trace = open_trace(folder)
    for name in {name for name, _ in expected}:
        wanted = [fields for event, fields in expected if event == name]
        frame = trace.read([name])[name]
        assert frame.select(list(wanted[0])).to_dicts() == (wanted if wanted[0] else []), name
    # babeltrace2, the second implementation, prints names in order, and every value.
    printed = subprocess.run(
        ["babeltrace2", str(folder)], check=True, capture_output=True, text=True
    )
    assert printed.stderr == ""
    lines = printed.stdout.splitlines()
    assert [re.search(r"ros2:\w+", line).group() for line in lines] == [n for n, _ in expected]
    for line, (_, fields) in zip(lines, expected, strict=True):
        for key, value in fields.items():
            if isinstance(value, int):
                text = re.search(rf"\b{key} = (\S+?),? ", line + " ").group(1)
                assert int(text, 0) == value, line
            elif isinstance(value, str):
                assert f'{key} = "{value}"' in line


def test_contexts_are_those_of_the_thread(emit, library, folder):
    emitted(emit, library, folder, "run", 2, 2)
    frame = open_trace(folder).read([EVENT])[EVENT]
    assert set(frame["procname"]) == {"emit"}
    assert frame["vpid"].n_unique() == 1
    assert frame["vtid"].n_unique() == 2
    assert frame["vpid"][0] not in set(frame["vtid"])
    assert abs(frame["time_ns"].max() - time.time_ns()) < 60e9
    assert frame["time_ns"].is_sorted()
    for path in folder.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize(
    "arguments",
    [("run", 20_000, 64), ("churn", 50, 320), ("fork", 300, 100), ("signals", 300_000)],
    ids=lambda arguments: arguments[0],
)
def test_events_and_loss_are_what_was_emitted(arguments, emit, library, folder):
    total = emitted(emit, library, folder, *arguments)
    events, discarded = counted(folder)
    assert events + discarded == total
    if arguments[0] != "signals":
        assert discarded == 0
    assert read_written(folder)[1] == discarded
    if arguments[0] == "churn":
        # New threads reuse the files of ended ones: there are as many files as threads alive at
        # once.
        assert len(list(folder.rglob("ros2_[0-9]*"))) <= 64
    sizes = sum(path.stat().st_size for path in folder.rglob("*"))
    cut_to_content(folder)
    assert sum(path.stat().st_size for path in folder.rglob("*")) < sizes
    assert counted(folder) == (events, discarded)


def test_a_handler_on_a_small_stack_may_emit_the_first_event(emit, library, folder):
    total = emitted(emit, library, folder, "handler", 3000)
    assert counted(folder) == (total, 0)


def test_threads_that_are_cancelled_leave_files_that_others_go_on_with(emit, library, folder):
    total = emitted(emit, library, folder, "cancel", 200, 1000)
    assert counted(folder)[1] == 0
    written = open_trace(folder).read([EVENT])[EVENT]
    assert written.filter(pl.col("callback") != 0xFFFF).height == total


# A limit of 0 or little forbids a file, a longer file, a mapping, or nothing at all.
LIMITS = [
    (name, value)
    for name in ("FSIZE", "NOFILE", "AS", "DATA", "MEMLOCK", "SIGPENDING", "CORE", "MSGQUEUE")
    for value in (0, 64 << 10, 320 << 10)
    if value == 0 or name not in ("NOFILE", "SIGPENDING")
]


@pytest.mark.parametrize(("name", "value"), LIMITS)
def test_no_limit_of_a_process_makes_the_tracer_end_it(name, value, emit, library, folder):
    """The limit is set while the program runs, which could not start below most of the limits."""
    limit = getattr(resource, f"RLIMIT_{name}")
    shared = folder.with_name("emitted")
    program = subprocess.Popen(
        [str(emit), "forever", "0"],
        env=environment(library, folder, EMITTED=str(shared)),
        stderr=subprocess.PIPE,
    )
    try:

        def waits_for(least: int) -> int:
            while completed(shared) < least and program.poll() is None:
                time.sleep(0.01)
            assert program.poll() is None, "the program was ended"
            return completed(shared)

        before = waits_for(20_000)
        hard = resource.prlimit(program.pid, limit)[1]
        resource.prlimit(program.pid, limit, (value, hard))
        during = waits_for(before + 200_000)
        resource.prlimit(program.pid, limit, (hard, hard))
        waits_for(during + 200_000)
    finally:
        program.kill()
        program.communicate()
    events, discarded = counted(folder)
    # The tracer may have counted the last event before the program did.
    assert 0 <= events + discarded - completed(shared) <= 1
    assert events > 20_000


@pytest.mark.parametrize("value", [0, 64 << 10, 320 << 10])
def test_a_program_that_starts_below_a_limit_of_its_files_runs_to_its_end(
    value, emit, library, folder
):
    run = subprocess.run(
        [str(emit), "run", "20000", "2"],
        env=environment(library, folder),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (value, value)),
        capture_output=True,
        text=True,
        check=True,
    )
    # Without a file there is nowhere to count.
    if value:
        assert sum(counted(folder)) == int(run.stdout)


def test_forked_children_write_as_themselves(emit, library, folder):
    emitted(emit, library, folder, "fork", 10, 20)
    frame = open_trace(folder).read([EVENT])[EVENT].with_columns(pl.col("callback") & 0xFF)
    of_process = frame.group_by("vpid").len()["len"].sort().to_list()
    assert of_process == [20] * 21
    assert frame.filter(pl.col("vpid") == frame["vpid"][0]).height == 20


def test_only_wanted_events_are_written(emit, library, folder):
    emitted(emit, library, folder, "run", 5, ROSLENS_TRACE_EVENTS="ros2:rcl_*,ros2:*_end")
    assert not list(folder.rglob("metadata"))
    emitted(emit, library, folder, "run", 5, ROSLENS_TRACE_EVENTS="ros2:rcl_*,ros2:call*_start")
    assert counted(folder) == (5, 0)


def test_a_full_disk_costs_events_and_nothing_else(emit, library, folder):
    with small_disk(folder, "size=1m"):
        folder.chmod(0o700)
        total = emitted(emit, library, folder, "run", 20_000, 8)
        events, discarded = counted(folder)
        assert events > 5000
        assert discarded > 10_000
        assert events + discarded == total
        # Threads that never had a file are counted for the folder as a whole.
        more = emitted(emit, library, folder, "run", 1000, 8)
        assert sum(counted(folder)) == total + more
        # There is room again, so events are recorded again.
        for path in sorted(folder.rglob("ros2_[0-9]*"))[:4]:
            total -= open_trace_of(path)
            path.unlink()
        again = emitted(emit, library, folder, "run", 100, 1)
        assert sum(counted(folder)) == total + more + again


def open_trace_of(path: Path) -> int:
    """Return the number of events and of discarded events that one stream file holds."""
    folder = path.parents[1].with_name(f"alone-{path.name}")
    folder.mkdir()
    shutil.copy(path.parent / "metadata", folder)
    shutil.copy(path, folder)
    return sum(counted(folder))


def test_a_folder_that_cannot_be_written_is_harmless(emit, library, tmp_path):
    wrong = tmp_path / "file"
    wrong.write_text("")
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    link = tmp_path / "link"
    target = tmp_path / "target"
    target.mkdir(mode=0o700)
    link.symlink_to(target)
    for folder in (wrong, tmp_path / "missing" / "deep", Path("relative")):
        assert emitted(emit, library, folder, "run", 1000, 2) == 2000
    with pytest.raises(RunFailedError, match="no trace can be written there"):
        prepare(library, wrong)
    # A link that somebody else put in place of a trace's folder is not followed.
    prepare(library, target)
    (trace,) = target.iterdir()
    shutil.move(trace, tmp_path / "elsewhere")
    trace.symlink_to(tmp_path / "elsewhere")
    assert emitted(emit, library, target, "run", 1000, 2) == 2000
    assert [path.name for path in (tmp_path / "elsewhere").iterdir() if "ros2_1" in path.name] == []
    trace.unlink()
    trace.mkdir(mode=0o777)
    trace.chmod(0o777)
    assert emitted(emit, library, target, "run", 1000, 2) == 2000
    assert list(trace.iterdir()) == []


def test_a_folder_that_becomes_writable_has_the_loss_before(tmp_path, library):
    source = tmp_path / "late.c"
    source.write_text(
        "#include <stdbool.h>\n#include <stdint.h>\n#include <stdio.h>\n#include <sys/stat.h>\n"
        "#include <unistd.h>\n"
        "void ros_trace_callback_start(const void *, bool);\n"
        "uint64_t roslens_tracer_pending(void);\n"
        "int main(int c, char ** v) {\n"
        "  for (int i = 0; i < 500; i++) ros_trace_callback_start(v, true);\n"
        '  printf("%d\\n", (int) roslens_tracer_pending()); mkdir(v[1], 0700); usleep(30000);\n'
        "  fflush(stdout); if (fork() == 0) ros_trace_callback_start(v, false), _exit(0);\n"
        "  for (int i = 0; i < 7; i++) ros_trace_callback_start(v, true);\n"
        "  return (int) roslens_tracer_pending();\n}\n"
    )
    compile_program(source, library, tmp_path / "late")
    folder = tmp_path / "not-yet"
    output = subprocess.check_output(
        [str(tmp_path / "late"), str(folder)], env=environment(library, folder), text=True
    )
    assert output == "500\n"
    # A child does not report its parent's loss again; it may end after its parent.
    wait_for(lambda: counted(folder) == (8, 500))


def test_a_program_that_loads_unloads_and_executes_another(emit, library, folder):
    script = (
        "import ctypes, _ctypes, os, sys; tools = ctypes.PyDLL(sys.argv[1]); "
        "tools.ros_trace_callback_start(None, True); _ctypes.dlclose(tools._handle); "
        "tools.ros_trace_callback_start(None, True); "
        "os.environ['LD_PRELOAD'] = sys.argv[1]; os.execv(sys.argv[2], sys.argv[2:])"
    )
    output = subprocess.check_output(
        [sys.executable, "-c", script, str(library), str(emit), "run", "5", "2"],
        env={**os.environ, "ROSLENS_TRACE_FOLDER": str(folder)},
        text=True,
    )
    assert output == "10\n"
    assert counted(folder) == (2 + 10, 0)
    assert open_trace(folder).read([EVENT])[EVENT]["vpid"].n_unique() == 1


def kill_at_random(emit: Path, library: Path, folder: Path, seed: int) -> None:
    """Kill a program that emits all the time, and check that its completed events are there."""
    counter = folder.with_name(f"{folder.name}-emitted")
    program = subprocess.Popen(
        [str(emit), "forever", "0"], env=environment(library, folder, EMITTED=str(counter))
    )
    while not completed(counter):
        time.sleep(0.001)
    time.sleep(random.Random(seed).uniform(0, 0.1))
    program.send_signal(signal.SIGKILL)
    program.wait()
    events, discarded = counted(folder)
    # The event that the program was about to count may be there too.
    assert events + discarded - completed(counter) in {0, 1}
    assert discarded == 0
    numbers = open_trace(folder).read([EVENT])[EVENT]["callback"]
    assert numbers.equals(pl.Series("callback", range(1, events + 1), dtype=pl.UInt64))


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_tears_no_event_and_loses_none(seed, emit, library, folder):
    kill_at_random(emit, library, folder, seed)


def test_a_packet_that_a_kill_cut_short_is_read(emit, library, folder):
    """A kill between the two steps that add a packet leaves only the packet's header."""
    emitted(emit, library, folder, "run", 3000)
    (stream,) = folder.rglob("ros2_[0-9]*")
    whole = stream.read_bytes()
    first = struct.unpack_from("=Q", whole, 32)[0] // 8
    content = struct.unpack_from("=Q", whole, 24)[0] // 8
    head = bytearray(whole[first : first + 56])
    struct.pack_into("=QQ", head, 24, 56 * 8, (256 << 10) * 8)
    for kept in (56, 57, 5000):
        stream.write_bytes(whole[:first] + head + bytes(kept - 56))
        events, discarded = counted(folder)
        assert (events, discarded) == ((content - 56) // EVENT_BYTES, 0)
        cut_to_content(folder)
        assert stream.stat().st_size == first + 56
        assert counted(folder) == (events, 0)


def test_a_mapped_file_is_not_cut(emit, library, folder):
    counter = folder.with_name("emitted")
    program = subprocess.Popen(
        [str(emit), "forever", "0"], env=environment(library, folder, EMITTED=str(counter))
    )
    try:
        wait_for(lambda: completed(counter) > 1000, process=program)
        for _ in range(20):
            cut_to_content(folder)
            time.sleep(0.005)
        assert program.poll() is None
    finally:
        program.kill()
        program.wait()
    assert counted(folder)[0] > 1000


def test_lengths_in_a_file_are_not_trusted(emit, library, folder):
    emitted(emit, library, folder, "run", 100)
    (stream,) = folder.rglob("ros2_[0-9]*")
    whole = stream.read_bytes()
    for at, value in ((24, 0), (24, 2**63), (32, 0), (32, 8), (24, 2**64 - 1)):
        broken = bytearray(whole)
        struct.pack_into("=Q", broken, at, value)
        stream.write_bytes(broken)
        read_written(folder)
        cut_to_content(folder)
        assert stream.stat().st_size <= len(whole)


def test_the_command_line_says_what_to_export(emit, tmp_path):
    script = (
        f'eval "$(python -P -m roslens env -o {tmp_path}/t)"; {emit} run 50; unset LD_PRELOAD; '
        f"python -P -m roslens info --json {tmp_path}/t"
    )
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = subprocess.check_output(
        ["bash", "-c", script], text=True, env={**os.environ, "PATH": path}
    )
    printed, info = run.split("\n", 1)
    assert printed == "50"
    assert json.loads(info)["events_by_name"] == {EVENT: 50}


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
    # The program says until when it waits some time before it does: it may have to wait for a CPU.
    assert all(end - start > 50_000_000 for start, end in zip(times[::2], times[1::2], strict=True))
