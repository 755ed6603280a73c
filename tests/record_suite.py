"""Record suites that ship with roslens, through its command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tests.programs import roslens

from roslens.tracing.suite import suite_path


def changed(name: str, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return a changed copy of a suite that ships with roslens, without levels it no longer has."""
    suite: dict[str, Any] = yaml.safe_load(suite_path(name).read_text()) | dict(changes)
    suite["levels"] = {
        factor: {level: told for level, told in levels.items() if level in suite["factors"][factor]}
        for factor, levels in suite.get("levels", {}).items()
        if factor in suite["factors"]
    }
    return suite


def record_changed(name: str, folder: Path, changes: Mapping[str, Any]) -> Path:
    """Record a changed suite, and return the folder of its recordings."""
    file = folder / "suite.yaml"
    file.write_text(yaml.safe_dump(changed(name, changes)))
    done = roslens("record", "--suite", file, "-o", folder / "recordings", timeout=180)
    assert done.returncode == 0, done.stderr
    return folder / "recordings"
