"""Time callbacks and publish() of rclpy in its own interpreter; print CPU ns per call as JSON."""

import json
import sys
import time

import rclpy
from std_msgs.msg import String


def per_call(function, calls):
    start = time.thread_time_ns()
    for _ in range(calls):
        function()
    return (time.thread_time_ns() - start) / calls


def main():
    calls = int(sys.argv[1])
    rclpy.init()
    node = rclpy.create_node("cost")
    timer = node.create_timer(1000.0, lambda: None)
    publisher = node.create_publisher(String, "cost", 10)
    message = String(data="x" * 100)
    callback = timer.callback
    # Short bursts with pauses, so that the tracer's buffers are emptied in between.
    samples = {"callback": [], "publish": []}
    for _ in range(20):
        samples["callback"].append(per_call(callback, calls))
        time.sleep(0.02)
        samples["publish"].append(per_call(lambda: publisher.publish(message), calls))
        time.sleep(0.02)
    # The first three rounds warm up.
    print(
        json.dumps(
            {name: sorted(times[3:])[len(times[3:]) // 2] for name, times in samples.items()}
        )
    )
    node.destroy_node()
    rclpy.shutdown()


main()
