"""The one definition of every table: name, type, unit and meaning of each column."""

from roslens.collectors.schema.tables import RAW_EVENT_COLUMNS, TABLES
from roslens.tracing.recording.schema import RESOURCES, SYSTEM, THREADS, Column, Table

__all__ = ["RAW_EVENT_COLUMNS", "RESOURCES", "SYSTEM", "TABLES", "THREADS", "Column", "Table"]
