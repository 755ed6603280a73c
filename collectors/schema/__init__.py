"""The one definition of every table: name, type, unit and meaning of each column."""

from collectors.schema.tables import RAW_EVENT_COLUMNS, TABLES
from tracing.recording.schema import RESOURCES, Column, Table

__all__ = ["RAW_EVENT_COLUMNS", "RESOURCES", "TABLES", "Column", "Table"]
