"""The model of a recording of any size: events to tables, one stretch of time after the other."""

from __future__ import annotations

from collectors.ros2.windows.model import write_tables
from collectors.ros2.windows.part import Windows, cut
from collectors.ros2.windows.work import Work

__all__ = ["Windows", "Work", "cut", "write_tables"]
