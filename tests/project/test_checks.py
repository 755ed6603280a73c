"""Test style, types and layering."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "command",
    [
        ("-m", "ruff", "check", "."),
        ("-m", "ruff", "format", "--check", "."),
        ("-m", "mypy"),
        ("-c", "import sys; from importlinter.cli import lint_imports_command as c; sys.exit(c())"),
    ],
    ids=["ruff", "format", "types", "imports"],
)
def test_check_is_clean(command: tuple[str, ...]) -> None:
    run = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
