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
# # Executors
#
# Which executor is slower, which takes more CPU, and how sure that is. The run is the unit of
# replication, the repetition is the block; executors are compared within the same conditions.

# %% tags=["parameters"]
recordings: str = "data/samples/demo"  # a recording or a folder that holds some, or a list of these
factors: str = ""  # CSV file with the factors of recordings without a manifest, by path or name
factor: str = "executor"  # the factor whose levels are compared two by two
load: str = ""  # the factor along the axis; empty: payload, message size or clients
threshold: float = 0.05  # differences below this part are of no importance
level: float = 0.95  # nominal coverage of the intervals
warm_up_s: float = 0.0  # seconds at the start of each run that are left out
include_failed: bool = False  # let runs that failed enter the estimates
leave_out: list = []  # "lossy", "disturbed": such runs enter no estimate either
output_dir: str = ""  # folder for metrics.json and pairs.csv; empty: not written

# %%
import roslens as rl
from roslens.analysis.executors.parameters import ExecutorsParameters
from roslens.analysis.executors.report import ExecutorsReport

parameters = ExecutorsParameters.of_notebook(globals())
opened = rl.open(parameters.recordings, factors=parameters.factors)
report = ExecutorsReport(opened, parameters)
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
# ## Latency
#
# Messages from publish to callback, service calls and goals from request to result; per run, then
# over runs. A maximum is that of a run of this length, and no bound of what can happen.

# %%
report.work_done()

# %% [markdown]
# ## CPU and memory

# %%
report.cpu()

# %% [markdown]
# ## Waiting and working

# %%
report.busy()

# %% [markdown]
# ## Executors compared

# %%
report.compared()

# %% [markdown]
# ## Effects of the factors

# %%
report.factor_effects()

# %% [markdown]
# ## Entities

# %%
report.entities()

# %% [markdown]
# ## The benchmark's own figures

# %%
report.tools()

# %% [markdown]
# ## The published study

# %%
report.statements()

# %% [markdown]
# ## Definitions

# %%
report.definitions()

# %%
report.write()
