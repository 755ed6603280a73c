"""The kernel's events in traces of Perfetto, as a CTF trace like LTTng's kernel trace.

`protobuf` reads messages, `trace` finds what a file holds, `events` makes the kernel's events of
it, `clocks` joins Perfetto's clock with the monotonic one.
"""
