"""The published studies that roslens repeats, a folder each.

`suites/` and `workloads/` are what is recorded, `results` reads what these programs and the
study's own tools leave, `data/` has the published figures; the other modules judge the study's
statements: `report` has the notebook's parameters and sections.
"""
