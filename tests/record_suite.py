"""Records suites that ship with roslens, through its command line."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from roslens.tracing.suite import suite_path


def changed(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """A suite that ships with roslens, changed; of levels that it then lacks it says nothing."""
    suite: dict[str, Any] = yaml.safe_load(suite_path(name).read_text()) | dict(changes)
    suite["levels"] = {
        factor: {level: told for level, told in levels.items() if level in suite["factors"][factor]}
        for factor, levels in suite.get("levels", {}).items()
        if factor in suite["factors"]
    }
    return suite


def record_changed(name: str, folder: Path, changes: Mapping[str, Any]) -> Path:
    """Record a suite, changed; the folder of the recordings."""
    file = folder / "suite.yaml"
    file.write_text(yaml.safe_dump(changed(name, changes)))
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
