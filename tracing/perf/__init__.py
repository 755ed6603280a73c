"""Record switches of own threads with perf_event_open, without root, and read files of perf.

`buffers` lets perf_event_open record the programs that are started, `switches` converts these
records to a CTF trace like LTTng's kernel trace, `perf_data` the tracepoints in a file of perf.
"""
