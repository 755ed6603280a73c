"""Run a node with every kind of callback; print how often each ran, and rclpy's handles.

``python3 entities.py SingleThreaded|MultiThreaded|Events``
"""

import contextlib
import functools
import json
import sys
import time

import rclpy
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.task import Future
from std_msgs.msg import String
from std_srvs.srv import Trigger

ROUNDS = 5


class BoomError(Exception):
    pass


class Called:
    def __init__(self, node):
        self.node = node

    def __call__(self, message):
        self.node.count("object")


def plain_function(node, message):
    node.count("partial")


class Entities(Node):
    def __init__(self):
        super().__init__("entities")
        self.counts = {}
        self.published = 0
        self.waiting = []
        self.topics = {
            "method": self.on_method,
            "lambda": lambda message: self.count("lambda"),
            "partial": functools.partial(plain_function, self),
            "object": Called(self),
            "raises": self.on_raises,
        }
        # The events executor of Kilted does not call these as the others do.
        if sys.argv[1] != "Events":
            self.topics["info"] = self.on_info
            self.topics["coroutine"] = self.on_coroutine
        self.handles = {}
        self.senders = {}
        for name, callback in self.topics.items():
            # A coroutine that waits blocks its own group, and the timer ends its wait.
            group = ReentrantCallbackGroup() if name == "coroutine" else None
            subscription = self.create_subscription(
                String, name, callback, 10, callback_group=group
            )
            self.handles[name] = subscription.handle.pointer
            self.senders[name] = self.create_publisher(String, name, 10)
        raw = self.create_subscription(String, "raw", self.on_raw, 10, raw=True)
        self.handles["raw"] = raw.handle.pointer
        self.senders["raw"] = self.create_publisher(String, "raw", 10)
        self.ticker = self.create_timer(0.02, self.on_timer)
        self.handles["timer"] = self.ticker.handle.pointer
        self.server = self.create_service(Trigger, "answer", self.on_service)
        self.handles["service"] = self.server.handle.pointer
        self.client = self.create_client(Trigger, "answer")
        self.silent = self.create_timer(1000.0, None)

    def count(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1

    def on_method(self, message):
        self.count("method")

    def on_raises(self, message):
        self.count("raises")
        raise BoomError

    def on_info(self, message, info):
        assert info["source_timestamp"] > 0
        self.count("info")

    async def on_coroutine(self, message):
        future = Future()
        self.waiting.append(future)
        await future
        self.count("coroutine")

    def on_raw(self, data):
        assert isinstance(data, bytes)
        self.count("raw")

    def on_service(self, request, response):
        self.count("service")
        return response

    def on_timer(self):
        self.count("timer")
        for future in self.waiting:
            if not future.done():
                future.set_result(None)
        if self.published < ROUNDS:
            self.published += 1
            for sender in self.senders.values():
                sender.publish(String(data="x"))
            self.client.call_async(Trigger.Request())
            try:
                self.senders["method"].publish(3)
            except TypeError:
                self.count("refused")

    def is_done(self):
        wanted = [*self.senders, "service"]
        return all(self.counts.get(name, 0) >= ROUNDS for name in wanted)


def main():
    rclpy.init()
    name = sys.argv[1]
    if name == "Events":
        from rclpy.experimental import EventsExecutor

        executor = EventsExecutor()
    else:
        executor = {
            "SingleThreaded": SingleThreadedExecutor,
            "MultiThreaded": MultiThreadedExecutor,
        }[name]()
    node = Entities()
    while not all(sender.get_subscription_count() for sender in node.senders.values()):
        time.sleep(0.005)
    while not node.client.service_is_ready():
        time.sleep(0.005)
    executor.add_node(node)
    give_up = time.monotonic() + 20
    while not node.is_done() and time.monotonic() < give_up:
        with contextlib.suppress(BoomError):
            executor.spin_once(timeout_sec=0.2)
    node.ticker.cancel()
    # Callbacks still running on a pool's threads end before the counts are printed.
    executor.shutdown()
    print(json.dumps({"counts": node.counts, "handles": node.handles, "done": node.is_done()}))
    rclpy.try_shutdown()


main()
