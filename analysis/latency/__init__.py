"""Report how long messages take, how certain that is, and which messages were lost."""
