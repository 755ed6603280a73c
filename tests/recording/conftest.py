"""Programs with real tracepoints, compiled here; recorders in processes of their own."""

import subprocess
from pathlib import Path

import pytest
from live_recorder import Recorder

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"


def compiled(folder: Path, name: str, *libraries: str) -> Path:
    program = folder / name
    subprocess.run(
        ["cc", "-O1", f"-I{PROGRAMS}", str(PROGRAMS / f"{name}.c"), "-o", str(program), *libraries],
        check=True,
    )
    return program


@pytest.fixture(scope="session")
def pings(tmp_path_factory) -> str:
    """A program that emits ``ros2:ping``: COUNT PAUSE_US TEXT."""
    folder = tmp_path_factory.mktemp("programs")
    folder.chmod(0o755)
    return str(compiled(folder, "pings", "-llttng-ust", "-ldl"))


@pytest.fixture(scope="session")
def usage(tmp_path_factory) -> str:
    """A program that says how much memory and CPU time it used."""
    return str(compiled(tmp_path_factory.mktemp("programs"), "usage", "-lpthread"))


@pytest.fixture
def recorder(tmp_path):
    made = Recorder(tmp_path)
    yield made
    made.close()
