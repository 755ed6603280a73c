"""Resolve paths that users give."""

from __future__ import annotations

import os
from pathlib import Path

from roslens.recording.files import shipped

PathLike = str | os.PathLike[str]


def resolve(path: PathLike) -> Path:
    """Return `path`, or its match below a parent of the working directory or in shipped data."""
    wanted = Path(path).expanduser()
    if wanted.is_absolute() or wanted.exists():
        return wanted
    folder = Path.cwd()
    for base in (*folder.parents, shipped()):
        if (base / wanted).exists():
            return base / wanted
    return wanted
