"""Run the verb ``sql``: one query over all tables of runs, by DuckDB.

Each table that the query names is passed as Arrow data, so DuckDB itself opens no file: its
settings forbid it, and are locked before the query is parsed.
"""

from __future__ import annotations

import re
import sys
import threading
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

from roslens.analysis.reports.table import ReportTable
from roslens.collectors.schema import SAMPLED, TABLES
from roslens.printed import show_table
from roslens.recording import RunFailedError, UsageError
from roslens.recording.terminal import say

if TYPE_CHECKING:
    import duckdb

    from roslens.run_tables import RunTables

Form: TypeAlias = Literal["text", "json", "csv"]
MEMORY = "2GB"
_CLOSED: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": MEMORY,
    "max_temp_directory_size": "0B",
}
_NESTED = ("list", "array", "struct", "map", "union")
# Names of types that polars cannot write or read.
_NOT_WRITTEN = re.compile(r"\b(INTERVAL|BLOB|BIT|BIGNUM|UNION)\b")


def query(
    runs: RunTables, text: str, *, rows: int = 1000, seconds: float = 60.0, flat: bool = False
) -> tuple[pl.DataFrame, bool]:
    """Run one SELECT on the tables of runs.

    Parameters
    ----------
    runs
        Runs whose tables become views, with the columns ``run`` and the factors first.
    text
        One SQL statement in DuckDB's dialect.
    rows
        The maximum number of rows to return.
    seconds
        Time limit of the query in seconds.
    flat
        Whether to return lists and structs as JSON.

    Returns
    -------
    frame, more
        The rows, and whether there are more rows.

    Raises
    ------
    UsageError
        A limit is not positive, or the query is invalid or not a SELECT.
    RunFailedError
        The query took longer, or needed more memory.
    """
    if rows < 1 or not seconds > 0:
        raise UsageError("--rows and --timeout must be more than 0")
    import duckdb  # noqa: PLC0415  (optional)

    connection = duckdb.connect(":memory:", config=_CLOSED)
    timer = threading.Timer(seconds, connection.interrupt)
    timer.daemon = True
    try:
        _give_tables(connection, runs, text)
        connection.execute("SET lock_configuration = true")
        statements = connection.extract_statements(text)
        if len(statements) != 1:
            raise UsageError(f"give one statement of SQL; these are {len(statements)}")
        kinds = duckdb.StatementType
        if statements[0].type not in (kinds.SELECT, kinds.EXPLAIN):
            raise UsageError("only a SELECT can be asked: tables are not changed")
        timer.start()
        reader = _as_text(connection.sql(text), flat=flat).to_arrow_reader(rows + 1)
        assert reader is not None
        batches, count = [], 0
        for batch in reader:
            batches.append(batch)
            count += batch.num_rows
            if count > rows:
                break
        frame = pl.from_arrow(batches or reader.schema.empty_table())
        assert isinstance(frame, pl.DataFrame)
        return frame.head(rows).select(map(_as_number, frame.head(rows))), count > rows
    except duckdb.OutOfMemoryException as error:
        raise RunFailedError(f"the query needs more memory than {MEMORY}") from error
    except duckdb.Error as error:
        if "INTERRUPT" in str(error).upper():
            raise RunFailedError(
                f"the query took longer than {seconds:g} s and was ended"
            ) from error
        raise UsageError(f"SQL: {' '.join(str(error).split())}") from error
    finally:
        timer.cancel()
        connection.close()


def _as_number(column: pl.Series) -> pl.Series:
    """Return a column of decimals, which sums of integers are, too, as numbers that JSON has."""
    if not isinstance(column.dtype, pl.Decimal):
        return column
    if column.dtype.scale:
        return column.cast(pl.Float64)
    whole = column.cast(pl.Int64, strict=False)
    return whole if whole.null_count() == column.null_count() else column


def _as_text(relation: duckdb.DuckDBPyRelation, *, flat: bool) -> duckdb.DuckDBPyRelation:
    """Cast columns that cannot be written otherwise to text; refuse duplicate names."""
    casts = []
    for place, (name, kind) in enumerate(zip(relation.columns, relation.types, strict=True), 1):
        if relation.columns.count(name) > 1:
            raise UsageError(f"two columns of the result are named '{name}'; name them with AS")
        nested = kind.id in _NESTED
        if (nested and flat) or _NOT_WRITTEN.search(str(kind)):
            quoted = name.replace('"', '""')
            casts.append(f'#{place}{"::JSON" * nested}::VARCHAR AS "{quoted}"')
        else:
            casts.append(f"#{place}")
    return relation.project(", ".join(casts)) if any("::" in cast for cast in casts) else relation


def _give_tables(connection: duckdb.DuckDBPyConnection, runs: RunTables, text: str) -> None:
    """Register all tables; those that the query does not name have no rows."""
    words = set(re.findall(r"\w+", text.lower()))
    # These functions compute a table's name, or assemble a query.
    every = not words.isdisjoint(("query", "query_table"))
    for name in (*TABLES, *(table.name for table in SAMPLED)):
        frame = runs.table(name)
        whole = frame if every or name in words else frame.head(0)
        connection.register(name, whole.collect().to_arrow())


def run_sql(runs: RunTables, text: str, *, rows: int, seconds: float, form: Form = "text") -> None:
    """Print the rows of a query, and on standard error whether there are more."""
    frame, more = query(runs, text, rows=rows, seconds=seconds, flat=form == "csv")
    if form != "text":
        written = frame.write_csv() if form == "csv" else frame.write_ndjson()
        if written:
            say(written.removesuffix("\n"), exact=True)
    else:
        columns = frame.columns
        cells = [["null" if x is None else str(x) for x in row] for row in frame.iter_rows()]
        words = (name for name, kind in frame.schema.items() if not kind.is_numeric())
        show_table(ReportTable(columns, cells, "", left=frozenset(words)), emphasis=False)
    if more:
        print(f"roslens: only the first {rows:,} rows; --rows shows more", file=sys.stderr)
