"""``messages.csv``: what a workload itself logged of its messages, with the system clock.

One row per message and subscription: ``topic``, ``sequence`` (number of the message on its topic),
``publish_realtime_ns`` (just before publish()), ``callback_realtime_ns`` (first line of the
callback; empty: never received).
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from roslens.recording.errors import UsageError

FILE_NAME = "messages.csv"

SCHEMA = pl.Schema(
    {
        "topic": pl.String,
        "sequence": pl.Int64,
        "publish_realtime_ns": pl.Int64,
        "callback_realtime_ns": pl.Int64,
    }
)


def read_logged_messages(path: Path) -> pl.DataFrame | None:
    """The rows of a log in their order, or None where the file is of another kind.

    Raises
    ------
    UsageError
        It cannot be read, or a cell is not what its column says.
    """
    try:
        with path.open(encoding="utf-8") as stream:
            header = stream.readline().strip().split(",")
        if not set(SCHEMA) <= set(header):
            return None
        return pl.read_csv(path.read_bytes(), columns=list(SCHEMA), schema_overrides=SCHEMA).select(
            *SCHEMA
        )
    except (OSError, UnicodeDecodeError, pl.exceptions.PolarsError) as error:
        raise UsageError(f"{path}: not a log of messages: {str(error).splitlines()[0]}") from error
