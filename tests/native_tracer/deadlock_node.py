"""Run nodes that after 2 s call a service within a timer's callback: NAME/SERVES/ASKS ...

Each node has its own thread and executor; with THREADS=2, an executor of two threads. The program
ends after 5 s, or, if STOP names a file, when that file exists.
"""

import os
import sys
import threading
import time
from pathlib import Path

import rclpy
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
from std_srvs.srv import Empty

AFTER_S = 2


def spin(name: str, serves: str, asks: str, begun: float) -> None:
    node = rclpy.create_node(name)
    node.create_service(Empty, serves, lambda _, response: response)
    client = node.create_client(Empty, asks)

    def tick() -> None:
        if time.monotonic() - begun > AFTER_S:
            client.call(Empty.Request())

    node.create_timer(0.05, tick)
    two = os.environ.get("THREADS") == "2"
    executor = MultiThreadedExecutor(2) if two else SingleThreadedExecutor()
    executor.add_node(node)
    executor.spin()


rclpy.init()
begun = time.monotonic()
threads = [
    threading.Thread(target=spin, args=(*argument.split("/"), begun), daemon=True)
    for argument in sys.argv[1:]
]
for thread in threads:
    thread.start()
stop = os.environ.get("STOP")
while not Path(stop).exists() if stop else time.monotonic() - begun < 5:
    time.sleep(0.05)
if os.environ.get("THREADS"):
    os._exit(0)  # the threads of an executor's pool would be waited for
