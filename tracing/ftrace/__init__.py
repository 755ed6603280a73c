"""Record the kernel with ftrace: an own instance, its raw pages, and their events as CTF.

`tracefs` finds the kernel's tracing folder and keeps our instances separate from the user's,
`recorder` records an instance, `pages` reads ring-buffer pages, `formats` the descriptions of
events, `ctf` writes pages as a CTF trace like LTTng's kernel trace, `trace_dat` reads files of
trace-cmd.
"""
