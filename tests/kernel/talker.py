"""Publish for the workloads of these tests, and listen, each on its own CPU.

rclpy is imported here, before the workloads' time begins: on a loaded machine that takes seconds.
"""

import os
import time

import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import String


def talk(cpu: int, end: float, period: float) -> None:
    node = _node("talker", cpu)
    publisher = node.create_publisher(String, "/work", 100)
    while publisher.get_subscription_count() == 0 and time.monotonic() < end:
        time.sleep(0.01)
    number = 0
    while time.monotonic() < end - 0.5:
        publisher.publish(String(data=str(number)))
        number += 1
        time.sleep(period)


def listen(cpu: int, end: float, heard, ready=lambda: None) -> None:
    node = _node("listener", cpu)
    node.create_subscription(String, "/work", heard, 100)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    ready()
    while time.monotonic() < end:
        executor.spin_once(timeout_sec=0.1)


def spin(seconds: float) -> None:
    """Use the CPU for this many seconds of thread time."""
    stop = time.thread_time_ns() + int(seconds * 1e9)
    while time.thread_time_ns() < stop:
        pass


def _node(name: str, cpu: int):
    os.sched_setaffinity(0, {cpu})
    rclpy.init()
    return rclpy.create_node(name)
