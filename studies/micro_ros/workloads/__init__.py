"""Programs that the suites of the study of micro-ROS run."""
