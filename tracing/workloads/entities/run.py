"""One process with a number of idle entities, to see what each takes of memory.

``python3 run.py --entity publisher --count 10 --seconds 2 --output FOLDER``

``--count`` entities of one kind are created next to a node, then nothing happens for
``--seconds``. Written into FOLDER: ``entities.json``: entity, count.

Exit status: 0 done; 128 + N ended by signal N. The file named by ``ROSLENS_READY_FILE`` is created
when all entities exist.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import rclpy_side as side  # type: ignore[import-not-found]  # in the folder above

KINDS = ("node", "publisher", "subscription", "service", "client", "timer")
NEVER_SECONDS = 1e6


def create(kind: str, node: Any) -> Callable[[int], Any]:
    """Return a function that creates the n-th entity of a kind."""
    import rclpy  # noqa: PLC0415 (only in ROS)
    from std_msgs.msg import String  # noqa: PLC0415
    from std_srvs.srv import Trigger  # noqa: PLC0415

    creators: dict[str, Callable[[int], Any]] = {
        "node": lambda n: rclpy.create_node(f"node_{n}"),
        "publisher": lambda n: node.create_publisher(String, f"/topic_{n}", 10),
        "subscription": lambda n: node.create_subscription(String, f"/topic_{n}", print, 10),
        "service": lambda n: node.create_service(Trigger, f"/service_{n}", lambda _, r: r),
        "client": lambda n: node.create_client(Trigger, f"/service_{n}"),
        "timer": lambda _: node.create_timer(NEVER_SECONDS, print),
    }
    return creators[kind]


def main() -> int:
    """Run the process; return its exit status."""
    parser = side.parser(__doc__.splitlines()[0], rate=1.0, seconds=2.0)
    parser.add_argument("--entity", choices=KINDS, default="publisher")
    parser.add_argument("--count", type=int, default=1)
    options = side.parse(parser)
    if options.count < 0:
        parser.error("--count is at least 0")
    with side.nodes("entities") as (stop, (node,)):
        creator = create(options.entity, node)
        entities = [creator(number) for number in range(options.count)]
        side.say_ready()
        end = time.monotonic() + options.seconds
        while not stop.signal and time.monotonic() < end:
            time.sleep(0.02)
        facts = {"entity": options.entity, "count": len(entities)}
        (options.output / "entities.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")
        if options.entity == "node":
            for entity in entities:
                entity.destroy_node()
    return int(stop.status)


if __name__ == "__main__":
    sys.exit(main())
