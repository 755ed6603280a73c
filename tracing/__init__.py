"""Run programs and record them.

`suite`, `plan`, `campaign`, `run`, `command`: validate a suite, order its runs, execute them;
execute one run; record one command. `workload`, `host`, `guard`, `processes`: the recorded
program, the machine and its disturbances, cleaning up however recording ends. `provenance`,
`scrub`, `archive`: the software of a run; removing names; packing for sharing. `state`, `claim`:
a campaign's progress, to resume it; allowing only one recorder per campaign.
"""
