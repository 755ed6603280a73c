"""Test the cross-compiled libraries of wheels, run and read back on this machine."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.native_tracer.every_event import program
from tests.native_tracer.test_native_tracer import check_every_event

from roslens.tracing.native_tracer import library
from roslens.tracing.native_tracer.prebuilt import OLDEST_GLIBC, build_all
from roslens.tracing.native_tracer.table import distributions

SYSROOTS = {"aarch64": Path("/usr/aarch64-linux-gnu")}

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="zig (PyPI: ziglang) is not installed"
)


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_prebuilt_libraries_record_every_event(machine, tmp_path, monkeypatch):
    libraries = build_all(machine, tmp_path / "lib")
    assert [path.parent.name for path in libraries] == list(distributions())
    emulator: list[str] = []
    if machine != platform.machine():
        qemu = shutil.which(f"qemu-{machine}")
        if qemu is None or not SYSROOTS[machine].is_dir():
            pytest.skip(f"no qemu-user and C library for {machine}")
        emulator = [qemu, "-L", str(SYSROOTS[machine])]
    for path in libraries:
        distribution = path.parent.name
        versions = subprocess.run(
            ["objdump", "-T", str(path)], capture_output=True, text=True, check=False
        ).stdout
        assert "GLIBC_2.3" not in versions.replace("GLIBC_2.3.", "")
        source, expected = program(distribution)
        (tmp_path / "every.c").write_text(source)
        every, trace = tmp_path / f"every-{distribution}", tmp_path / f"trace-{distribution}"
        zig = [sys.executable, "-m", "ziglang", "cc", "-target"]
        target = f"{machine}-linux-gnu.{OLDEST_GLIBC}"
        subprocess.run(
            [*zig, target, str(tmp_path / "every.c"), str(path), "-o", str(every)], check=True
        )
        trace.mkdir(mode=0o700)
        variables = {"LD_PRELOAD": str(path), "ROSLENS_TRACE_FOLDER": str(trace)}
        if emulator:
            given = [part for k, v in variables.items() for part in ("-E", f"{k}={v}")]
            subprocess.run([*emulator, *given, str(every)], check=True)
        else:
            subprocess.run([str(every)], env={**os.environ, **variables}, check=True)
        check_every_event(trace, expected)


def test_a_library_that_came_with_roslens_is_taken(tmp_path, monkeypatch):
    (jazzy,) = [
        path for path in build_all(platform.machine(), tmp_path) if path.parent.name == "jazzy"
    ]
    monkeypatch.setattr(library, "shipped", lambda *_: tmp_path)
    assert library.native_library("jazzy") == jazzy
