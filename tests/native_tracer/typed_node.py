"""Publish messages of many types and sizes: LOG; the log has what was published.

Its rows: topic, type, the length that a subscription of serialized messages was given, the length
that rmw_serialize gives, and the stamp [ns].
"""

import sys
import time
from pathlib import Path

import rclpy
from builtin_interfaces.msg import Time
from rcl_interfaces.msg import ParameterEvent
from rclpy.serialization import serialize_message
from std_msgs.msg import Bool, Empty, Header, String, UInt8MultiArray
from test_msgs.msg import Arrays, Nested, Strings, UnboundedSequences, WStrings


def main(log: Path) -> None:
    rclpy.init()
    node = rclpy.create_node("typed")
    texts = [Strings(string_value="x" * number) for number in range(20)]
    stamped = [ParameterEvent(node="n" * number) for number in range(5)]
    messages = [
        *([Empty()], [Bool(data=True)], [String(data="é" * 2**number) for number in range(20)]),
        *([Header(frame_id="f" * number) for number in range(9)], texts, [Arrays()], [Nested()]),
        *(stamped, [Time(sec=7)]),
        [WStrings(wstring_value="ab" * number) for number in range(5)],
        [UnboundedSequences(string_values=["y" * n for n in range(number)]) for number in range(9)],
        [UInt8MultiArray(data=bytes(number)) for number in (0, 1, 1000, 65_535, 1_000_000)],
    ]
    rows, heard = [], []
    for number, of_topic in enumerate(messages):
        topic, kind = f"/typed_{number}", type(of_topic[0])
        node.create_subscription(kind, topic, heard.append, 100, raw=True)
        publisher = node.create_publisher(kind, topic, 100)
        while not publisher.get_subscription_count():
            time.sleep(0.01)
        name = f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}"
        for message in of_topic:
            stamp = getattr(message, "stamp", None)
            if stamp and number % 5:
                stamp.sec, stamp.nanosec = divmod(time.time_ns(), 10**9)
            publisher.publish(message)
            stamp_ns = stamp.sec * 10**9 + stamp.nanosec if stamp else 0
            while len(heard) == len(rows):
                rclpy.spin_once(node, timeout_sec=0.1)
            lengths = f"{len(heard[-1])},{len(serialize_message(message))}"
            rows.append(f"{topic},{name},{lengths},{stamp_ns or ''}")
    log.write_text("\n".join(["topic,type,heard,serialized,stamp", *rows]) + "\n")
    node.destroy_node()
    rclpy.shutdown()


main(Path(sys.argv[1]))
