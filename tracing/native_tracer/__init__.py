"""Trace ROS 2's events into mapped files with our own tracer, without LTTng, daemons or root."""
