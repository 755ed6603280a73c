"""Run a node on one CPU whose timer interrupts that CPU all the time, and log how often.

The timer's signal goes to the node itself, so that no other thread is needed to set it again. A
second process, on another CPU if there is one, publishes.
"""

import csv
import os
import signal
import sys
import time
from pathlib import Path

from talker import listen, spin, talk

SECONDS, PERIOD, SPIN, TIMER = 4.0, 0.02, 0.004, 0.0002


def work(cpu: int, end: float, log: Path) -> None:
    rows = []
    fired = 0

    def count(*_: object) -> None:
        nonlocal fired
        fired += 1

    def heard(message: object) -> None:
        before, begin = fired, time.time_ns()
        spin(SPIN)
        rows.append((message.data, begin, fired - before, time.time_ns()))

    signal.signal(signal.SIGALRM, count)
    listen(cpu, end, heard, lambda: signal.setitimer(signal.ITIMER_REAL, TIMER, TIMER))
    signal.setitimer(signal.ITIMER_REAL, 0)
    with log.open("w", newline="") as stream:
        csv.writer(stream).writerows([("number", "begin_ns", "fired", "spun_ns"), *rows])


def main() -> None:
    """Write callbacks.csv into ``$ROSLENS_NATIVE_DIR``."""
    cpus = sorted(os.sched_getaffinity(0))
    end = time.monotonic() + SECONDS
    child = os.fork()
    if child == 0:
        talk(cpus[0], end, PERIOD)
        os._exit(0)
    work(cpus[-1], end, Path(os.environ["ROSLENS_NATIVE_DIR"]) / "callbacks.csv")
    sys.exit(os.waitpid(child, 0)[1])


main()
