"""Messages of many types and sizes: LOG; the log has what was published.

Its rows: topic, type, and the length that the middleware's own serialization gives.
"""

import sys
import time
from pathlib import Path

import rclpy
from rclpy.serialization import serialize_message
from std_msgs.msg import Bool, Empty, Header, String, UInt8MultiArray
from test_msgs.msg import Arrays, Nested, Strings, UnboundedSequences, WStrings


def main(log: Path) -> None:
    rclpy.init()
    node = rclpy.create_node("typed")
    texts = [Strings(string_value="x" * number) for number in range(20)]
    messages = [
        *([Empty()], [Bool(data=True)], [String(data="é" * 2**number) for number in range(20)]),
        *([Header(frame_id="f" * number) for number in range(9)], texts, [Arrays()], [Nested()]),
        [WStrings(wstring_value="ab" * number) for number in range(5)],
        [UnboundedSequences(string_values=["y" * n for n in range(number)]) for number in range(9)],
        [UInt8MultiArray(data=bytes(number)) for number in (0, 1, 1000, 65_535, 1_000_000)],
    ]
    rows = ["topic,type,size"]
    heard = []
    for number, some in enumerate(messages):
        topic, kind = f"/typed_{number}", type(some[0])
        publisher = node.create_publisher(kind, topic, 100)
        node.create_subscription(kind, topic, heard.append, 100)
        name = f"{kind.__module__.split('.')[0]}/msg/{kind.__name__}"
        for message in some:
            publisher.publish(message)
            rows.append(f"{topic},{name},{len(serialize_message(message))}")
    until = time.monotonic() + 2
    while time.monotonic() < until:
        rclpy.spin_once(node, timeout_sec=0.1)
    log.write_text("\n".join(rows) + "\n")
    node.destroy_node()
    rclpy.shutdown()


main(Path(sys.argv[1]))
