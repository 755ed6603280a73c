"""What rclpy's events cost: CPU ns per callback and per publish(), off, on, and recorded.

``python benchmarks/instrumentation_cost.py [--processes N] [--calls N]``

* off: rclpy unchanged, with libtracetools loaded, nothing recorded;
* on: rclpy instrumented, nothing recorded;
* recorded off: ROS's own events recorded, rclpy not instrumented;
* recorded on: everything recorded.

Times are CPU time of the calling thread. Each process gives the median of its bursts; intervals
(95 %, Student t) are over processes, in randomised order. A callback causes two events, a publish()
one event more than ROS itself records.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tracer_cost import text

from roslens.analysis.statistics.over_runs import student_t
from roslens.tracing.lttng import TracingOptions, recording_session, session_daemon
from roslens.tracing.ros import embedded_ros

NODE = Path(__file__).with_name("_rclpy_calls.py")
MODES = {
    "off": (False, False),
    "on": (False, True),
    "recorded off": (True, False),
    "recorded on": (True, True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=8, help="for each mode")
    parser.add_argument("--calls", type=int, default=2000, help="in each burst")
    options = parser.parse_args()
    ros = embedded_ros(print)
    preload = ros.preload()
    order = [mode for mode in MODES for _ in range(options.processes)]
    random.Random(1).shuffle(order)
    by_mode: dict[str, list[dict[str, float]]] = {mode: [] for mode in MODES}
    discarded = 0
    with tempfile.TemporaryDirectory() as scratch, session_daemon() as daemon:
        for number, mode in enumerate(order):
            recorded, traced = MODES[mode]
            folder = Path(scratch) / str(number)
            with ros.isolated(folder / "log") as isolated, ExitStack() as stack:
                session = None
                if recorded:
                    session = stack.enter_context(
                        recording_session(daemon, TracingOptions(kernel="off"), folder / "trace")
                    )
                output = subprocess.check_output(
                    isolated.command(NODE, str(options.calls), trace_rclpy=traced),
                    env=isolated.process_environment(preload=preload) | daemon.workload_variables,
                    text=True,
                )
            if session is not None:
                discarded += session.loss.discarded_events or 0
            by_mode[mode].append(json.loads(output))
    print(f"{options.processes} processes for each mode, {discarded} events discarded")
    print(f"{'':14}{'callback [ns]':>24}{'publish() [ns]':>24}")
    for mode, results in by_mode.items():
        cells = [
            text(student_t([result[field] for result in results]))
            for field in ("callback", "publish")
        ]
        print(f"{mode:14}{cells[0]:>24}{cells[1]:>24}")


if __name__ == "__main__":
    main()
