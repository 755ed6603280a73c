"""Send action goals, several at a time, that end in every way: COUNT LOG [GO].

The log has what the client was told; LOG.ready exists once the server is known. With GO, nothing is
sent before this file exists, and the program ends when it is gone. The order of a goal says how it
ends: 0 succeeds, 1 is cancelled, 2 is aborted, 3 is rejected.
"""

import sys
import threading
import time
from pathlib import Path

import rclpy
from rclpy.action import ActionClient, ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import MultiThreadedExecutor
from test_msgs.action import Fibonacci

NAMES = {4: "succeeded", 5: "canceled", 6: "aborted"}


def execute(goal) -> Fibonacci.Result:
    if goal.request.order == 1:
        while not goal.is_cancel_requested:
            time.sleep(0.001)
        goal.canceled()
    else:
        time.sleep(0.01)
        goal.succeed() if goal.request.order == 0 else goal.abort()
    return Fibonacci.Result()


def answered(goal) -> GoalResponse:
    return GoalResponse.REJECT if goal.order == 3 else GoalResponse.ACCEPT


def main(count: int, log: Path, go: Path | None) -> None:
    rclpy.init()
    serving, asking = (rclpy.create_node(name) for name in ("server", "client"))
    ActionServer(
        serving, Fibonacci, "/ends", execute, callback_group=ReentrantCallbackGroup(),
        goal_callback=answered, cancel_callback=lambda _: CancelResponse.ACCEPT,
    )  # fmt: skip
    client = ActionClient(asking, Fibonacci, "/ends")
    executor = MultiThreadedExecutor(4)
    executor.add_node(serving)
    executor.add_node(asking)
    spinning = threading.Thread(target=executor.spin, daemon=True)
    spinning.start()
    client.wait_for_server()
    Path(f"{log}.ready").touch()
    while go and not go.exists():
        time.sleep(0.01)
    # The queue of an action's services drops requests beyond ten.
    rows, room = [], threading.Semaphore(8)

    def noted(goal_id: str, outcome: str) -> None:
        rows.append(f"{goal_id},{outcome}")
        room.release()

    def accepted(future, order: int) -> None:
        goal = future.result()
        goal_id = bytes(goal.goal_id.uuid).hex()
        if not goal.accepted:
            noted(goal_id, "rejected")
            return
        result = goal.get_result_async()
        result.add_done_callback(lambda done: noted(goal_id, NAMES[done.result().status]))
        if order == 1:
            goal.cancel_goal_async()

    for number in range(count):
        room.acquire()
        order = number % 4
        sent = client.send_goal_async(Fibonacci.Goal(order=order))
        sent.add_done_callback(lambda future, order=order: accepted(future, order))
        time.sleep(0.005)
    until = time.monotonic() + 30
    while len(rows) < count and time.monotonic() < until:
        time.sleep(0.05)
    log.write_text("\n".join(["goal_id,outcome", *rows]) + "\n")
    while go and go.exists():
        time.sleep(0.01)
    executor.shutdown()
    # A thread of rclpy that outlives the interpreter aborts the program.
    spinning.join()
    for node in (serving, asking):
        node.destroy_node()
    rclpy.shutdown()


main(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]) if sys.argv[3:] else None)
