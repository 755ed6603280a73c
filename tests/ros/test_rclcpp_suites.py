"""Test rclcpp compiled from the pinned sources without ROS 2, against its programs' logs.

The first run on a machine compiles it, which takes some minutes; later ones find it in the cache.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.rclcpp import need_sources
from tests.record_suite import record_changed

import roslens as rl
from roslens.analysis.verdicts.comparison import compare_levels
from roslens.sides import load_side
from roslens.tracing.ros import RosEnvironment
from roslens.tracing.ros.cyclonedds import NAME as CYCLONE
from roslens.tracing.ros.rclcpp import rclcpp_for
from roslens.tracing.ros.zenoh import NAME as ZENOH
from roslens.tracing.ros_choice import MIDDLEWARES, with_middlewares
from roslens.tracing.suite import load_suite
from roslens.tracing.workloads.rclcpp_workloads.prepare import prepare

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "benchmarks"))
from ground_truth import compare, truth_of  # noqa: E402
from why_trial import RIGHT, late_of, with_met  # noqa: E402

pytestmark = pytest.mark.live
RCLCPP = ("rclcpp", "rclcpp_action", "rclcpp_lifecycle", "cm_executors")
OF_MIDDLEWARE = {CYCLONE: ["cyclonedds"], ZENOH: ["zenoh-c"]}
"""Packages that a manifest names beside each middleware."""


@pytest.fixture(scope="module", autouse=True)
def bare(ros: RosEnvironment) -> Iterator[None]:
    """Compile rclcpp and the programs on a machine with no ROS 2 sourced."""
    need_sources()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AMENT_PREFIX_PATH", "ROS_DISTRO", "RMW_IMPLEMENTATION"):
            patch.delenv(name, raising=False)
        rclcpp_for(ros)
        prepare()
        yield


def agrees(recordings: Path, count: int) -> None:
    """Check all runs against what their programs logged."""
    check = ROOT / "benchmarks" / "ground_truth.py"
    command = [sys.executable, str(check), str(recordings)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert f"{count} recordings checked, 0 failed" in done.stdout


def latencies_agree(recordings: Path) -> None:
    """Check that each logged latency begins before the publication and ends after the callback."""
    for run in rl.open(recordings).recordings:
        truth = truth_of(run.path)
        assert truth is not None
        verdict = compare(rl.open(run.path).messages.collect(), truth)
        # Both read the same clock, which differs by up to 1 us between two CPUs.
        assert verdict.longer_ns.min() > -1000


def test_messages_on_every_executor(tmp_path: Path) -> None:
    factors: dict[str, Any] = {
        "workload": ["messages"],
        "executor": [
            *("SingleThreaded", "MultiThreaded", "Events", "EventsCBG", "EventsCBGMultiThreaded")
        ],
        "rmw": ["rmw_fastrtps_cpp"],
        "intra_process": ["on"],
        "payload": [1000],
    }
    changes = {"factors": factors, "exclude": [], "duration": 1, "repetitions": 1}
    suite_levels = {"executor", "rmw"}
    recordings = record_changed("executors-rclcpp", tmp_path, without_levels(changes, suite_levels))
    agrees(recordings, 5)
    latencies_agree(recordings)
    for path in recordings.rglob("manifest.json"):
        environment = json.loads(path.read_text())["environment"]
        assert (environment["ros"], environment["ros_distro"]) == ("embedded", "kilted")
        assert environment["packages"].keys() > set(RCLCPP)


@pytest.mark.parametrize("rmw", MIDDLEWARES)
def test_messages_on_another_middleware(tmp_path: Path, ros: RosEnvironment, rmw: str) -> None:
    _, missing = with_middlewares(ros, [rmw])
    if missing:
        assert "cannot be made" not in missing[rmw]
        pytest.skip(f"it cannot be had here: {missing[rmw]}")
    factors: dict[str, Any] = {
        "workload": ["messages"],
        "executor": ["SingleThreaded", "MultiThreaded", "Events", "EventsCBG"],
        "rmw": [rmw],
        # Otherwise a message would not reach the middleware.
        "intra_process": ["off"],
        "processes": [1, 2],
        "payload": [1000],
    }
    # One executor waits for the middleware, and the middleware calls the other, within and between
    # processes.
    exclude = [
        {"executor": "MultiThreaded", "processes": 1},
        {"executor": "EventsCBG", "processes": 2},
    ]
    changes = {"factors": factors, "exclude": exclude, "duration": 1, "repetitions": 1}
    recordings = record_changed(
        "executors-rclcpp", tmp_path, without_levels(changes, {"executor", "rmw"})
    )
    agrees(recordings, 6)
    latencies_agree(recordings)
    for run in rl.open(recordings).recordings:
        environment = json.loads((run.path / "manifest.json").read_text())["environment"]
        # rcl ends a program whose middleware is not the one of this variable.
        assert environment["rmw"] == rmw
        assert environment["packages"].keys() >= {rmw, *OF_MIDDLEWARE[rmw], *RCLCPP}
        messages = rl.open(run.path).messages.collect().filter(pl.col("topic") == "/data")
        # Messages are matched by the source timestamp, which the middleware's own events have.
        delivered = messages.filter(pl.col("outcome") == "delivered")
        assert delivered["match"].unique().to_list() == ["exact"]
        assert messages["source_timestamp_ns"].null_count() == 0
        assert messages["rmw_publish_ns"].null_count() == 0


def without_levels(changes: dict[str, Any], kept: set[str]) -> dict[str, Any]:
    """Return the changes, with the suite's special levels of only these factors."""
    levels = load_suite("executors-rclcpp")[0].levels
    special = {
        name: {level: settings.model_dump() for level, settings in levels[name].items()}
        for name in kept
    }
    return {**changes, "levels": special}


