"""The demo: real rclpy nodes in two processes, with their own log of what happened.

The files here run in the interpreter that ROS 2 has, with the standard library and ROS only;
``run.py`` is the one to start.
"""
