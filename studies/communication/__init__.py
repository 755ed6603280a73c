"""What communication through rclcpp costs: periods, loss, backlog, hops and copies of messages."""
