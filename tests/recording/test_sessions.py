"""Real sessions around a program with real tracepoints; babeltrace2 says what is in them."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from live_recorder import Recorder, events_of

from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.lttng.session import has_events

pytestmark = pytest.mark.live

PROGRAMS_ALONE = TracingOptions(kernel="off")
"""What the kernel loses counts, too."""


def test_every_event_of_a_wrapped_command_is_recorded(pings, tmp_path):
    output, manifest = record_command(
        [pings, "1234", "0", "hello"], tmp_path / "run", options=PROGRAMS_ALONE, ros="none"
    )
    events = events_of(output / "trace")
    assert len(events) == 1234  # what the program was told to emit
    assert 'text = "hello"' in events[0]
    for context in ("vpid", "vtid", "procname"):
        assert context in events[0]
    assert manifest.status == "complete"
    assert manifest.exit_status == 0
    assert (manifest.loss.discarded_events, manifest.loss.lost_packets) == (0, 0)
    assert manifest.start_ns < manifest.end_ns
    assert json.loads((output / "manifest.json").read_text())["status"] == "complete"


def test_what_is_discarded_is_read_back(pings, tmp_path):
    options = TracingOptions(subbuf_size="4k", subbuf_count=2, kernel="off")
    output, manifest = record_command(
        [pings, "100000"], tmp_path / "run", options=options, ros="none"
    )
    # The sum of what was kept and what was dropped is what the program emitted.
    kept = len(events_of(output / "trace"))
    assert manifest.loss.discarded_events > 0
    assert kept + manifest.loss.discarded_events == 100000


def test_overwriting_keeps_the_last_and_counts_what_it_lost(pings, tmp_path):
    options = TracingOptions(subbuf_size="4k", subbuf_count=2, mode="overwrite")
    output, manifest = record_command(
        [pings, "100000"], tmp_path / "run", options=options, ros="none"
    )
    assert manifest.loss.lost_packets > 0
    assert "number = 99999" in events_of(output / "trace")[-1]


def test_blocking_loses_nothing(pings, tmp_path):
    options = TracingOptions(subbuf_size="4k", subbuf_count=2, mode="blocking", kernel="off")
    output, manifest = record_command(
        [pings, "5000"], tmp_path / "run", options=options, ros="none"
    )
    assert len(events_of(output / "trace")) == 5000
    assert manifest.loss.discarded_events == 0


def test_two_recordings_at_once_do_not_see_each_other(pings, tmp_path):
    recorders = [Recorder(tmp_path / name) for name in ("one", "two")]
    try:
        for number, recorder in enumerate(recorders):
            recorder.start(pings, "300", "2000", f"from-{number}")
        for recorder in recorders:
            assert recorder.wait()[0] == 0
        for number, recorder in enumerate(recorders):
            texts = [re.search(r'text = "([^"]*)"', x).group(1) for x in events_of(recorder.output)]
            assert texts == [f"from-{number}"] * 300
            recorder.assert_nothing_left()
    finally:
        for recorder in recorders:
            recorder.close()


def test_further_contexts_and_sizes_reach_the_tracer_and_the_manifest(pings, tmp_path):
    options = TracingOptions(contexts=("pid_ns",), subbuf_size="64k", subbuf_count=4)
    output, manifest = record_command([pings, "3"], tmp_path / "run", options=options, ros="none")
    assert "pid_ns" in events_of(output / "trace")[0]
    assert manifest.tracing.contexts == ["vpid", "vtid", "procname", "pid_ns"]
    assert (manifest.tracing.subbuf_size_bytes, manifest.tracing.subbuf_count) == (65536, 4)


def test_without_kernel_modules_the_manifest_says_so(pings, tmp_path):
    _, manifest = record_command([pings, "3"], tmp_path / "run", ros="none")
    assert ("kernel" in manifest.tracing.domains) != any(
        note.startswith("no kernel trace") for note in manifest.tracing.notes
    )


@pytest.mark.parametrize(("count", "expected"), [("0", False), ("1", True)])
def test_a_trace_with_packets_but_no_event_has_no_event(pings, tmp_path, count, expected):
    # The program registers, so LTTng writes packets for it in both cases.
    output, _ = record_command([pings, count], tmp_path / "run", ros="none")
    assert any(path.stat().st_size for path in output.glob("trace/**/ros2_*"))
    assert has_events(output / "trace") is expected


def test_a_program_without_ros_events_is_recorded_with_a_warning(tmp_path):
    _, manifest = record_command(["true"], tmp_path / "run", ros="none")
    assert manifest.status == "complete"
    assert any("made no event" in text for text in manifest.warnings)


def test_what_the_program_leaves_running_is_ended_and_reported(tmp_path, recorder):
    script = "setsid sleep 300 & setsid -f sleep 301; exit 0"
    status, _ = recorder.run("sh", "-c", script)
    assert status == 0
    assert any("left 2 processes" in text for text in recorder.manifest["warnings"])
    recorder.assert_nothing_left()


def test_a_pipe_into_the_recorder_reaches_the_program(tmp_path):
    code = (
        "from pathlib import Path; from roslens.tracing.command import record_command; "
        f"record_command(['cat'], Path({str(tmp_path / 'run')!r}), ros='none')"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        input="passed on\n",
        text=True,
        capture_output=True,
        check=True,
    )
    assert run.stdout == "passed on\n"


def test_an_ordinary_user_records_too(pings, recorder):
    if os.geteuid() != 0:
        status, said = recorder.run(pings, "10")
    else:
        nobody = 65534
        # pytest's folders are closed to others.
        home = recorder.scratch / "home"
        home.mkdir()
        program = home / "pings"
        shutil.copy(pings, program)
        for path in (recorder.scratch, home, program):
            os.chown(path, nobody, nobody)
        recorder.output = home / "run"
        variables = {"HOME": str(home)}
        recorder.python, more = python_for(nobody)
        status, said = recorder.run(
            str(program), "10", user=nobody, environment={**variables, **more}
        )
        assert (recorder.output / "manifest.json").stat().st_uid == nobody
        assert len(events_of(recorder.output / "trace")) == 10
        shutil.rmtree(home)
    assert status == 0, said
    recorder.assert_nothing_left()


def python_for(user: int) -> tuple[str, dict[str, str]]:
    """An interpreter of this version, and its variables, that `user` can run roslens with."""
    site = sysconfig.get_paths()["purelib"]
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    variables = {"PYTHONPATH": f"{Path(__file__).parents[2] / 'src'}:{site}"}
    for python in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        try:
            subprocess.run(
                [python, "-c", "import roslens.tracing.command"],
                user=user,
                env={**os.environ, **variables},
                check=True,
                capture_output=True,
                cwd="/",
            )
        except (OSError, subprocess.CalledProcessError):
            continue
        return python, variables
    pytest.skip("neither this checkout nor an interpreter can be read by an ordinary user")
