"""Which topics are not the application's own."""

from __future__ import annotations

import polars as pl

ROSOUT = "/rosout"

INFRASTRUCTURE = (ROSOUT, "/parameter_events")
"""Topics of every node, of no application."""

DISCOVERY = "ros_discovery_info"
"""Topic of the middleware's own graph messages, whose endpoints have no rcl event."""

INTERNAL = (*INFRASTRUCTURE, DISCOVERY)
"""Topics of ROS and its middleware themselves."""

SYSTEM_TOPICS = (*INTERNAL, "/tf_static", "/clock")
"""Topics that the application does not work by; looked at after its own."""


def internal(topic: str = "topic") -> pl.Expr:
    """Whether a topic is one of `INTERNAL`, or hidden.

    Hidden is a name with a token that begins with an underscore, such as ``/move/_action/status``
    (ROS 2's design, "Topic and Service Names").
    """
    return pl.col(topic).is_in(INTERNAL) | pl.col(topic).str.contains("(^|/)_")


def of_application(topic: str = "topic") -> pl.Expr:
    """Whether a topic is the application's own: neither internal nor one of `SYSTEM_TOPICS`."""
    return ~(pl.col(topic).is_in(SYSTEM_TOPICS) | internal(topic))
