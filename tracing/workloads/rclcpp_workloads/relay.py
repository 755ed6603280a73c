"""Connect two networks only by a relay in user space, which delays frames as requested.

Needs root and ``ip``. The only link between the two is this process: it reads frames from one TAP
device and writes them to the other, and logs when each frame came and went.
"""

from __future__ import annotations

import csv
import fcntl
import os
import select
import struct
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

_SET_DEVICE, _TAP, _NO_HEADER = 0x400454CA, 0x0002, 0x1000
_LONGEST_FRAME = 65536
_AHEAD_NS, _WINDOW_NS = 1_000_000, 5_000_000


class Relay:
    """A relay that holds frames to the second network if they come when a message is due.

    Attributes
    ----------
    networks
        Names of both networks, for ``ip netns exec``.
    """

    def __init__(self, stack: ExitStack, step_ns: int, hold_ns: int) -> None:
        self.step_ns, self.hold_ns = step_ns, hold_ns
        self.networks = [f"roslens_{os.getpid()}_{side}" for side in "ab"]
        self._devices = []
        self._log: list[tuple[int, int, int, int]] = []
        self._stop = threading.Event()
        for number, name in enumerate(self.networks, 1):
            _ip("netns", "add", name)
            stack.callback(_ip, "netns", "del", name)
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            stack.callback(os.close, device)
            called = f"rl{os.getpid()}_{number}"
            request = struct.pack("16sH", called.encode(), _TAP | _NO_HEADER)
            fcntl.ioctl(device, _SET_DEVICE, request)
            _ip("link", "set", called, "netns", name)
            _ip("-n", name, "addr", "add", f"10.99.0.{number}/24", "dev", called)
            for interface in ("lo", called):
                _ip("-n", name, "link", "set", interface, "up", "multicast", "on")
            _ip("-n", name, "route", "add", "default", "dev", called)
            self._devices.append(device)
        thread = threading.Thread(target=self._run, name="relay")
        thread.start()
        stack.callback(thread.join)
        stack.callback(self._stop.set)

    def _run(self) -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        held: deque[tuple[int, int, bytes]] = deque()
        while not self._stop.is_set():
            wait = max(held[0][1] - time.time_ns(), 0) / 1e9 if held else 0.1
            ready, _, _ = select.select(self._devices, [], [], min(wait, 0.1))
            for device in ready:
                frame, now = os.read(device, _LONGEST_FRAME), time.time_ns()
                if device != self._devices[0]:
                    self._pass_on(1, now, frame)
                    continue
                since = (now + _AHEAD_NS) % self.step_ns
                until = now + self.hold_ns if since < _WINDOW_NS else now
                held.append((now, max(until, held[-1][1] if held else 0), frame))
            while held and held[0][1] <= time.time_ns():
                came, _, frame = held.popleft()
                self._pass_on(0, came, frame)

    def _pass_on(self, side: int, came: int, frame: bytes) -> None:
        try:
            os.write(self._devices[1 - side], frame)
        except OSError:  # the network is not up yet, or no longer
            return
        self._log.append((side, len(frame), came, time.time_ns()))

    def write(self, folder: Path) -> None:
        """Write all frames to ``packets.csv``, and held frames to ``injections.csv``."""
        with (folder / "packets.csv").open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(("side", "bytes", "came_realtime_ns", "went_realtime_ns"))
            rows.writerows(self._log)
        with (folder / "injections.csv").open("w", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(("cause", "begin_realtime_ns", "end_realtime_ns", "vtid"))
            for side, _, came, went in self._log:
                if side == 0 and went - came >= self.hold_ns:
                    rows.writerow(("relay", came, went, os.getpid()))


@contextmanager
def relay(step_ns: int, hold_ns: int) -> Iterator[Relay]:
    """Yield networks with a relay between them.

    Parameters
    ----------
    step_ns
        Frames are held if they come from 1 ms before to 4 ms after each multiple of this.
    hold_ns
        Nanoseconds for which frames are held.

    Raises
    ------
    OSError
        The networks cannot be created.
    """
    with ExitStack() as stack:
        yield Relay(stack, step_ns, hold_ns)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
