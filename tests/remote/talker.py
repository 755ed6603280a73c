"""Send COUNT messages and answer those of the other side: ``talker.py PING|PONG COUNT``.

PING waits for PONG, then sends; each answers the messages it receives, so messages go both ways.
"""

import sys

import rclpy
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from std_msgs.msg import String


def main() -> None:
    side, count = sys.argv[1], int(sys.argv[2])
    peer = "PONG" if side == "PING" else "PING"
    rclpy.init()
    node = rclpy.create_node(side.lower())
    publisher = node.create_publisher(String, f"/from_{side.lower()}", 10)
    heard: list[str] = []

    def on_message(message: String) -> None:
        heard.append(message.data)
        if side == "PONG":
            publisher.publish(message)

    node.create_subscription(String, f"/from_{peer.lower()}", on_message, 10)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    try:
        while publisher.get_subscription_count() == 0 or not node.count_publishers(
            f"/from_{peer.lower()}"
        ):
            executor.spin_once(timeout_sec=0.05)
        for number in range(count if side == "PING" else 0):
            publisher.publish(String(data=str(number)))
            while len(heard) <= number:
                executor.spin_once(timeout_sec=0.5)
        while side == "PONG":
            executor.spin_once(timeout_sec=0.5)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    print(len(heard))
    rclpy.try_shutdown()


main()
