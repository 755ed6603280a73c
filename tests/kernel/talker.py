"""Publishes for the workloads of these tests, on a CPU of its own."""

import os
import time


def talk(cpu: int, end: float, period: float) -> None:
    import rclpy
    from std_msgs.msg import String

    os.sched_setaffinity(0, {cpu})
    rclpy.init()
    node = rclpy.create_node("talker")
    publisher = node.create_publisher(String, "/work", 100)
    while publisher.get_subscription_count() == 0 and time.monotonic() < end:
        time.sleep(0.01)
    number = 0
    while time.monotonic() < end - 0.5:
        publisher.publish(String(data=str(number)))
        number += 1
        time.sleep(period)
