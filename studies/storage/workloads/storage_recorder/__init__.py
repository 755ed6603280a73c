"""A recorder end to end: publishers in one process, rosbag2's writer and a plugin in another."""
