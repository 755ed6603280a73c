"""Test the compiled libtracetools.

Ground truth: the symbols of the wheel's own library (binutils' nm), and the wheel's header.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from roslens.recording import RunFailedError
from roslens.tracing.ros import CompileError, RosEnvironment, build_tracetools, embedded_ros
from roslens.tracing.ros import environment as environment_module
from roslens.tracing.ros.tracetools import build_stub


def exported(library: Path) -> set[str]:
    """Return the functions that a library exports, without the linker's and LTTng's own."""
    text = subprocess.check_output(["nm", "-D", "--defined-only", str(library)], text=True)
    return {name for _, kind, name in map(str.split, text.splitlines()) if kind in "TW"}


def test_exports_what_the_wheels_library_exports(ros: RosEnvironment) -> None:
    assert ros.include is not None
    ours = exported(ros.preload()[0])
    wheel = exported(ros.python.parent.parent / "lib" / "libtracetools.so")
    assert len(wheel) > 100
    assert ours > wheel
    # The additional functions report calls into rcl and rcl_action.
    added = {name.removeprefix("ros_trace_").removeprefix("do_") for name in ours - wheel}
    assert {name.removeprefix("enabled_") for name in added} == {
        *("rcl_send_request", "rcl_send_response", "client_callback_start"),
        *("action_request", "goal_status", "message_type_init", "message_content"),
        *("message_received", "rcl_take", "rcl_take_serialized_message", "rcl_take_loaned_message"),
        *("executor_wait_start", "executor_wait_end", "pthread_cond_clockwait"),
        "_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE",
        *("rcl_publisher_init", "rcl_subscription_init", "rcl_publish"),
        *("_ZNK8eprosima7fastcdr3Cdr26get_serialized_data_lengthEv", "ddsi_serdata_init"),
        *("rcl_action_accept_new_goal", "rcl_action_update_goal_state"),
        *(f"rcl_action_take_{kind}_request" for kind in ("goal", "result", "cancel")),
        *("roslens_client_call", "roslens_client_callback_start"),
    }


def test_is_compiled_once(ros: RosEnvironment) -> None:
    assert ros.include is not None
    first = build_tracetools(ros.include)
    stamp = first.stat().st_mtime_ns
    assert build_tracetools(ros.include) == first
    assert first.stat().st_mtime_ns == stamp


def test_stands_in_for_the_wheels_library_and_its_old_lttng(ros: RosEnvironment) -> None:
    """/proc has the loader's list of a real process."""
    code = "import rclpy; rclpy.init(); print(open('/proc/self/maps').read()); rclpy.shutdown()"
    maps = subprocess.check_output(
        [str(ros.python), "-c", code], env=ros.process_environment(preload=ros.preload()), text=True
    )
    loaded = {line.split()[-1] for line in maps.splitlines() if ".so" in line}
    tracetools = {path for path in loaded if "libtracetools.so" in path}
    assert tracetools == {str(ros.preload()[0])}
    prefix = str(ros.python.parent.parent)
    assert not {path for path in loaded if "lttng" in path and path.startswith(prefix)}


def test_no_compiler(ros: RosEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert ros.include is not None
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CompileError, match=r"^no C compiler: .*apt-get install gcc") as error:
        build_tracetools(ros.include)
    assert "\n" not in str(error.value)


def test_no_lttng_headers(
    ros: RosEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert ros.include is not None
    compiler = shutil.which("cc") or shutil.which("gcc")
    monkeypatch.setenv("CC", f"{compiler} -nostdinc")
    with pytest.raises(CompileError, match=r"^no lttng/tracepoint.h: .*liblttng-ust-dev") as error:
        build_tracetools(ros.include)
    assert "\n" not in str(error.value)


def test_a_compiler_that_fails(
    ros: RosEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", f"{compiler} --no-such-option-of-a-compiler")
    with pytest.raises(CompileError, match=r"cannot compile libsomething\.so: .*error") as error:
        build_stub("libsomething.so")
    assert "\n" not in str(error.value)
    assert not list(tmp_path.rglob("libsomething.so"))


def test_an_index_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path))
    nowhere = "http://127.0.0.1:9/simple"  # the discard port: nothing listens
    for name in ("PIP_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX"):
        monkeypatch.setenv(name, nowhere)
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    notes: list[str] = []
    with pytest.raises(RunFailedError, match="is a Python package index reachable") as error:
        embedded_ros(notes.append)
    assert "\n" not in str(error.value)
    assert notes
    # A partial environment is not taken for a whole one the next time.
    assert not list(tmp_path.rglob(environment_module._MARKER))


def test_no_python_that_the_wheels_are_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path))
    monkeypatch.setattr(environment_module, "SUPPORTED_PYTHONS", ((3, 2),))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(environment_module.UsageError, match=r"CPython 3\.11 and 3\.12 only"):
        embedded_ros()
    # uv is asked where there is one; this one has nothing to fetch from.
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\necho "$@" > "$0.asked"\necho "error: no download" >&2\nexit 2\n')
    uv.chmod(0o755)
    with pytest.raises(RunFailedError, match=r"its environment with 3\.2 \(error: no download\)"):
        embedded_ros()
    assert " --python 3.2 " in (tmp_path / "uv.asked").read_text()


def test_a_python_that_is_only_a_name_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A shim of pyenv is such a name if another version is chosen."""
    monkeypatch.setattr(environment_module, "SUPPORTED_PYTHONS", ((3, 2), (3, 1)))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, code in (("python3.2", 127), ("python3.1", 0)):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nexit {code}\n")
        program.chmod(0o755)
    assert environment_module._find_python() == (str(tmp_path / "python3.1"), "3.1")


def test_the_pins_are_exact_and_hashed() -> None:
    text = environment_module.PINS.read_text(encoding="utf-8")
    pins = re.findall(r"^(\S+)==(\S+) \\$", text, re.MULTILINE)
    assert "ros-rclpy" in dict(pins)
    blocks = re.split(r"^(?=\S+==)", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(pins)
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text
