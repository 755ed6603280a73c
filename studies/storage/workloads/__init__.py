"""Programs that the suites of the study of storage run."""
