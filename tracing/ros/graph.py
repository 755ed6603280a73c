"""Look once at the ROS graph that a running program belongs to."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from roslens.recording.files import shipped
from roslens.tracing.ftrace.names import GraphEndpoint
from roslens.tracing.native_tracer.library import FOLDER_VARIABLE
from roslens.tracing.proc import environment as environment_of

_SCRIPT = shipped("tracing", "ros", "graph_look.py")
_MATTERS = re.compile(r"ROS_|RMW_|CYCLONE|FAST|ZENOH|AMENT_|PATH$|PYTHON|LD_")
_LONGEST_SECONDS = 20.0
_NO_RCLPY = 3
_ASK = f"import importlib.util, sys; importlib.util.find_spec('rclpy') or sys.exit({_NO_RCLPY})\n"


def look_at_graph(pids: Iterable[int]) -> list[GraphEndpoint]:
    """Return the endpoints visible to programs with the same environments and users.

    Parameters
    ----------
    pids
        Running programs, whose environments determine the middleware and the domain.

    Returns
    -------
    list of GraphEndpoint
        Empty if the graph is not available, for instance if no Python there has rclpy.
    """
    looks: dict[tuple[object, ...], tuple[int, dict[str, str], int, int]] = {}
    for pid in pids:
        with suppress(OSError):
            if Path(f"/proc/{pid}/ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink():
                continue
            environment = environment_of(pid)
            environment.pop(FOLDER_VARIABLE, None)
            # Shared memory of Fast DDS would remain there for as long as the programs run.
            environment.setdefault("FASTDDS_BUILTIN_TRANSPORTS", "UDPv4")
            owner = Path(f"/proc/{pid}").stat()
            same = sorted(pair for pair in environment.items() if _MATTERS.match(pair[0]))
            look = (pid, environment, owner.st_uid, owner.st_gid)
            looks.setdefault((owner.st_uid, *same), look)
    by_gid: dict[str, GraphEndpoint] = {}
    for look in looks.values():
        by_gid |= {endpoint.gid: endpoint for endpoint in _query_graph(*look)}
    return list(by_gid.values())


def _query_graph(
    pid: int, environment: dict[str, str], user: int, group: int
) -> list[GraphEndpoint]:
    # Never use more rights than the program has: its environment determines what is loaded.
    less = ("setpriv", f"--reuid={user}", f"--regid={group}", "--clear-groups", "--")
    lead = less if user != os.geteuid() else ()
    for python in _pythons(pid, environment):
        with suppress(OSError, subprocess.SubprocessError):
            done = subprocess.run(
                [*lead, python, "-c", _ASK + _SCRIPT.read_text(encoding="utf-8")],
                env=environment,
                cwd="/",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_LONGEST_SECONDS,
                check=False,
            )
            if done.returncode == 0 and done.stdout:
                with suppress(ValidationError):
                    line = done.stdout.splitlines()[-1]
                    return TypeAdapter(list[GraphEndpoint]).validate_json(line)
    return []


def _pythons(pid: int, environment: dict[str, str]) -> Iterator[str]:
    """Yield interpreters that may have rclpy: the program's own, of its PATH, of its prefixes."""
    with suppress(OSError):
        first = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
        # As it was called, because this path identifies a virtual environment.
        if Path(first).name.startswith("python") and Path(first).is_absolute():
            yield first
    for folder in environment.get("PATH", "").split(":"):
        if folder.startswith("/") and os.access(f"{folder}/python3", os.X_OK):
            yield f"{folder}/python3"
            break
    for folder in environment.get("AMENT_PREFIX_PATH", "").split(":"):
        if folder.startswith("/") and os.access(f"{folder}/bin/python", os.X_OK):
            yield f"{folder}/bin/python"
