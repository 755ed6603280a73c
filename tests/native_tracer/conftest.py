"""Provide the tracer's library, a folder to which it writes, and programs that are traced."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.native_tracer.test_native_tracer import compile_program
from tests.rclcpp import compiled

from roslens.tracing.native_tracer.library import native_library
from roslens.tracing.ros import embedded_ros
from roslens.tracing.ros.environment import EMBEDDED_RMW
from roslens.tracing.ros_choice import MIDDLEWARES, with_middlewares


@pytest.fixture(scope="session")
def library() -> Path:
    return native_library("kilted")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "trace"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(scope="module", params=["rclpy", "rclcpp"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the command of the module's ``NODE``, for each client library."""
    node: Path = request.module.NODE
    if request.param == "rclpy":
        return ["python", str(node)]
    return [str(compiled(node.with_suffix(".cpp"), tmp_path_factory.mktemp("program") / "node"))]


@pytest.fixture(scope="session")
def talking(tmp_path_factory: pytest.TempPathFactory, library: Path) -> Path:
    """Compile a program that emits the events of messages; see its source."""
    program = tmp_path_factory.mktemp("programs") / "talking"
    compile_program(Path(__file__).with_name("talking.c"), library, program)
    return program


@pytest.fixture(params=[EMBEDDED_RMW, *MIDDLEWARES])
def middleware(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Select the middleware of recorded commands.

    It is the embedded ROS 2's, and is compiled if it is not there yet.
    """
    name: str = request.param
    _, missing = with_middlewares(embedded_ros(), [name])
    if missing:
        assert "cannot be made" not in missing[name]
        pytest.skip(missing[name])
    monkeypatch.setenv("RMW_IMPLEMENTATION", name)
    return name
