"""What `rl.open` offers by noun: ``run.latency``, ``run.chains`` and so on; frames, then pictures.

Each module is one noun. Everything it gives is what the report of the same name computes and draws.
"""
