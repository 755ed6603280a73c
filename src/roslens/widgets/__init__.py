"""Provide interactive pictures for notebooks."""

VARIABLE = "ROSLENS_RECORDINGS"
"""Environment variable with the recordings that the start page opens, as a JSON list."""

FOLDER = "ROSLENS_LAB_FOLDER"
"""Environment variable with the start page's folder, where follow-up notebooks are put."""

RANGE = "range.json"
"""File in that folder with the timeline's selection, for all open notebooks."""

STATIC = "ROSLENS_STATIC"
"""Environment variable set while a report is made: nothing waits for answers from a user."""
