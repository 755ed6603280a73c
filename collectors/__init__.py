"""From a recording to typed tables.

`collection` is the engine of ``roslens collect``; `decoding` makes events of traces, by `reader`.
`collected` is the note beside the tables, and judges if what lies there will do; `fingerprint`
tells what it was made from. `store` puts files in place all at once, with locks and digests;
`table_file` writes a table. `limits` watches a process that may only take so much. `excerpt` takes
only part of a recording, `views` shows part of its tables. `topics` are those that are not the
application's own.
"""
