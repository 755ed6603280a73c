"""A node on one CPU whose timer interrupts that CPU all the time, and that writes down how often.

The timer's signal goes to the node itself, so that no other thread is needed to set it again. A
second process, on another CPU where there is one, publishes.
"""

import csv
import os
import signal
import sys
import time
from pathlib import Path

from talker import talk

SECONDS, PERIOD, SPIN, TIMER = 4.0, 0.02, 0.004, 0.0002


def listen(cpu: int, end: float, log: Path) -> None:
    import rclpy
    from rclpy.executors import SingleThreadedExecutor
    from std_msgs.msg import String

    os.sched_setaffinity(0, {cpu})
    rclpy.init()
    node = rclpy.create_node("listener")
    rows = []
    fired = 0

    def count(*_: object) -> None:
        nonlocal fired
        fired += 1

    def heard(message: String) -> None:
        before, begin = fired, time.time_ns()
        stop = time.thread_time_ns() + int(SPIN * 1e9)
        while time.thread_time_ns() < stop:
            pass
        rows.append((message.data, begin, fired - before, time.time_ns()))

    node.create_subscription(String, "/work", heard, 100)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    signal.signal(signal.SIGALRM, count)
    signal.setitimer(signal.ITIMER_REAL, TIMER, TIMER)
    while time.monotonic() < end:
        executor.spin_once(timeout_sec=0.1)
    signal.setitimer(signal.ITIMER_REAL, 0)
    with log.open("w", newline="") as stream:
        csv.writer(stream).writerows([("number", "begin_ns", "fired", "spun_ns"), *rows])


def main() -> None:
    """Writes callbacks.csv into ``$ROSLENS_NATIVE_DIR``."""
    cpus = sorted(os.sched_getaffinity(0))
    end = time.monotonic() + SECONDS
    child = os.fork()
    if child == 0:
        talk(cpus[0], end, PERIOD)
        os._exit(0)
    listen(cpus[-1], end, Path(os.environ["ROSLENS_NATIVE_DIR"]) / "callbacks.csv")
    sys.exit(os.waitpid(child, 0)[1])


main()
