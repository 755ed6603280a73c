"""Records suites that ship with roslens, through its command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from roslens.tracing.suite import SHIPPED


def record_changed(name: str, folder: Path, changes: Mapping[str, Any]) -> Path:
    """Record a suite, changed; the folder of the recordings."""
    suite = yaml.safe_load((SHIPPED / f"{name}.yaml").read_text())
    file = folder / "suite.yaml"
    file.write_text(yaml.safe_dump(suite | dict(changes)))
    command = [sys.executable, "-m", "roslens", "record", "--suite", str(file)]
    done = subprocess.run(
        [*command, "-o", str(folder / "recordings")],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "recordings"
