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
# # Storage: SQLite against MCAP
#
# How fast a bag recorder's storage writes, how long single write calls take, and whether the
# takeaways of the published comparison of rosbag2's storage plugins (2022) hold. The run is the
# unit of replication: each interval is by t over runs. With `source=published` the 480
# published rows are computed anew, as published beside as it should be.

# %% tags=["parameters"]
recordings: list = []  # recordings of the suite storage, or folders that hold some
source: str = ""  # published or recordings; empty: recordings where given, else published
digests: str = ""  # digest CSV of the study's sweep.py, or a folder of them; empty: the published
factors: str = ""  # CSV file with the factors of recordings without a manifest
level: float = 0.95  # nominal coverage of the intervals
threshold: float = 0.05  # so much slower is still on par
include_failed: bool = False  # let runs that failed enter the estimates
leave_out: list = []  # what else enters none: lossy, disturbed
output_dir: str = ""  # folder for metrics.json, cells.csv, statements.csv; empty: not written

# %%
import roslens as rl
from roslens.analysis.storage.parameters import StorageParameters
from roslens.analysis.storage.report import StorageReport
from roslens.collectors.results.storage_study import read_digests
from roslens.recordings import resolve

parameters = StorageParameters.of_notebook(globals())
opened = (
    rl.open(parameters.recordings, factors=parameters.factors)
    if parameters.from_recordings
    else None
)
published = read_digests(resolve(parameters.digests or "data/published/storage"))
report = StorageReport(opened, published, parameters)

# %% [markdown]
# ## Answer

# %%
report.answer()

# %% [markdown]
# ## What ran, and what was lost

# %%
report.loss()

# %% [markdown]
# ## The takeaways

# %%
report.verdicts()

# %% [markdown]
# ## Throughput

# %%
report.throughput()

# %% [markdown]
# ### As published against as it should be

# %%
report.as_it_should_be()

# %% [markdown]
# ## Comparisons of configurations

# %%
report.effects()

# %% [markdown]
# ## Single write calls
#
# What decides whether messages are dropped is not the mean but the longest calls.

# %%
report.write_calls()

# %% [markdown]
# ## Messages that come at a rate

# %%
report.sustained()

# %% [markdown]
# ## Estimates, with CPU, memory and size

# %%
report.resources()

# %% [markdown]
# ## After a crash or a power loss

# %%
report.recovered()

# %% [markdown]
# ## Two clocks
#
# Each write call is timed twice: by the program and by tracepoints around it.

# %%
report.clocks()

# %% [markdown]
# ## Definitions

# %%
report.definitions()

# %%
report.write()
