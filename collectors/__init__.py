"""Turn recordings into typed tables.

`collection` is the engine of ``roslens collect``; `decoding` makes events from traces, with
`reader`. `collected` holds the note beside the tables, and decides whether existing files are up to
date; `fingerprint` computes what they were made from. `store` puts files in place atomically, with
locks and digests; `table_file` writes a table. `limits` watches a process whose use of resources is
limited. `excerpt` collects only a part of a recording, `views` shows a part of its tables. `topics`
names the topics that are not the application's own.
"""
