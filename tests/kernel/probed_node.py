"""A node whose timer publishes, calls a function of a library, and publishes again, until SIGINT.

Arguments: the library, the file that says how often the timer's callback ran, seconds.
"""

import ctypes
import sys
import time
from contextlib import suppress
from pathlib import Path


def main() -> None:
    import rclpy
    from rclpy.executors import ExternalShutdownException
    from std_msgs.msg import String

    update = ctypes.CDLL(sys.argv[1])._ZN6probed4Loop6updateEx
    update.argtypes = [ctypes.c_void_p, ctypes.c_longlong]
    rclpy.init()
    node = rclpy.create_node("probed")
    publisher = node.create_publisher(String, "/out", 10)
    ran = 0

    def tick() -> None:
        nonlocal ran
        ran += 1
        publisher.publish(String(data="before"))
        update(None, 2_000_000)
        publisher.publish(String(data="after"))

    node.create_timer(0.02, tick)
    until = time.monotonic() + float(sys.argv[3])
    with suppress(ExternalShutdownException, KeyboardInterrupt):
        while time.monotonic() < until:
            rclpy.spin_once(node, timeout_sec=0.1)
    node.destroy_node()
    rclpy.try_shutdown()
    Path(sys.argv[2]).write_text(str(ran))


main()
