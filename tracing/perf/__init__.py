"""The kernel's events by perf: switches of own threads without root, and files that perf wrote.

`buffers` has perf_event_open record the programs that are started, `switches` makes a CTF trace of
it like LTTng's kernel trace, `perf_data` one of the tracepoints in a file of perf.
"""
