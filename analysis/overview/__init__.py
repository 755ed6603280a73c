"""What is in a recording, at a glance."""
