"""Define tables, their derived schemas and metadata, and the tables that the recorder writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from roslens.recording.files import replaced_whole

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import polars as pl

TABLES_VERSION = "1.1"
"""Version of all table definitions: the second number grows with each added column or table, the
first with anything renamed, retyped or removed (docs/tables.md)."""

ABOUT_KEYS = ("roslens", "PANDAS_ATTRS")
"""Keys of a Parquet file's metadata; pandas makes a frame's ``attrs`` from the second one."""


@cache
def column_types() -> Mapping[str, pl.DataType]:
    """Return the polars type of each type that a column may have."""
    import polars as pl  # noqa: PLC0415  (a tenth of a second, for nothing where no table is made)

    return {
        "int32": pl.Int32(),
        "int64": pl.Int64(),
        "uint32": pl.UInt32(),
        "uint64": pl.UInt64(),
        "float64": pl.Float64(),
        "bool": pl.Boolean(),
        "string": pl.String(),
        "list<uint8>": pl.List(pl.UInt8()),
    }


@dataclass(frozen=True)
class Column:
    """Column of a table.

    Attributes
    ----------
    name, type
        The column's name, and a key of `column_types`.
    meaning
        The column's content, in one sentence fragment.
    unit
        ``ns``, ``byte``, ... or empty.
    nullable
        Whether a value may be absent.
    values
        The allowed values, if there is a fixed set.
    operation
        For an instant: whether it was ``at``, ``before`` or ``after`` an operation, and which
        operation. Empty: it is not an instant of an operation.
    """

    name: str
    type: str
    meaning: str
    unit: str = ""
    nullable: bool = True
    values: tuple[str, ...] = ()
    operation: str = ""

    @property
    def dtype(self) -> pl.DataType:
        """Return the column's polars type."""
        return column_types()[self.type]


