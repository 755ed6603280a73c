"""Test Cyclone DDS and Zenoh on the embedded ROS 2: found or reported, selected, and run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.rclcpp import need_sources

from roslens.recording import RunFailedError
from roslens.tracing import ros_choice
from roslens.tracing.needs import available_levels
from roslens.tracing.plan import chosen_levels
from roslens.tracing.ros import RosEnvironment, cyclonedds
from roslens.tracing.ros.compiling import find_cpp_compiler
from roslens.tracing.ros.cyclonedds import NAME, Cyclone, cyclonedds_for, find_cyclone
from roslens.tracing.ros.environment import EMBEDDED_RMW
from roslens.tracing.ros.zenoh import NAME as ZENOH
from roslens.tracing.ros_choice import MIDDLEWARES, choose_ros, with_middlewares
from roslens.tracing.sources import VARIABLE
from roslens.tracing.suite import load_suite


@pytest.fixture
def embedded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RosEnvironment:
    """Make a place of an embedded ROS 2 with Fast DDS, no sourced ROS, and a cache of our own."""
    monkeypatch.setenv("ROSLENS_CACHE", str(tmp_path / "cache"))
    for name in ("AMENT_PREFIX_PATH", "ROS_DISTRO", "RMW_IMPLEMENTATION"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "kilted"
    manifest = home / "share" / EMBEDDED_RMW / "package.xml"
    manifest.parent.mkdir(parents=True)
    manifest.touch()
    ros = RosEnvironment(
        kind="embedded",
        distro="kilted",
        rmw=EMBEDDED_RMW,
        python=home / "bin" / "python",
        python_version="3.11",
        variables={"AMENT_PREFIX_PATH": str(home), "RMW_IMPLEMENTATION": EMBEDDED_RMW},
        middlewares={EMBEDDED_RMW: ()},
    )
    monkeypatch.setattr(ros_choice, "embedded_ros", lambda _: ros)
    return ros


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], None]:
    """Return a function that shows the compiler a Cyclone DDS of a version, or none."""

    def have(version: str | None) -> None:
        folder = tmp_path / "headers"
        (folder / "dds").mkdir(parents=True, exist_ok=True)
        if version is not None:
            (folder / "dds" / "features.h").touch()
            (folder / "dds" / "version.h").write_text(f'#define DDS_VERSION "{version}"\n')
        monkeypatch.setenv("CXX", f"c++ -nostdinc -I{folder}")

    return have


def test_without_cyclone_dds_its_level_is_left_out_by_name(
    embedded: RosEnvironment, system: Callable[[str | None], None]
) -> None:
    system(None)
    suite, _ = load_suite("executors-rclcpp")
    chosen = chosen_levels(suite, ["workload=messages", "executor=SingleThreaded"])
    ros, missing = with_middlewares(embedded, [NAME])
    kept, notes = available_levels(suite, chosen, ros, missing)
    assert kept["rmw"] == (EMBEDDED_RMW,)
    line, _ = notes
    assert line == (
        "rmw rmw_cyclonedds_cpp is left out: no dds/dds.h, which rmw_cyclonedds_cpp is compiled "
        "with; apt-get install cyclonedds-dev"
    )
    # A middleware that no level asks for is not searched.
    assert with_middlewares(embedded, [EMBEDDED_RMW]) == (embedded, {})


def test_without_cargo_or_its_sources_zenoh_is_left_out_by_name(
    embedded: RosEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setenv("CARGO", "true")
    ros, missing = with_middlewares(embedded, [ZENOH])
    assert ros == embedded
    assert missing[ZENOH].startswith(f"{tmp_path}: has no rmw_zenoh.tar.zst")
    monkeypatch.delenv("CARGO")
    monkeypatch.setenv("PATH", str(tmp_path))
    suite, _ = load_suite("executors-rclcpp")
    chosen = chosen_levels(suite, ["workload=messages", "executor=SingleThreaded"])
    _, notes = available_levels(suite, chosen, *with_middlewares(embedded, [ZENOH]))
    _, line = notes
    assert line == (
        "rmw rmw_zenoh_cpp is left out: no cargo, with which Zenoh is compiled for rmw_zenoh_cpp; "
        "install Rust"
    )


def test_asked_for_by_the_environment_it_is_no_other_that_runs(
    embedded: RosEnvironment,
    system: Callable[[str | None], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert choose_ros("embedded") == choose_ros("auto") == embedded
    system(None)
    monkeypatch.setenv("RMW_IMPLEMENTATION", NAME)
    for choice in ("embedded", "auto", "rclcpp"):
        with pytest.raises(RunFailedError, match=r"cyclonedds-dev; or unset RMW_IMPLEMENTATION"):
            choose_ros(choice)


def test_another_cyclone_dds_is_another_build(
    embedded: RosEnvironment, system: Callable[[str | None], None]
) -> None:
    places = set()
    for version in ("0.10.2", "0.10.5"):
        system(version)
        cyclone = find_cyclone()
        assert cyclone == Cyclone((*find_cpp_compiler(),), version)
        places.add(cyclonedds._prefix(embedded, cyclone))
    assert len(places) == 2
    system("11.0.1")
    with pytest.raises(RunFailedError, match=r"made for Cyclone DDS 0\.10; the system's is 11"):
        cyclonedds_for(embedded)


def test_a_run_gets_the_middleware_of_its_level(embedded: RosEnvironment) -> None:
    library = Path("/cyclone.so")
    ros = replace(embedded, middlewares={EMBEDDED_RMW: (), NAME: (library,)})
    base = {"LD_PRELOAD": "/users.so"}
    ours = [Path("/libtracetools.so")]
    cyclone = ros.with_middleware(NAME)
    variables = cyclone.process_environment(base, preload=ours)
    assert variables["LD_PRELOAD"] == "/libtracetools.so:/users.so:/cyclone.so"
    assert (variables["RMW_IMPLEMENTATION"], cyclone.rmw) == (NAME, NAME)
    # Switching back works, where the environment asks for one and the level for the other.
    assert cyclone.with_middleware(EMBEDDED_RMW) == ros
    assert ros.process_environment(base)["LD_PRELOAD"] == "/users.so"
    assert ros.with_middleware(ZENOH) is ros.with_middleware(None) is ros


@pytest.fixture(scope="module", params=MIDDLEWARES)
def compiled(ros: RosEnvironment, request: pytest.FixtureRequest) -> RosEnvironment:
    """Return the embedded ROS 2 with another middleware, compiled if it is not there yet."""
    need_sources(request.param)
    environment, missing = with_middlewares(ros, [request.param])
    if missing:
        why = missing[request.param]
        assert "cannot be made" not in why
        pytest.skip(f"it cannot be had here: {why}")
    assert environment is not None
    return environment.with_middleware(request.param)


PAIR = """
import json, sys
import rclpy
from std_msgs.msg import String
rclpy.init()
node, got = rclpy.create_node("pair"), []
node.create_subscription(String, "/text", lambda message: got.append(message.data), 10)
publisher = node.create_publisher(String, "/text", 10)
while len(got) < 3:
    publisher.publish(String(data=str(len(got))))
    rclpy.spin_once(node, timeout_sec=1)
loaded = [line.split()[-1] for line in open("/proc/self/maps") if ".so" in line]
json.dump([rclpy.get_rmw_implementation_identifier(), got, loaded], sys.stdout)
"""


@pytest.mark.live
def test_rclpy_runs_on_it_and_nothing_of_fast_dds_is_loaded(
    compiled: RosEnvironment, tmp_path: Path
) -> None:
    script = tmp_path / "pair.py"
    script.write_text(PAIR)
    with compiled.isolated(tmp_path / "log") as ros:
        done = subprocess.run(
            [
                str(ros.python),
                str(script),
            ],
            env=ros.process_environment(preload=ros.preload()),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    identifier, got, loaded = json.loads(done.stdout)
    assert identifier == compiled.rmw
    assert set(got) == {"0", "1", "2"}
    names = {Path(path).name for path in loaded}
    libraries = {NAME: "libddsc.so", ZENOH: "libzenohc.so"}
    assert any(name.startswith(libraries[identifier]) for name in names)
    assert not {name for name in names if name.startswith(("librmw_fastrtps", "libfastdds"))}
