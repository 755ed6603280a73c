"""What runs and how it is recorded.

`suite`, `plan`, `campaign`, `run`, `command`: a suite is validated, ordered, executed run by run;
one run; one command. `workload`, `host`, `guard`, `processes`: the recorded program, the machine
and what disturbed it, clearing up whatever happens. `provenance`, `scrub`, `archive`: what
software a run was made with; names taken out; packing for sharing. `state`, `claim`: how far a
campaign is, to resume it; that only one recorder works on it.
"""
