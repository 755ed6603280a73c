"""Turn tables into estimates, verdicts and figures.

`runs`: the cell and block of each run; `estimate`, `metrics`: an estimate, and all estimates of
a report in metrics.json; `design`: whether a campaign was made as designed. A package per study
holds its parameters, report, figures and statements.
"""
