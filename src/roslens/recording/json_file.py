"""Read JSON that people and other tools write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from roslens.recording.errors import UsageError

LARGEST = 32 << 20
"""The maximum size of a file in bytes; its values can take thirty times as much memory."""


def read_json(path: Path, hint: str = "is it cut off?", largest: int = LARGEST) -> Any:
    """Return the JSON value in a file.

    Parameters
    ----------
    hint
        What to do, or to look for, if the file is not JSON.
    largest
        Maximum size in bytes.

    Raises
    ------
    UsageError
        The file cannot be read, is larger than `largest`, or is not JSON.
    """
    try:
        with path.open("rb") as stream:
            content = stream.read(largest + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > largest:
        raise UsageError(f"{path}: more than {largest >> 20} MiB of JSON; refused")
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}; {hint}") from error
