"""Test a recording that LTTng 2.15.1 wrote as CTF 2; Debian's babeltrace2 2.0.4 cannot read it.

The expected values follow from the program that was recorded: two threads with three topics each
publish 4,000 messages in all, and take each of them four messages later. Every thread numbers its
pointers from its own base. LTTng discarded nothing. lttng-tools and lttng-ust 2.15.1 were built
from their public repositories for it; the recording was made for this project and is under its
licence.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import polars as pl
import pytest

import roslens as rl
from roslens.collectors.reader import open_trace

ARCHIVE = Path(__file__).with_name("lttng_2.15.1.tar.xz")
MESSAGES, THREADS, TOPICS = 4_000, 2, 3
ONCE_PER_TOPIC = (
    "rmw_publisher_init",
    "rcl_publisher_init",
    "rmw_subscription_init",
    "rcl_subscription_init",
    "rclcpp_subscription_init",
    "rclcpp_subscription_callback_added",
    "rclcpp_callback_register",
)
ONCE_PER_MESSAGE = (
    "rclcpp_publish",
    "rcl_publish",
    "rmw_publish",
    "rmw_take",
    "rcl_take",
    "rclcpp_take",
    "callback_start",
    "callback_end",
)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "ctf2_lttng_2.15.1"


def test_every_event_is_read(trace: Path) -> None:
    info = open_trace(trace).info()
    assert info.events_by_name == (
        {"ros2:rcl_node_init": THREADS}
        | {f"ros2:{name}": THREADS * TOPICS for name in ONCE_PER_TOPIC}
        | {f"ros2:{name}": MESSAGES for name in ONCE_PER_MESSAGE}
    )
    assert (info.events, info.discarded_events, info.warnings) == (32_044, 0, [])


def test_every_field_has_the_value_that_the_program_gave(trace: Path) -> None:
    events = open_trace(trace).read()
    topics = events["ros2:rcl_publisher_init"].sort("publisher_handle")
    expected = [
        # The base is 0x550000000000 for the first thread, and 0x10000000 more for each further one.
        (base + 4096 * (k + 1), base + 16, base + 4096 * (k + 1) + 8, f"/topic_{thread}_{k}", 10)
        for thread, base in enumerate((0x550000000000, 0x550010000000))
        for k in range(TOPICS)
    ]
    columns = (
        "publisher_handle",
        "node_handle",
        "rmw_publisher_handle",
        "topic_name",
        "queue_depth",
    )
    assert topics.select(columns).rows() == expected
    gids = events["ros2:rmw_publisher_init"].sort("rmw_publisher_handle")["gid"].to_list()
    assert [list(gid)[:16] for gid in gids] == [
        [thread * 16 + i + k * 3 for i in range(16)]
        for thread in range(THREADS)
        for k in range(TOPICS)
    ]
    for thread in range(THREADS):
        base = 0x550000000000 + 0x10000000 * thread
        of_thread = pl.col("rmw_publisher_handle").is_between(base, base + 0xFFFFFFF)
        sent = events["ros2:rmw_publish"].filter(of_thread).sort("time_ns")
        per_thread = range(MESSAGES // THREADS)
        assert sent["rmw_publisher_handle"].to_list() == [
            base + 4096 * (i % TOPICS + 1) + 8 for i in per_thread
        ]
        assert sent["message"].to_list() == [
            base + 4096 * (i % TOPICS + 1) + 3072 + (i % 7) * 64 for i in per_thread
        ]
        # The timestamp is the system clock just before the event, and takes carry the same one.
        wait = sent["time_ns"] - sent["timestamp"]
        assert wait.min() >= 0
        assert wait.median() < 1_000_000
        taken = events["ros2:rmw_take"].filter(
            pl.col("rmw_subscription_handle").is_between(base, base + 0xFFFFFFF)
        )
        assert taken.sort("time_ns")["source_timestamp"].to_list() == sent["timestamp"].to_list()
        assert taken["taken"].unique().to_list() == [1]


def test_every_message_is_delivered(trace: Path) -> None:
    messages = rl.open(trace).messages.collect()
    assert messages.height == MESSAGES
    assert messages["outcome"].unique().to_list() == ["delivered"]
    assert messages["match"].unique().to_list() == ["exact"]
    assert messages["topic"].n_unique() == THREADS * TOPICS
