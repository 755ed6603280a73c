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
# # Result files of other benchmark tools
#
# What the files of another benchmark tool say, what in them is wrong, and which of their figures
# can be given with an interval. The run is the unit of replication: where the files of several runs are given,
# intervals are by t over runs; single latencies of one run give an interval for that run.

# %% tags=["parameters"]
files: list = []  # result files of benchmark tools, or folders that hold some
factors: str = ""  # CSV file with the factors of each file, by path or name
level: float = 0.95  # nominal coverage of the intervals
output_dir: str = ""  # folder for metrics.json and values.csv; empty: not written

# %%
from roslens.analysis.tool.parameters import ToolParameters
from roslens.analysis.tool.report import ToolReport
from roslens.tool_files import open_tool_files

parameters = ToolParameters.of_notebook(globals())
report = ToolReport(open_tool_files(parameters.files, parameters.factors), parameters)

# %% [markdown]
# ## Answer

# %%
report.answer()

# %% [markdown]
# ## The files

# %%
report.read()

# %% [markdown]
# ## What was corrected or refused

# %%
report.corrected()

# %% [markdown]
# ## Estimates

# %%
report.over_runs()

# %% [markdown]
# ## What the tools said

# %%
report.said()

# %% [markdown]
# ## Definitions

# %%
report.definitions()

# %%
report.write()
