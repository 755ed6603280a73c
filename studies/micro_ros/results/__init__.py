"""Files that runs of the study of micro-ROS leave, and its published figures, as frames."""
