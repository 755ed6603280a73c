"""The noxfile on a machine that lacks things: it says what to install and runs nothing."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_missing_packages_give_the_lines_to_run(tmp_path: Path) -> None:
    # nox itself need not be there for this: only what it does before it starts a session.
    program = (
        "import sys, types; sys.modules['nox'] = types.SimpleNamespace("
        "options=types.SimpleNamespace(), project=types.SimpleNamespace(load_toml=lambda p: {}),"
        "session=lambda f: f, Session=None);"
        "import noxfile; noxfile.need(*noxfile.TESTING)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2, run.stderr
    assert "sudo apt-get install -y build-essential lttng-tools liblttng-ust-dev" in run.stderr
    assert "sudo dnf install -y gcc gcc-c++ lttng-tools lttng-ust-devel" in run.stderr
    assert "conda-forge has neither lttng-tools" in run.stderr
    assert "Traceback" not in run.stderr
