"""Programs that the suites of the study of executors run."""
