"""Judge the comparison of rosbag2 storage plugins (2022): its figures and its claims."""
