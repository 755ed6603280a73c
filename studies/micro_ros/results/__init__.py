"""Read the files that runs of the micro-ROS study leave, and its published figures, as frames."""
