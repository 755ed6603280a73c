"""Publish messages with stamps of the last second, which rosbag2's writer records.

TYPE NUMBER PROGRAM ...: the program of the suite storage-recorder, with its options.
"""

import random
import subprocess
import sys
import time

import rclpy
from rcl_interfaces.msg import Log
from rclpy.qos import QoSProfile
from std_msgs.msg import Header

TYPES = {"std_msgs/msg/Header": (Header, "frame_id"), "rcl_interfaces/msg/Log": (Log, "msg")}


def main(kind: str, number: int, recorder: list[str]) -> int:
    chosen, (message_type, text) = random.Random(1), TYPES[kind]
    rclpy.init()
    node = rclpy.create_node("stamped")
    publisher = node.create_publisher(message_type, "/data_0", QoSProfile(depth=number))
    running = subprocess.Popen(recorder)
    while not publisher.get_subscription_count() and running.poll() is None:
        time.sleep(0.01)
    for _ in range(number):
        message = message_type(**{text: "x" * chosen.randrange(2000)})
        age_ns = chosen.randrange(10**9)
        message.stamp.sec, message.stamp.nanosec = divmod(time.time_ns() - age_ns, 10**9)
        publisher.publish(message)
        time.sleep(0.002)
    publisher.wait_for_all_acked()
    node.destroy_node()
    rclpy.shutdown()
    return running.wait()


sys.exit(main(sys.argv[1], int(sys.argv[2]), sys.argv[3:]))
