"""The kernel recorded by ftrace: an instance of our own, its raw pages, and their events as CTF.

`tracefs` finds the kernel's tracing folder and keeps our instances apart from the user's,
`recorder` fills a recording from one, `pages` reads ring-buffer pages, `formats` the descriptions
of events, `ctf` writes both as a CTF trace like LTTng's kernel trace, `trace_dat` reads what
trace-cmd wrote.
"""
