"""Offer the nouns of `rl.open`, such as ``run.latency`` and ``run.chains``: frames and pictures.

Each module is one noun. Its frames and pictures are those of the report of the same name.
"""
