"""Define every table in one place: name, type, unit and meaning of each column."""

from roslens.collectors.schema.tables import RAW_EVENT_COLUMNS, TABLES
from roslens.recording.schema import (
    ALLOCATION_SITES,
    CPU_SAMPLES,
    RESOURCES,
    SAMPLED,
    SYSTEM,
    THREADS,
    WAITS,
    Column,
    Table,
)

__all__ = [
    "ALLOCATION_SITES",
    "CPU_SAMPLES",
    "RAW_EVENT_COLUMNS",
    "RESOURCES",
    "SAMPLED",
    "SYSTEM",
    "TABLES",
    "THREADS",
    "WAITS",
    "Column",
    "Table",
]
