"""What runs and how it is recorded."""
