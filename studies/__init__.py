"""Repeat published studies, with one folder per study.

`suites/` and `workloads/` are the recorded programs, `results` reads the output of these programs
and of the study's own tools, `data/` has the published figures; the other modules judge the
study's statements: `report` has the notebook's parameters and sections.
"""
