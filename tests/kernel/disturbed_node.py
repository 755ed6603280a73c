"""Run a node whose callbacks are disturbed on purpose, and log how; see `main`.

Three processes run beside the node, which has the last CPU: one publishes, one burns on the node's
CPU with a real-time priority, and one holds the lock that each callback takes.
"""

import csv
import fcntl
import os
import sys
import time
from pathlib import Path

from talker import listen, spin, talk

SECONDS, PERIOD, SPIN = float(os.environ.get("SECONDS", "6")), 0.02, 0.004


def named(name: str, cpu: int) -> None:
    Path("/proc/self/comm").write_text(name)
    os.sched_setaffinity(0, {cpu})


def until(moment: float) -> None:
    time.sleep(max(0.0, moment - time.monotonic()))


def burn(cpu: int, end: float, log: Path) -> None:
    named("burner", cpu)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    rows = []
    while time.monotonic() < end:
        time.sleep(0.007)
        begin = time.time_ns()
        stop = time.monotonic() + 0.003
        while time.monotonic() < stop:
            pass
        rows.append((begin, time.time_ns()))
    write(log, ("begin_ns", "end_ns"), rows)


def hold(cpu: int, end: float, lock: Path) -> None:
    named("holder", cpu)
    with lock.open("w") as stream:
        while time.monotonic() < end:
            fcntl.flock(stream, fcntl.LOCK_EX)
            time.sleep(0.004)
            fcntl.flock(stream, fcntl.LOCK_UN)
            time.sleep(0.009)


def work(cpu: int, end: float, lock: Path, log: Path) -> None:
    rows = []
    stream = lock.open("w")

    def heard(message: object) -> None:
        cpu_ns, begin = time.thread_time_ns(), time.time_ns()
        fcntl.flock(stream, fcntl.LOCK_EX)
        locked, lock_cpu = time.time_ns(), time.thread_time_ns()
        fcntl.flock(stream, fcntl.LOCK_UN)
        spin(SPIN)
        spun = time.time_ns()
        own_cpu = time.thread_time_ns() - cpu_ns
        rows.append((message.data, begin, locked, spun, lock_cpu - cpu_ns, own_cpu))

    listen(cpu, end, heard)
    write(log, ("number", "begin_ns", "locked_ns", "spun_ns", "lock_cpu_ns", "own_cpu_ns"), rows)


def write(path: Path, header: tuple[str, ...], rows: list[tuple]) -> None:
    with path.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])


def main() -> None:
    """Write callbacks.csv and burns.csv into ``$ROSLENS_NATIVE_DIR``."""
    folder = Path(os.environ["ROSLENS_NATIVE_DIR"])
    cpus = sorted(os.sched_getaffinity(0))
    end = time.monotonic() + SECONDS
    lock = folder / "lock"
    lock.touch()
    roles = [
        lambda: (named("talker", cpus[0]), talk(cpus[0], end, PERIOD)),
        lambda: burn(cpus[-1], end, folder / "burns.csv"),
        lambda: hold(cpus[0], end, lock),
    ]
    children = []
    for role in roles:
        child = os.fork()
        if child == 0:
            role()
            os._exit(0)
        children.append(child)
    work(cpus[-1], end, lock, folder / "callbacks.csv")
    codes = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(any(codes))


main()
