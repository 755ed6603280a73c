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
# # Chains
#
# How long messages take from end to end, across nodes: response times of chains such as
# /camera -> /image -> /detector -> /objects -> /planner, where the time goes, and whether what is
# required of them is kept. The run is the unit of replication.

# %% tags=["parameters"]
recordings: str = "data/samples/demo"  # a recording or a folder that holds some, or a list of these
factors: str = ""  # CSV file with the factors of recordings without a manifest, by path or name
chains: list = []  # such as "/camera -> /image -> /detector"; none: all that are found
requirements: str = ""  # YAML file with chains, what is required of them, and links
worst: int = 10  # how many of the slowest instances are listed
level: float = 0.95  # nominal coverage of the intervals
warm_up_s: float = 0.0  # seconds at the start of each run that are left out
include_failed: bool = False  # let runs that failed enter the estimates
leave_out: list = []  # "lossy", "disturbed": such runs enter no estimate either
output_dir: str = ""  # folder for metrics.json and two CSV files; empty: not written

# %%
import roslens as rl
from roslens.analysis.chains.parameters import ChainsParameters
from roslens.analysis.chains.report import ChainsReport

parameters = ChainsParameters.of_notebook(globals())
opened = rl.open(parameters.recordings, factors=parameters.factors)
report = ChainsReport(opened, parameters)
opened

# %% [markdown]
# ## Answer

# %%
report.answer()

# %% [markdown]
# ## Loss first
#
# What the tracer dropped, and the runs that enter no estimate.

# %%
report.loss()

# %% [markdown]
# ## What is required

# %%
report.required()

# %% [markdown]
# ## All chains

# %%
report.overview()

# %% [markdown]
# ## Nodes that wait for several topics

# %%
report.turns()

# %% [markdown]
# ## Distributions

# %%
report.distributions()

# %% [markdown]
# ## Estimates

# %%
report.statistics()

# %% [markdown]
# ## Where the time goes

# %%
report.parts()

# %% [markdown]
# ## The slowest instances

# %%
report.slowest()

# %% [markdown]
# ## Definitions

# %%
report.definitions()

# %%
report.write()
