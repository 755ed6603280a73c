"""Estimates with their intervals: pure functions from numbers."""
