"""What if: a timing model simulated under another executor, other rates, other times."""
