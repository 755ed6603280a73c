"""Test the age of data in a bag of rosbag2 against that of the recording of the same run.

rosbag2 stores two times with a message, both of the system clock: the source timestamp that the
middleware gave it, and the time of reception. Fast DDS takes the latter as the message comes into
the reader's history (`reception_timestamp`), and rmw_zenoh as it comes into the subscription's
queue: it is the same in the recording. Cyclone DDS takes it within rmw_take, before its event:
whatever the machine does, the age in the bag is at least the age at the source timestamp, and at
most the age when the message was taken.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import polars as pl
import pytest
from mcap.reader import make_reader
from tests.rclcpp import need_sources

import roslens as rl
from roslens.collectors.bag import read_bag
from roslens.first_facts import Facts
from roslens.recording import UsageError
from roslens.studies.storage.workloads.storage.prepare import programs
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.ros import embedded_ros

NODE = Path(__file__).with_name("stamped_node.py")
NUMBER = 500
# Decodes serialized messages, one per line, with rclpy.
STAMPS = """
import sys
from rcl_interfaces.msg import Log
from rclpy.serialization import deserialize_message
from std_msgs.msg import Header
for line in sys.stdin:
    stamp = deserialize_message(bytes.fromhex(line), Log if "Log" in sys.argv[1] else Header).stamp
    print(stamp.sec * 10**9 + stamp.nanosec)
"""
pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def recorder() -> str:
    need_sources("rosbag2")
    try:
        return str(programs(("recorder",), lambda _: None) / "recorder")
    except UsageError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("kind", ["std_msgs/msg/Header", "rcl_interfaces/msg/Log"])
def test_data_is_as_old_as_in_the_bag(
    kind: str, middleware: str, recorder: str, tmp_path: Path
) -> None:
    options = {"type": kind, "publishers": 1, "depth": NUMBER, "bag": tmp_path / "bag"}
    options |= {"ready": tmp_path / "ready", "output": tmp_path}
    arguments = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    folder, manifest = record_command(
        ["python", str(NODE), kind, str(NUMBER), recorder, *arguments],
        tmp_path / "run",
        options=TracingOptions(tracer="native", kernel="off"),
        ros="embedded",
        time_limit=90,
    )
    assert manifest.status == "complete", manifest.failure
    bag = read(next((tmp_path / "bag").glob("*.mcap")), kind)
    run = rl.open(folder)
    published = run.publications.select("message_id", "header_stamp_ns", "size")
    ours = run.messages.filter(topic="/data_0").join(published, on="message_id").collect()
    rows = ours.join(bag, on="source_timestamp_ns", suffix="_in_bag")
    assert (ours.height, bag.height, rows.height) == (NUMBER, NUMBER, NUMBER)
    stamp = rows["stamp_ns"]
    assert rows["header_stamp_ns"].to_list() == stamp.to_list()
    noted = middleware != "rmw_cyclonedds_cpp"
    if noted:
        assert rows["received_ns"].to_list() == rows["received_ns_in_bag"].to_list()
        # Fast DDS pads data sent to another process in one piece to a multiple of four bytes.
        whole = 4 if middleware == "rmw_fastrtps_cpp" else 1
        assert ((rows["size"] + whole - 1) // whole * whole).to_list() == rows["length"].to_list()
    else:
        assert rows["received_ns"].null_count() == rows["size"].null_count() == NUMBER
    age_in_bag = rows["received_ns_in_bag"] - stamp
    assert (rows["source_timestamp_ns"] - stamp <= age_in_bag).all()
    assert (age_in_bag <= rows["data_age_ns"]).all()
    not_seen = Facts(run).not_seen
    assert ("what kept threads from a CPU" in not_seen) == noted
    assert ("cannot be told apart" in not_seen) == (not noted)
    read_by_us = read_bag(tmp_path / "bag").sort("publish_ns")
    assert read_by_us["stamp_ns"].to_list() == bag["stamp_ns"].to_list()


def read(file: Path, kind: str) -> pl.DataFrame:
    """Return each message of a bag, decoded by rclpy."""
    with file.open("rb") as stream:
        messages = [message for _, _, message in make_reader(stream).iter_messages()]
    ros = embedded_ros()
    decoded = subprocess.check_output(
        [str(ros.python), "-c", STAMPS, kind],
        input="\n".join(message.data.hex() for message in messages),
        env=ros.process_environment(),
        text=True,
    )
    return pl.DataFrame(
        {
            "source_timestamp_ns": [message.publish_time for message in messages],
            "received_ns": [message.log_time for message in messages],
            "length": [len(message.data) for message in messages],
            "stamp_ns": [int(stamp) for stamp in decoded.split()],
        }
    ).sort("source_timestamp_ns")
