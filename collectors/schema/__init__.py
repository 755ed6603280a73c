"""Define every table in one place: name, type, unit and meaning of each column."""

from roslens.collectors.schema.tables import RAW_EVENT_COLUMNS, TABLES
from roslens.recording.schema import CPU_SAMPLES, RESOURCES, SAMPLED, WAITS, Table

__all__ = [
    "CPU_SAMPLES",
    "RAW_EVENT_COLUMNS",
    "RESOURCES",
    "SAMPLED",
    "TABLES",
    "WAITS",
    "Table",
]
