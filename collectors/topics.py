"""Tell the application's own topics from those of ROS and its middleware."""

from __future__ import annotations

import polars as pl

ROSOUT = "/rosout"

INFRASTRUCTURE = (ROSOUT, "/parameter_events")
"""Topics that every node has, and that belong to no application."""

DISCOVERY = "ros_discovery_info"
"""Topic of the middleware's own graph messages, whose endpoints have no rcl event."""

INTERNAL = (*INFRASTRUCTURE, DISCOVERY)
"""Topics of ROS itself and of its middleware."""

SYSTEM_TOPICS = (*INTERNAL, "/tf_static", "/clock")
"""Topics that are not part of the application's work; shown after its own topics."""


def internal(topic: str = "topic") -> pl.Expr:
    """Return whether a topic is one of `INTERNAL`, or hidden.

    A hidden name has a token that begins with an underscore, such as ``/move/_action/status``
    (ROS 2's design, "Topic and Service Names").
    """
    return pl.col(topic).is_in(INTERNAL) | pl.col(topic).str.contains("(^|/)_")


def is_of_application(topic: str = "topic") -> pl.Expr:
    """Return whether a topic is the application's own: not internal nor in `SYSTEM_TOPICS`."""
    return ~(pl.col(topic).is_in(SYSTEM_TOPICS) | internal(topic))
