"""Test that other users cannot reach the processes that work for us, nor reports' kernels."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest
from tests.programs import gone, wait_for

from roslens.execution import execute
from roslens.fleet.cluster import Workers, each

pytestmark = pytest.mark.timeout(240)


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
            inode = link.resolve().name  # which raises nothing if it was closed meanwhile
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
    wait_for(lambda: gone(worker))


CELL = """
import os, json
from ipykernel.kernelapp import IPKernelApp
inodes = {os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
          if os.path.exists(f"/proc/self/fd/{fd}") or os.path.islink(f"/proc/self/fd/{fd}")}
listening = [row.split() for name in ("tcp", "tcp6") for row in open(f"/proc/net/{name}")
             if row.split()[3] == "0A"]
mine = [row[1] for row in listening if f"socket:[{row[9]}]" in inodes]
app = IPKernelApp.instance()
folder = os.path.dirname(app.ip)
print(json.dumps({"mine": mine, "transport": app.transport, "folder": folder,
                  "mode": os.stat(folder).st_mode & 0o777,
                  "sockets": len(os.listdir(folder))}))
"""


def test_the_kernel_of_a_report_has_no_port(tmp_path: Path) -> None:
    if not Path("/proc/net/tcp").exists():
        pytest.skip("no /proc")
    cell = nbformat.v4.new_code_cell(CELL)
    source = tmp_path / "n.ipynb"
    notebook = nbformat.v4.new_notebook(cells=[cell])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "x", "language": "python"}
    nbformat.write(notebook, source)
    done = execute(source, tmp_path / "out.ipynb", {})
    answer = json.loads(done.cells[-1].outputs[0]["text"])
    assert answer["mine"] == []
    assert answer["transport"] == "ipc"
    assert answer["mode"] == 0o700
    assert answer["sockets"] >= 5
    assert not Path(answer["folder"]).exists()
