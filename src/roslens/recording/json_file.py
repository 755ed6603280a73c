"""Read JSON that people and other tools write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roslens.recording.errors import UsageError

LARGEST = 32 << 20
"""The maximum size of a file in bytes; its values can take thirty times as much memory."""


def read_json(path: Path) -> Any:
    """Return the JSON value in a file.

    Raises
    ------
    UsageError
        The file cannot be read, is larger than `LARGEST`, or is not JSON.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > LARGEST:
        raise UsageError(f"{path}: more than {LARGEST >> 20} MiB of JSON; refused")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}; is it cut off?") from error
