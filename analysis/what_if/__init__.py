"""Simulate a timing model under another executor, other rates or other execution times."""
