"""Test that other users of the machine cannot reach the processes that do our work."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from roslens.fleet.cluster import Workers, each

pytestmark = pytest.mark.timeout(120)


def doors(_: int) -> list[str]:
    """Return the ports and named sockets on which this process and its parent listen."""
    family = [psutil.Process(), psutil.Process(os.getppid())]
    listening = [
        str(connection.laddr)
        for process in family
        for connection in process.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN or connection.laddr
    ]
    named = {line.split()[6]: line.split()[7] for line in _unix_sockets() if len(line.split()) > 7}
    for process in family:
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            inode = str(link.readlink()) if link.is_symlink() else ""
            listening += [name for number, name in named.items() if inode == f"socket:[{number}]"]
    return listening


def _unix_sockets() -> list[str]:
    return Path("/proc/net/unix").read_text().splitlines()[1:]


def test_nothing_listens() -> None:
    """The kernel's lists show no listener; with a test socket they do."""
    answers = dict(each(doors, [0, 1, 2], Workers(2)))
    assert answers == {0: [], 1: [], 2: []}
    with socket.create_server(("127.0.0.1", 0)):
        listening = dict(each(doors, [0, 1], Workers(2)))
    assert all(listening.values())


INTRUDER = """
import os, sys
os.setgroups([]); os.setgid(65534)
os.setuid(65534)
tried = []
for pid in map(int, sys.argv[1:]):
    for name in os.listdir("/proc/%d/fd" % pid) if os.access("/proc/%d/fd" % pid, os.R_OK) else []:
        tried.append(name)
        open("/proc/%d/fd/%s" % (pid, name), "r+b")
    try:
        open("/proc/%d/mem" % pid, "r+b")
        print("memory of", pid)
    except OSError:
        pass
print("tried", len(tried))
"""


def attacked(_: int) -> str:
    """Return what another user who knows the processes' numbers can reach."""
    pids = [str(os.getpid()), str(os.getppid())]
    command = [sys.executable, "-I", "-S", "-c", INTRUDER, *pids]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    return done.stdout + done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs root")
def test_another_user_gets_at_nothing() -> None:
    assert dict(each(attacked, [0, 1], Workers(2))) == {0: "tried 0\n", 1: "tried 0\n"}


def test_they_end_with_who_started_them(tmp_path: Path) -> None:
    """A parent killed midway leaves no process behind, as their pipe then has no other end."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import os, neighbours_child as t\n"
        "if __name__ == '__main__': t.run()\n"
    )
    (tmp_path / "neighbours_child.py").write_text(
        "import os, signal\n"
        "from roslens.fleet.cluster import Workers, each\n"
        "def pid(_): return os.getpid()\n"
        "def run():\n"
        "    for _, found in each(pid, list(range(8)), Workers(2)):\n"
        "        print(found, flush=True)\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    (tmp_path / "main.py").write_text(code)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "main.py"), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    worker = int(done.stdout)
    try:
        psutil.Process(worker).wait(20)
    except psutil.NoSuchProcess:
        return
