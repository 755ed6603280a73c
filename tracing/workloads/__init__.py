"""What is recorded: programs that run with ROS, each started by one command."""
