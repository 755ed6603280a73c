"""Run a talker or a listener that logs what it does: ROLE LOG STOP."""

import sys
import time
from pathlib import Path

import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import String


def main(role: str, log: str, stop: str) -> None:
    """Create LOG.on with the first message; run until STOP exists, the listener for longer."""
    rclpy.init()
    node = rclpy.create_node(role)
    rows: list[str] = []
    number = 0
    if role == "talker":
        publisher = node.create_publisher(String, "/pair", 1000)
        while publisher.get_subscription_count() == 0:
            time.sleep(0.01)
        while not Path(stop).exists():
            begin = time.time_ns()
            publisher.publish(String(data=str(number)))
            rows.append(f"{number},{begin},{time.time_ns()}")
            Path(f"{log}.on").touch()
            number += 1
            time.sleep(0.005)
    else:

        def heard(message: String) -> None:
            rows.append(f"{message.data},{time.time_ns()},0")
            Path(f"{log}.on").touch()

        node.create_subscription(String, "/pair", heard, 1000)
        executor = SingleThreadedExecutor()
        executor.add_node(node)
        while not Path(stop).exists():
            executor.spin_once(timeout_sec=0.1)
        until = time.monotonic() + 1
        while time.monotonic() < until:
            executor.spin_once(timeout_sec=0.1)
    Path(log).write_text("\n".join(["number,begin_ns,end_ns", *rows]) + "\n")


main(*sys.argv[1:])
