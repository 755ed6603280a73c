"""What the reports of all notebooks share."""
