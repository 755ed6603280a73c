"""Compile programs with real tracepoints."""

import pytest
from compiling import compiled
from live_recorder import Recorder


@pytest.fixture(scope="session")
def pings(tmp_path_factory) -> str:
    """Compile a program that emits ``ros2:ping``: COUNT PAUSE_US TEXT."""
    folder = tmp_path_factory.mktemp("programs")
    folder.chmod(0o755)
    return str(compiled(folder, "pings", "-llttng-ust", "-ldl"))


@pytest.fixture(scope="session")
def usage(tmp_path_factory) -> str:
    """Compile a program that prints how much memory and CPU time it used."""
    return str(compiled(tmp_path_factory.mktemp("programs"), "usage", "-lpthread"))


@pytest.fixture
def recorder(tmp_path):
    recorder = Recorder(tmp_path)
    yield recorder
    recorder.close()
