# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Calibration
#
# Whether the intervals hold what they claim, how often verdicts cry wolf, and what they find. Reads
# what `nox -s calibrate` simulated, or simulates anew with `simulations` (a quick look: 200). With
# recordings, pieces of them are held against each other: a comparison of the same with the same.

# %% tags=["parameters"]
recordings: list = []  # recordings that are split at random and compared with themselves
factors: str = ""  # CSV file with the factors of recordings without a manifest
results: str = "data/calibration/results.csv"  # what 'nox -s calibrate' wrote
simulations: int = 0  # simulate anew, so many per cell; 0: read the results
output_dir: str = ""  # folder for metrics.json and results.csv; empty: not written

# %%
import roslens as rl
from roslens.analysis.calibration.parameters import CalibrationParameters
from roslens.analysis.calibration.report import CalibrationReport
from roslens.recordings import resolve

results = str(resolve(results))
parameters = CalibrationParameters.of_notebook(globals())
opened = (
    rl.open(parameters.recordings, factors=parameters.factors) if parameters.recordings else None
)
report = CalibrationReport(opened, parameters)

# %% [markdown]
# ## Answer

# %%
report.answer()

# %% [markdown]
# ## Every bar

# %%
report.overview()

# %% [markdown]
# ## Why the run is the unit

# %%
report.examples()

# %% [markdown]
# ## Coverage of intervals
#
# Of nominal 95 % intervals 93 to 97 % must hold the truth.

# %%
report.fractions("coverage")

# %% [markdown]
# ## Effects of several factors
#
# Block by block, against what an additive and a mixed model would claim.

# %%
report.fractions("block by block", "additive, t", "mixed, Wald")

# %% [markdown]
# ## Comparisons of the same with the same, and of a regression
#
# Exit 1 must come in at most 5 % of comparisons of 24 cells with themselves, simulated or recorded,
# and in at least 95 % of injected regressions.

# %%
report.fractions("exit 1")

# %% [markdown]
# ## Leaks

# %%
report.fractions("false alarms", "power there")

# %%
report.write()
