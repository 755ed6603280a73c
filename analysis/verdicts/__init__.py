"""Compare two sets of runs, and check budgets."""
