"""What the notebooks' reports share, and that on latency."""
