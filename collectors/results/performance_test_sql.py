"""Results of performance_test as a SQLite database, which builds with SQL support wrote.

Two tables, one row per experiment and one per second of it; their columns have the names of the
JSON.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from roslens.collectors.database import open_database
from roslens.collectors.results.performance_test import of_rows
from roslens.collectors.results.tool_result import ToolResult
from roslens.recording.errors import UsageError

MAGIC = "SQLite format 3\0"
_EXPERIMENT, _SECOND = "ExperimentConfiguration", "AnalysisResult"
_MOST_ROWS = 1_000_000
_SECONDS = 10.0


def read_performance_test_sql(path: Path) -> Sequence[ToolResult]:
    """Read a database: one result per experiment.

    Raises
    ------
    UsageError
        It is no such database, damaged, or has more than a million rows.
    """
    with open_database(path, (_EXPERIMENT, _SECOND), _SECONDS) as database:
        database.row_factory = sqlite3.Row
        experiments = {str(row["id"]): row for row in _rows(path, database, _EXPERIMENT)}
        seconds: dict[str, list[dict[str, Any]]] = {}
        for row in _rows(path, database, _SECOND):
            seconds.setdefault(str(row["configuration"]), []).append(row)
    found = [
        of_rows(
            {k: str(v) for k, v in about.items() if v is not None and not isinstance(v, bytes)},
            sorted(seconds[name], key=lambda row: float(row.get("loop_start") or 0)),
            path,
            _text_of(about["id"]),
        )
        for name, about in experiments.items()
        if name in seconds
    ]
    if not found:
        raise UsageError(f"{path}: no experiment of performance_test in this database")
    return found


def _rows(path: Path, database: sqlite3.Connection, table: str) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(database.execute(f'SELECT * FROM "{table}"')):  # noqa: S608
        if number >= _MOST_ROWS:
            raise UsageError(f"{path}: more than {_MOST_ROWS:,} rows in {table}; refused")
        yield dict(row)


def _text_of(identity: object) -> str:
    """An id of 16 bytes as the logs write it."""
    if isinstance(identity, bytes) and len(identity) == 16:
        return str(uuid.UUID(bytes=identity))
    return str(identity)
