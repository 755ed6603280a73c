"""What other tools read."""
