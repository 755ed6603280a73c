"""Pictures that can be explored, for notebooks."""

VARIABLE = "ROSLENS_RECORDINGS"
"""Names the recordings that the start page opens."""
