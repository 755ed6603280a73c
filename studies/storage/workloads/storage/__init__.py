"""The storage benchmark: it writes messages to SQLite and MCAP as a bag recorder does.

``src/`` is the program that writes and measures; `prepare` compiles it once, ``run.py`` runs it
for one cell on a RAM disk, `verify` reads its files back with other libraries.
"""
