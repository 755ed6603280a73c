"""Read ``messages.csv``: a workload's own log of its messages, with the system clock.

The log has one row per message and subscription: ``topic``, ``sequence`` (number of the message on
its topic), ``publish_realtime_ns`` (just before publish()), ``callback_realtime_ns`` (first line of
the callback; empty if never received).
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
    """Return the rows of a log in file order, or None for a file of another kind.

    Raises
    ------
    UsageError
        The file cannot be read, or a cell does not fit its column.
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
