"""Two sets of runs compared, and budgets held."""
