"""The benchmark's program, compiled once for all tests (debug: what is tested is what it does)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from storage_cells import ROOT, RUN, Cell, Done

from roslens.recording import UsageError
from roslens.tracing.workloads.storage.prepare import PROGRAM, PROGRAM_VARIABLE, find_cargo


@pytest.fixture(scope="session")
def program() -> Path:
    try:
        cargo, variables = find_cargo()
    except UsageError:
        pytest.skip("cargo is not installed")
    environment = {**os.environ, **variables}
    subprocess.run(
        [cargo, "build", "--quiet", "--locked", "--package", PROGRAM],
        cwd=ROOT,
        env=environment,
        check=True,
    )
    target = Path(environment.get("CARGO_TARGET_DIR", ROOT / "target"))
    return target / "debug" / PROGRAM


@pytest.fixture
def cell(program: Path, tmp_path: Path) -> Cell:
    """Runs one cell; the arguments are options of run.py without their dashes."""

    def run(prefix: tuple[str, ...] = (), **options: object) -> Done:
        folder = tmp_path / "native"
        folder.mkdir(exist_ok=True)
        given = {
            "plugin_config": "mcap_default",
            "message_size": "10KiB",
            "batch_size": "1KiB",
            "bytes": "2MiB",
            "output": folder,
            **options,
        }
        arguments = [text for name, value in given.items() for text in (f"--{name}", str(value))]
        done = subprocess.run(
            [*prefix, sys.executable, str(RUN), *arguments],
            env={**os.environ, PROGRAM_VARIABLE: str(program)},
            text=True,
            capture_output=True,
            check=False,
        )
        return Done(done.returncode, done.stderr, folder)

    return run
