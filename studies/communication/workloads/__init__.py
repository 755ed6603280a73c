"""Programs that the suites of the study of communication run."""
