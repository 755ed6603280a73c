"""Export recordings to the formats of other tools."""
