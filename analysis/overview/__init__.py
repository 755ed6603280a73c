"""Summarise the contents of a recording."""
