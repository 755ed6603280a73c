"""Pictures that can be explored, for notebooks."""

VARIABLE = "ROSLENS_RECORDINGS"
"""Names the recordings that the start page opens, as a JSON list."""

FOLDER = "ROSLENS_LAB_FOLDER"
"""Names the folder of the start page, where notebooks to go on with are put."""

RANGE = "range.json"
"""In that folder: what is selected in the timeline, for all notebooks that are open."""

STATIC = "ROSLENS_STATIC"
"""Set while a report is made: nobody is there to answer, so nothing waits for answers."""
