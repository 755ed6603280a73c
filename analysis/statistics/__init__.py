"""Compute estimates with their intervals: pure functions of numbers."""
