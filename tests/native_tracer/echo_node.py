"""Run one node that sends itself 50 messages, one after the other: the same events each time."""

import rclpy
from rclpy.executors import SingleThreadedExecutor
from std_msgs.msg import String

COUNT = 50


def main() -> None:
    rclpy.init()
    node = rclpy.create_node("echo")
    publisher = node.create_publisher(String, "/echo", 100)
    heard: list[str] = []
    node.create_subscription(String, "/echo", lambda message: heard.append(message.data), 100)
    executor = SingleThreadedExecutor()
    executor.add_node(node)
    while publisher.get_subscription_count() == 0:
        executor.spin_once(timeout_sec=0.05)
    for number in range(COUNT):
        publisher.publish(String(data=str(number)))
        while len(heard) <= number:
            executor.spin_once(timeout_sec=0.5)
    print(",".join(heard))
    node.destroy_node()
    rclpy.shutdown()


main()
