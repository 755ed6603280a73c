"""Report on result files of other benchmark tools: their figures, and what these support."""
