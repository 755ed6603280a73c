"""Workloads: programs that use ROS, each started by one command."""
