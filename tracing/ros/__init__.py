"""Provide the recorded ROS 2: the sourced one, or an embedded one whose events reach this LTTng."""

from roslens.tracing.ros.diagnosis import diagnose_no_events
from roslens.tracing.ros.environment import RosEnvironment, embedded_ros, sourced_ros
from roslens.tracing.ros.tracetools import CompileError, build_tracetools

__all__ = [
    "CompileError",
    "RosEnvironment",
    "build_tracetools",
    "diagnose_no_events",
    "embedded_ros",
    "sourced_ros",
]
