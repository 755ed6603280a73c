"""Provide what the reports of all notebooks share."""
