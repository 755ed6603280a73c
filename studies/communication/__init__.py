"""Measure the cost of communication through rclcpp: periods, loss, backlog, hops and copies."""
