"""Run the node of burner.cpp with rclpy: the same two functions, by ctypes."""

import ctypes
import sys
import time

import rclpy
from rclpy.node import Node
from std_msgs.msg import Empty

LIBRARY = ctypes.CDLL(sys.argv[1])
for function in (LIBRARY.alpha, LIBRARY.beta):
    function.argtypes, function.restype = [ctypes.c_double], ctypes.c_double


class Burner(Node):
    """A node with a timer and a subscription."""

    def __init__(self):
        super().__init__("burner")
        self.left, self.turn = int(sys.argv[2]), 0.0
        self.spent, self.lasted = [0.0] * 4, [0.0] * 2
        self.publisher = self.create_publisher(Empty, "/burnt", 10)
        self.create_subscription(Empty, "/burnt", self.burn, 10)
        self.create_timer(0.02, self.tick)

    def varied(self, seconds):
        """Vary the time by up to a tenth: equal work would beat with samples at a fixed rate."""
        self.turn = (self.turn + 0.618034) % 1
        return seconds * (0.9 + 0.2 * self.turn)

    def alpha(self, callback, seconds):
        begin = time.monotonic()
        self.spent[2 * callback] += LIBRARY.alpha(self.varied(seconds))
        self.lasted[callback] += time.monotonic() - begin

    def tick(self):
        """Run the timer's callback."""
        self.alpha(0, 0.007)
        self.spent[1] += LIBRARY.beta(self.varied(0.003))
        self.publisher.publish(Empty())
        self.left -= 1
        if self.left == 0:
            raise SystemExit

    def burn(self, _):
        """Run the subscription's callback."""
        self.alpha(1, 0.0016)
        self.spent[3] += LIBRARY.beta(self.varied(0.0064))


rclpy.init()
node = Burner()
try:
    rclpy.spin(node)
except SystemExit:
    print(*node.spent, *node.lasted)
