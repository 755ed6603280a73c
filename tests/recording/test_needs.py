"""Test that levels which a ROS 2 lacks are named and left out before the first run."""

import sys
from pathlib import Path

import pytest

from roslens.recording import UsageError
from roslens.tracing.needs import available_levels, needed, without_sources
from roslens.tracing.plan import chosen_levels
from roslens.tracing.ros import RosEnvironment
from roslens.tracing.ros_choice import choose_ros
from roslens.tracing.sources import VARIABLE
from roslens.tracing.suite import Suite, load_suite, parse_suite


@pytest.fixture
def jazzy(tmp_path: Path) -> RosEnvironment:
    """Make a sourced ROS 2 with rclcpp, one middleware, and no EventsExecutor in its rclpy."""
    prefix = tmp_path / "jazzy"
    for name in ("rclcpp", "rmw_cyclonedds_cpp"):
        (prefix / "share" / name).mkdir(parents=True)
        (prefix / "share" / name / "package.xml").write_text("<version>1.0.0</version>")
    header = "rclcpp/rclcpp/experimental/executors/events_executor/events_executor.hpp"
    (prefix / "include" / header).parent.mkdir(parents=True)
    (prefix / "include" / header).touch()
    (prefix / "lib" / "rclpy").mkdir(parents=True)
    (prefix / "lib" / "rclpy" / "__init__.py").touch()
    return RosEnvironment(
        kind="sourced",
        distro="jazzy",
        rmw="rmw_cyclonedds_cpp",
        python=Path(sys.executable),
        python_version="3.12",
        variables={"AMENT_PREFIX_PATH": str(prefix), "PYTHONPATH": str(prefix / "lib")},
    )


def test_executors_and_middlewares_that_are_not_there(jazzy: RosEnvironment) -> None:
    suite, _ = load_suite("executors-rclcpp")
    kept, notes = available_levels(suite, {}, jazzy)
    assert kept == {
        "executor": ("SingleThreaded", "MultiThreaded", "Events"),
        "rmw": ("rmw_cyclonedds_cpp",),
    }
    assert len(notes) == 4
    assert notes[2] == (
        "rmw rmw_fastrtps_cpp is left out: the sourced ROS 2 jazzy has no rmw_fastrtps_cpp"
    )
    # Levels that were not chosen are not mentioned.
    chosen = chosen_levels(suite, ["executor=Events", "rmw=rmw_cyclonedds_cpp"])
    assert available_levels(suite, chosen, jazzy) == (chosen, [])
    with pytest.raises(UsageError, match=r"executor EventsCBG is left out: .* or cm_executors"):
        available_levels(suite, chosen_levels(suite, ["executor=EventsCBG"]), jazzy)


def test_the_demo_runs_without_rclpy_s_events_executor(jazzy: RosEnvironment) -> None:
    suite, _ = load_suite("demo")
    kept, (note,) = available_levels(suite, {}, jazzy)
    assert kept == {"executor": ("SingleThreaded",)}
    assert "jazzy has no rclpy.experimental.EventsExecutor" in note
    # Kilted is the first distribution that has the class.
    module = Path(jazzy.variables["PYTHONPATH"]) / "rclpy" / "experimental.py"
    module.write_text("class EventsExecutor: pass\n")
    assert available_levels(suite, {}, jazzy) == ({}, [])


def test_parts_whose_sources_cannot_be_had_are_left_out(
    jazzy: RosEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite, _ = load_suite("micro-ros")
    names = [*needed(suite, {}, "source")]
    assert "freertos_kernel" in names
    # The source is neither in the cache nor in the folder of archives.
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    missing = without_sources(names, lambda _: None)
    kept, notes = available_levels(suite, {}, jazzy, missing)
    without = [part for part in suite.factors["part"] if not suite.level("part", part).needs]
    assert kept == {"part": tuple(without)}
    assert "publisher" in without
    (line,) = (note for note in notes if note.startswith("part publisher_freertos "))
    assert line.startswith(
        f"part publisher_freertos is left out: {tmp_path}: has no freertos_kernel.tar.zst"
    )
    # With the sources the whole suite runs.
    assert available_levels(suite, {}, jazzy) == ({}, [])


def test_every_shipped_level_needs_something_known() -> None:
    for need, why in (
        ("cm_executors", "'cm_executors': give package:"),
        ("source:threadxx", "'source:threadxx': the pinned sources are .*threadx"),
    ):
        with pytest.raises(UsageError, match=why):
            parse_suite(
                "name: a\nworkload: {command: [a]}\nfactors: {x: [1]}\n"
                f"levels: {{x: {{1: {{needs: ['{need}']}}}}}}\n",
                "a.yaml",
            )
    for name in ("demo", "executors", "executors-long", "executors-sim-time"):
        suite: Suite = load_suite(name)[0]
        assert suite.level("executor", "Events").needs == (
            "python:rclpy.experimental.EventsExecutor",
        )


def test_programs_in_cpp_need_no_rclpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DISTRO", "jazzy")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.delenv("RMW_IMPLEMENTATION", raising=False)
    with pytest.raises(UsageError, match="rclpy cannot be imported"):
        choose_ros("auto")
    ros = choose_ros("rclcpp")
    assert (ros.kind, ros.distro) == ("sourced", "jazzy")
    # A program's default middleware cannot be queried, and is not guessed.
    assert ros.rmw is None
    monkeypatch.setenv("RMW_IMPLEMENTATION", "rmw_cyclonedds_cpp")
    again = choose_ros("rclcpp")
    assert again.rmw == "rmw_cyclonedds_cpp"
