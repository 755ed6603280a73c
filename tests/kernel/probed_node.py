"""Run a node whose timer publishes, calls a library's function, and publishes again, until SIGINT.

Arguments: the library; the file that exists once the timer's callback ran and that holds at the end
the time before and after each call [ns of CLOCK_MONOTONIC]; seconds.
"""

import ctypes
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    import rclpy
    from rclpy.signals import SignalHandlerOptions
    from std_msgs.msg import String

    update = ctypes.CDLL(sys.argv[1])._ZN6probed4Loop6updateEx
    update.argtypes = [ctypes.c_void_p, ctypes.c_longlong]
    # A signal that ended the context would end a callback midway.
    rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    ended = []
    signal.signal(signal.SIGINT, lambda *_: ended.append(True))
    node = rclpy.create_node("probed")
    publisher = node.create_publisher(String, "/out", 10)
    around = []

    def tick() -> None:
        publisher.publish(String(data="before"))
        before = time.monotonic_ns()
        update(None, 2_000_000)
        around.append(f"{before},{time.monotonic_ns()}")
        publisher.publish(String(data="after"))
        Path(sys.argv[2]).touch()

    node.create_timer(0.02, tick)
    until = time.monotonic() + float(sys.argv[3])
    while not ended and time.monotonic() < until:
        rclpy.spin_once(node, timeout_sec=0.1)
    node.destroy_node()
    rclpy.try_shutdown()
    # Write out what the library printed, even if the middleware does not end well.
    ctypes.CDLL(None).fflush(None)
    Path(sys.argv[2]).write_text("\n".join(around))


main()
