"""From tables to estimates, verdicts and figures.

`runs`: which run belongs to which cell and block; `estimate`, `metrics`: an estimate, and all of
a report in metrics.json; `design`: whether a campaign was made as designed. A package per study
holds its parameters, report, figures and statements.
"""
