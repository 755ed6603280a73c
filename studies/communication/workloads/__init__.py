"""What the suites of the study of communication run."""
