"""A tracer of our own: ROS 2's events into mapped files, without LTTng, daemons or root."""
