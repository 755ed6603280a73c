"""Write docs/tables.md from the definitions of the tables."""

from __future__ import annotations

from roslens.collectors import _native
from roslens.collectors.schema.tables import RAW_EVENT_COLUMNS, TABLES
from roslens.recording.schema import SAMPLED, Column, Table

_INTRODUCTION = """\
# Tables

Written by `nox -s docs` from the definitions in the code; do not edit.

Times are int64 nanoseconds since the epoch, sizes bytes. Addresses are unsigned and mean
something only within one process. Every `..._id` is a small integer that is unique within a
recording.

An event is not the operation that it tells of: of each instant the meaning ends with whether the
operation was *at*, *before* or *after* it, on all tracers and distributions but those that are
named. [Where clocks start](clocks_start.md) says what that makes of latencies.

## What a file says of itself

The metadata of each file below `tables/` has the key `roslens`: one JSON object with `roslens` and
`tables` (the versions of the program and of these definitions), `table`, `definition`, `columns`
(of each the `meaning`, `unit` and `operation`) and `loss`. That counts `discarded_events`,
`lost_packets` and `missing_stretches` of the run, and is null where it is not known. pandas has the
same in `DataFrame.attrs`, pyarrow in `schema.metadata`, DuckDB in `parquet_kv_metadata(FILE)`.

## What stays as it is

Within versions 1.x of these definitions tables and columns are only added; none is renamed,
retyped or removed. Tables of the version before are read, too: `rl.open(PATH, collect=False)` opens
them as they lie there, with null in columns that they lack (`missing_columns` names these).
Tables of a later major version are refused.

## Questions in SQL

`roslens sql "SELECT ..." PATH...` asks all of these tables over all runs; `run` and the factors
come first in each. It needs DuckDB (`pip install '.[sql]'`), reads nothing but the tables, and
stops after `--rows` rows, `--timeout` seconds (exit code 4) or 2 GB of memory:

```
roslens sql "SELECT topic, outcome, count(*) FROM messages GROUP BY ALL" PATH --csv
```
"""


def tables_markdown() -> str:
    """Return the whole page."""
    raw = Table(
        "Raw events",
        "one event; after these columns come `ctx_<name>` for other contexts and the payload "
        "under its own names (a payload field with one of these names becomes `field_<name>`)",
        RAW_EVENT_COLUMNS,
    )
    parts = [_INTRODUCTION, _section(raw, "events/&lt;provider&gt;/&lt;event&gt;.parquet")]
    parts += [_section(table, f"tables/{table.name}.parquet") for table in TABLES.values()]
    for table in SAMPLED:
        parts.append(_section(table, f"{table.name}.parquet, written while recording"))
    parts.append(_reasons())
    return "\n".join(parts)


def _section(table: Table, where: str) -> str:
    lines = [f"## {table.name}", "", f"{where}. A row is {table.row}.", ""]
    if table.needs:
        lines += ["Needs " + ", ".join(f"`{name}`" for name in table.needs) + ".", ""]
    lines += ["| column | type | unit | may be null | meaning |", "|---|---|---|---|---|"]
    lines += [_line(column) for column in table.columns]
    return "\n".join(lines) + "\n"


def _reasons() -> str:
    """Return the rules by which the model decides messages, from their definition in the code."""
    about = (
        "The rules that the column `reason` of `messages` names, in the words of "
        "[the model](model.md#messages). Each has a test by hand in `tests/ros2/test_reasons.py`."
    )
    lines = ["## Reasons", "", about, "", "| reason | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in _native.model_reasons()]
    return "\n".join(lines) + "\n"


def _line(column: Column) -> str:
    values = f" ({', '.join(f'`{v}`' for v in column.values)})" if column.values else ""
    null = "yes" if column.nullable else "no"
    when = f". Operation {column.operation}" if column.operation else ""
    meaning = f"{column.meaning}{values}{when}"
    return f"| `{column.name}` | {column.type} | {column.unit} | {null} | {meaning} |"
