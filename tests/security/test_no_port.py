"""Test that a report's kernel has no listening sockets while a cell runs, by /proc."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from roslens.execution import execute

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
