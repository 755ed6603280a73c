"""How long messages take, how sure that is, and what was lost."""
