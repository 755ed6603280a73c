"""Build the ROS 2 model: raw events become objects, callbacks, publications, takes, messages."""

from roslens.collectors.ros2.model import build_tables, make_tables

__all__ = ["build_tables", "make_tables"]