def test_pointers_layouts_and_many_subscriptions(tmp_path: Path) -> None:
    factors: dict[str, Any] = {
        "publishers": [2],
        "payload": [100_000],
        "subscriptions": [3],
        "processes": [1, 2],
        "pointer": ["shared", "unique"],
        "intra_process": ["on", "off"],
        "outside": [0, 1],
    }
    changes = {
        "factors": factors,
        "exclude": [
            *({"processes": 2, "intra_process": "on"}, {"processes": 2, "pointer": "shared"}),
            *({"outside": 1, "intra_process": "off"}, {"outside": 1, "pointer": "shared"}),
        ],
        "duration": 1,
        "repetitions": 1,
    }
    recordings = record_changed("communication-rclcpp", tmp_path, changes)
    agrees(recordings, 6)
    latencies_agree(recordings)
    opened = rl.open(recordings)
    (outside,) = [run.name for run in opened.runs if run.cell["outside"] == 1]
    messages = opened.only(outside).messages.drop_nulls("subscription_vpid").collect()
    same = messages["publisher_vpid"] == messages["subscription_vpid"]
    assert 0 < same.sum() < messages.height


def test_services_actions_timers_chain_and_lifecycle(tmp_path: Path) -> None:
    changes: dict[str, Any] = {
        "factors": {"workload": ["services", "actions", "timers", "chain", "lifecycle"]},
        "levels": {},
        "exclude": [],
        "duration": 1,
        "repetitions": 1,
        "work_topic": None,
    }
    workload = {
        "builtin": "rclcpp_workloads",
        "ros": "rclcpp",
        "parameters": {"executor": "SingleThreaded"},
    }
    agrees(record_changed("executors-rclcpp", tmp_path, {**changes, "workload": workload}), 5)


@pytest.mark.parametrize(
    ("suite", "cause"),
    [("causes", "same_thread"), ("causes", "lock"), ("causes", "service"), ("causes-rclpy", "gil")],
)
def test_first_causes_are_those_that_were_injected(suite: str, cause: str, tmp_path: Path) -> None:
    """At least nine in ten late messages get a right cause for what the injector's log says.

    By the log, 5 messages a second are each later than 5 ms.
    """
    changes: dict[str, Any] = {"factors": {"cause": [cause]}, "duration": 9, "tracing": {}}
    (log,) = record_changed(suite, tmp_path, changes).rglob("native/injections.csv")
    causes = with_met(late_of(log, 5_000_000, kernel=False).frame(), log)
    met = causes.filter("met")
    assert met.height >= 15
    assert met["cause"].cast(pl.String).is_in(RIGHT[cause][1]).mean() >= 0.9


def held(native: Path) -> float:
    """Return how long the timer worked on the way to the median message's callback [ns].

    By the program's own log: it is less than the timer takes if the timer begins early.
    """
    works = pl.read_csv(native / "injections.csv").sort("begin_realtime_ns")
    messages = pl.read_csv(native / "messages.csv").drop_nulls().sort("callback_realtime_ns")
    last = messages.join_asof(
        works, left_on="callback_realtime_ns", right_on="begin_realtime_ns", coalesce=False
    )
    begin = pl.max_horizontal("publish_realtime_ns", "begin_realtime_ns")
    end = pl.min_horizontal("callback_realtime_ns", "end_realtime_ns")
    return float(last.select((end - begin).clip(0).median()).item())


def test_a_seeded_delay_is_the_cause_of_the_change(tmp_path: Path) -> None:
    """A timer on the thread works for 1 or 15 ms before each message, and logs how long it took."""
    workload = {
        "builtin": "rclcpp_workloads", "ros": "rclcpp", "says_ready": True,
        "parameters": {"workload": "causes", "cause": "same_thread", "rate": 25, "every": 1},
    }  # fmt: skip
    changes: dict[str, Any] = {"factors": {"hold_us": [1000, 15000]}, "duration": 10, "tracing": {},
                               "repetitions": 3, "workload": workload}  # fmt: skip
    recordings = record_changed("causes", tmp_path, changes)
    side = load_side(recordings)
    (c,) = [c for c in compare_levels(side, "hold_us", {}).compared if c.metric == "latency_p50"]
    assert c.difference is not None
    assert sum(effect.value for _, effect in c.causes) == pytest.approx(c.difference.value)
    cause, effect = c.causes[0]
    assert cause.startswith("executor, timer callback (")
    assert effect.value / c.difference.value > 0.8
    short, long = (
        [held(log.parent) for log in recordings.rglob(f"*{us}/native/injections.csv")]
        for us in (1000, 15000)
    )
    assert len(short) == len(long) == 3
    assert effect.value == pytest.approx((sum(long) - sum(short)) / 3, rel=0.25)
