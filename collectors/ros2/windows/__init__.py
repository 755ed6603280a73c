"""The model of a recording of any size: events to tables, one stretch of time after the other."""

from __future__ import annotations

from roslens.collectors.ros2.windows.model import write_tables
from roslens.collectors.ros2.windows.part import Windows, cut

__all__ = ["Windows", "cut", "write_tables"]