@dataclass(frozen=True)
class Table:
    """Table: its columns in order, the meaning of a row, and the events from which it is made."""

    name: str
    row: str
    columns: tuple[Column, ...]
    needs: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> pl.Schema:
        """Return the polars schema."""
        import polars as pl  # noqa: PLC0415

        return pl.Schema({column.name: column.dtype for column in self.columns})

    def empty(self) -> pl.DataFrame:
        """Return a frame without rows, with the right columns and types."""
        import polars as pl  # noqa: PLC0415

        return pl.DataFrame(schema=self.schema)

    def of_rows(self, rows: Sequence[Any]) -> pl.DataFrame:
        """Make a frame from rows, which are mappings or dataclass instances; see `conform`."""
        import polars as pl  # noqa: PLC0415

        return self.conform(pl.DataFrame(rows, infer_schema_length=None))

    def write_rows(self, rows: Sequence[Any], path: Path) -> None:
        """Write rows to a file; see `of_rows` and `write`."""
        self.write(self.of_rows(rows), path)

    def write(self, frame: pl.DataFrame, path: Path) -> None:
        """Write a frame with the right columns and types as a file of this table.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        with replaced_whole(path) as part:
            frame.write_parquet(part, metadata=self.about())

    def conform(self, frame: pl.DataFrame, *, names: bool = False) -> pl.DataFrame:
        """Select, order and cast the columns; a column that `frame` lacks becomes null.

        With `names`, categorical text in `frame` stays categorical.

        Raises
        ------
        ValueError
            A column that may not be null is missing or holds a null, or a column has a value
            outside its fixed set: a defect of the collector, never of the input.
        """
        import polars as pl  # noqa: PLC0415

        if frame.is_empty():
            return self.empty()
        schema = frame.schema

        def typed(column: Column) -> pl.Expr:
            dtype = schema.get(column.name)
            if dtype is None:
                return pl.lit(None, dtype=column.dtype).alias(column.name)
            if names and column.dtype == pl.String and isinstance(dtype, pl.Categorical):
                return pl.col(column.name)
            return pl.col(column.name).cast(column.dtype)

        selected = frame.select(map(typed, self.columns))
        for column in self.columns:
            series = selected[column.name]
            if not column.nullable and series.null_count():
                raise ValueError(f"table {self.name}: column {column.name} holds a null")
            if column.values and not {*column.values, None}.issuperset(series.unique()):
                raise ValueError(f"table {self.name}: column {column.name} has an unknown value")
        return selected

    def about(self, loss: Mapping[str, int | None] | None = None) -> dict[str, str]:
        """Return the metadata of this table's Parquet files, by key.

        Both keys hold the same JSON object: ``roslens`` and ``tables`` (the versions of the program
        and of the definitions), ``table``, ``definition`` (what a row is), ``columns`` (for each
        its ``meaning`` and, if it has them, ``unit`` and ``operation``) and ``loss``.

        Parameters
        ----------
        loss
            What the run's recording lacks, by kind; null if unknown.
        """
        columns = {
            c.name: {
                key: text
                for key, text in (
                    ("unit", c.unit),
                    ("meaning", c.meaning),
                    ("operation", c.operation),
                )
                if text
            }
            for c in self.columns
        }
        facts = {
            "roslens": version("roslens"),
            "tables": TABLES_VERSION,
            "table": self.name,
            "definition": self.row,
            "columns": columns,
            "loss": None if loss is None else dict(loss),
        }
        return dict.fromkeys(ABOUT_KEYS, json.dumps(facts, ensure_ascii=False))

    def to_json(self) -> dict[str, Any]:
        """Return the table as plain data, for ``roslens dev schema`` and the docs."""
        return {
            "name": self.name,
            "row": self.row,
            "needs": list(self.needs),
            "columns": [
                {
                    "name": c.name,
                    "type": c.type,
                    "unit": c.unit or None,
                    "nullable": c.nullable,
                    "values": list(c.values) or None,
                    "meaning": c.meaning,
                    "operation": c.operation or None,
                }
                for c in self.columns
            ],
        }


RESOURCES = Table(
    "resources",
    "what one process used up to one moment",
    (
        Column("time_ns", "int64", "when it was sampled", unit="ns", nullable=False),
        Column("host", "string", "label of the host: h0, h1, ...", nullable=False),
        Column("vpid", "int32", "process id", nullable=False),
        Column("process", "string", "name of the process"),
        Column("cpu_time_ns", "int64", "user and system CPU time since its start", unit="ns"),
        Column("rss_bytes", "int64", "resident set, not its peak", unit="byte"),
        Column("pss_bytes", "int64", "proportional set", unit="byte"),
        Column("uss_bytes", "int64", "pages that no other process has", unit="byte"),
        Column("heap_bytes", "int64", "live heap; null where not measured", unit="byte"),
        Column("threads", "int64", "threads"),
        Column("voluntary_switches", "int64", "context switches since its start"),
        Column("involuntary_switches", "int64", "preemptions since its start"),
        Column("minor_faults", "int64", "page faults without disk access since its start"),
        Column("major_faults", "int64", "page faults that read from disk since its start"),
    ),
)
"""Table ``resources.parquet``, which the recorder writes."""

THREADS = Table(
    "threads",
    "what one thread used up to one moment",
    (
        Column("time_ns", "int64", "when it was sampled", unit="ns", nullable=False),
        Column("host", "string", "label of the host: h0, h1, ...", nullable=False),
        Column("vpid", "int32", "process id", nullable=False),
        Column("vtid", "int32", "thread id", nullable=False),
        Column("thread", "string", "name of the thread"),
        Column("cpu_time_ns", "int64", "CPU time since its start", unit="ns"),
        Column("run_delay_ns", "int64", "time it was ready and had no CPU", unit="ns"),
        Column("voluntary_switches", "int64", "context switches since its start"),
        Column("involuntary_switches", "int64", "preemptions since its start"),
    ),
)
"""Table ``threads.parquet``, which the recorder writes if the suite requests it."""

SYSTEM = Table(
    "system",
    "what the whole machine did up to one moment; counters are since boot",
    (
        Column("time_ns", "int64", "when it was sampled", unit="ns", nullable=False),
        Column("host", "string", "label of the host: h0, h1, ...", nullable=False),
        Column("cpu_busy_ns", "int64", "CPU time used, all CPUs", unit="ns"),
        Column("cpu_idle_ns", "int64", "CPU time idle, all CPUs", unit="ns"),
        Column("cpu_iowait_ns", "int64", "CPU time idle while a disk worked", unit="ns"),
        Column("cpu_steal_ns", "int64", "CPU time that other tenants took", unit="ns"),
        Column("load_1min", "float64", "load average over a minute"),
        Column("running", "int64", "threads that can run"),
        Column("switches", "int64", "context switches"),
        Column("memory_available_bytes", "int64", "memory for new programs", unit="byte"),
        Column("swap_free_bytes", "int64", "free swap", unit="byte"),
        Column("cpu_mhz", "float64", "mean clock of the CPUs", unit="MHz"),
        Column("temperature_c", "float64", "of the hottest sensor", unit="degree C"),
        Column("loopback_bytes", "int64", "sent over the loopback", unit="byte"),
        Column("received_bytes", "int64", "received by all other interfaces", unit="byte"),
        Column("sent_bytes", "int64", "sent by all other interfaces", unit="byte"),
        Column("dropped_packets", "int64", "dropped by any interface, both ways"),
        Column("disk_read_bytes", "int64", "read from all disks", unit="byte"),
        Column("disk_written_bytes", "int64", "written to all disks", unit="byte"),
    ),
)
"""Table ``system.parquet``, which the recorder writes if the suite requests it."""

ALLOCATION_SITES = Table(
    "allocation_sites",
    "what one call path held at one moment, where that changed since the moment before",
    (
        Column("time_ns", "int64", "end of a step of half a second", unit="ns", nullable=False),
        Column("host", "string", "label of the host: h0, h1, ...", nullable=False),
        Column("vpid", "int32", "process id", nullable=False),
        Column("function", "string", "who allocated: the innermost function that is no library's"),
        Column("file", "string", "its source, where debug symbols give it"),
        Column("line", "int32", "the line there"),
        Column("module", "string", "the program or library that it is in"),
        Column(
            "called_by",
            "string",
            "the innermost of these on the path; other: none of them",
            nullable=False,
            values=("middleware", "callback", "executor", "other"),
        ),
        Column("path", "string", "the functions of the path, innermost first", nullable=False),
        Column("live_bytes", "int64", "allocated and not freed", unit="byte", nullable=False),
        Column("live_blocks", "int64", "how many allocations these are", nullable=False),
    ),
)
"""Table ``allocation_sites.parquet``, which the recorder writes if the suite requests it."""

CPU_SAMPLES = Table(
    "cpu_samples",
    "what one thread ran on a CPU at one moment, as perf sampled it",
    (
        Column("time_ns", "int64", "when the sample was taken", unit="ns", nullable=False),
        Column("host", "string", "label of the host: h0, h1, ...", nullable=False),
        Column("vpid", "int32", "process id", nullable=False),
        Column("vtid", "int32", "thread id", nullable=False),
        Column("cpu_ns", "int64", "CPU time that it stands for", unit="ns", nullable=False),
        Column(
            "whole", "bool", "whether the first function of the thread is reached", nullable=False
        ),
        Column(
            "path",
            "string",
            "the functions of the stack, innermost first, a line each; without symbols the module, "
            "in brackets",
            nullable=False,
        ),
    ),
)
"""Table ``cpu_samples.parquet``, which the recorder writes with ``--stacks``."""

WAITS = Table(
    "waits",
    "a thread that left its CPU to wait, until it is on a CPU again",
    tuple(
        Column("wait_ns", "int64", "how long it was off the CPUs", unit="ns", nullable=False)
        if column.name == "cpu_ns"
        else column
        for column in CPU_SAMPLES.columns
    ),
)
"""Table ``waits.parquet``, which the recorder writes with ``--waits``."""

SAMPLED = (RESOURCES, THREADS, SYSTEM, ALLOCATION_SITES, CPU_SAMPLES, WAITS)
"""Tables stored beside a run as soon as it is recorded, as ``NAME.parquet``."""
