"""Simulate the coverage of every interval, and false alarms and power of every verdict."""
