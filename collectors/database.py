"""Open SQLite databases that other programs wrote."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from roslens.recording import UsageError

_STEPS = 10_000


@contextmanager
def open_database(
    path: Path, tables: Collection[str], seconds: float
) -> Iterator[sqlite3.Connection]:
    """Open an SQLite database for reading, restricted to the given tables.

    Parameters
    ----------
    seconds
        A query that is still running this long after the database was opened is stopped.

    Raises
    ------
    UsageError
        One of the names is a view, which could compute for ever.
    sqlite3.Error
        The file is no database, or is damaged; or the time is over.
    """
    readable = {*tables, "sqlite_master"}

    def authorize(action: int, first: str | None, *_: str | None) -> int:
        allowed = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_FUNCTION) or (
            action == sqlite3.SQLITE_READ and first in readable
        )
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY

    # Read only, creating no file beside it; the content of an existing journal is read, too.
    journals = [path.with_name(path.name + end) for end in ("-wal", "-journal")]
    as_it_is = "" if any(journal.exists() for journal in journals) else "&immutable=1"
    where = f"{path.absolute().as_uri()}?mode=ro{as_it_is}"
    with closing(sqlite3.connect(where, uri=True)) as database:
        database.execute("PRAGMA trusted_schema = OFF")
        end = time.monotonic() + seconds
        database.set_progress_handler(lambda: time.monotonic() > end, _STEPS)
        for name, kind in database.execute("SELECT name, type FROM sqlite_master"):
            if name in tables and kind != "table":
                raise UsageError(f"{path}: {name} is a {kind} where a table is expected")
        database.set_authorizer(authorize)
        yield database
