"""Convert the kernel's events in traces of Perfetto to a CTF trace like LTTng's kernel trace.

`protobuf` reads messages, `events` extracts the kernel's events, `trace` finds the contents of a
file and relates Perfetto's clock to the monotonic clock.
"""
