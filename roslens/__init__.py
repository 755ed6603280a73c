"""What users import in notebooks (``import roslens as rl``) and the command line."""
