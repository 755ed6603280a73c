"""A recorder end to end: publishers in one process, in another rosbag2's writer and a plugin."""
