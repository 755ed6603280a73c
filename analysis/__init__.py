"""From tables to estimates, verdicts and figures."""
