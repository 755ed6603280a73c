"""Test the noxfile on a machine that lacks things: it says what to install and runs nothing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def called(expression: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Call a function of the noxfile; before a session, nox itself need not be installed."""
    program = (
        "import sys, types; sys.modules['nox'] = types.SimpleNamespace("
        "options=types.SimpleNamespace(), project=types.SimpleNamespace(load_toml=lambda p: {}),"
        f"session=lambda f: f, Session=None); import noxfile; noxfile.{expression}"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_missing_packages_give_the_lines_to_run(tmp_path: Path) -> None:
    run = called("need(*noxfile.TESTING)", PATH=str(tmp_path))
    assert run.returncode == 2, run.stderr
    assert "sudo apt-get install -y build-essential lttng-tools liblttng-ust-dev" in run.stderr
    assert "sudo dnf install -y gcc gcc-c++ lttng-tools lttng-ust-devel" in run.stderr
    assert "conda-forge has neither lttng-tools" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.mark.skipif(shutil.which("rustup") is None, reason="rustup is not installed")
def test_rustup_without_a_toolchain_gives_one_line(tmp_path: Path) -> None:
    run = called("check_cargo('1.88')", RUSTUP_HOME=str(tmp_path), RUSTUP_TOOLCHAIN="")
    assert run.returncode == 1
    assert len(run.stderr.splitlines()) == 1
    assert run.stderr.startswith("roslens: cargo does not run: ")
    assert "rustup default stable" in run.stderr


@pytest.mark.parametrize(("version", "code"), [("1.63.0", 1), ("1.88.0", 0), ("2.0.0-nightly", 0)])
def test_a_cargo_that_is_too_old_gives_one_line(tmp_path: Path, version: str, code: int) -> None:
    """A script that prints a version stands for old ones, which cannot be installed here."""
    cargo = tmp_path / "cargo"
    cargo.write_text(f"#!/bin/sh\necho cargo {version}\n")
    cargo.chmod(0o755)
    run = called("check_cargo('1.88')", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert run.returncode == code, run.stderr
    assert len(run.stderr.splitlines()) == code
    assert code == 0 or "cargo 1.63.0 is older than 1.88" in run.stderr


def test_without_cargo_one_is_fetched(tmp_path: Path) -> None:
    assert called("check_cargo('1.88')", PATH=str(tmp_path)).returncode == 0
