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
# # Latency
#
# How long messages take from publisher to callback, how sure that is, and what was lost on the
# way. The run is the unit of replication: each interval is by t over runs. An estimate for
# which the evidence does not suffice is refused, with what would be needed.

# %% tags=["parameters"]
recordings: str = "data/samples"  # a recording or a folder that holds some, or a list of these
factors: str = ""  # CSV file with the factors of recordings without a manifest, by path or name
topics: list = []  # topics to look at; none: all, the work topic of the runs first
headline: str = "busiest"  # or "slowest": the topic that comes first where no work topic is named
level: float = 0.95  # nominal coverage of the intervals
warm_up_s: float = 0.0  # seconds at the start of each run that are left out
include_failed: bool = False  # let runs that failed enter the estimates
leave_out: list = []  # "lossy", "disturbed": such runs enter no estimate either
worst: int = 10  # how many of the worst messages are explained
correct_omission: bool = False  # percentiles corrected for coordinated omission beside the others
output_dir: str = ""  # folder for metrics.json; empty: not written

# %%
import roslens as rl
from roslens.analysis.latency.parameters import LatencyParameters
from roslens.analysis.latency.report import LatencyReport

parameters = LatencyParameters.of_notebook(globals())
opened = rl.open(parameters.recordings, factors=parameters.factors)
report = LatencyReport(opened, parameters)
opened

# %% [markdown]
# ## Answer

# %%
report.answer()

# %% [markdown]
# ## Loss first
#
# What the tracer dropped, what is odd about the recordings, and which messages did not arrive.

# %%
report.loss()

# %% [markdown]
# ## Runs

# %%
report.runs()

# %% [markdown]
# ## Latency
#
# ### Distribution

# %%
report.distributions()

# %% [markdown]
# ### Mean and percentiles
#
# A percentile is that of a run, averaged over runs. *Effective* is the number of independent
# samples that the correlated ones are worth.

# %%
report.statistics()

# %%
report.intervals()

# %% [markdown]
# ### Effects of the factors

# %%
report.factors()

# %% [markdown]
# ### Coordinated omission
#
# A periodic publisher that is held up while the system stalls publishes less just then. Asked for
# with `correct_omission`; both are shown.

# %%
report.omission()

# %% [markdown]
# ### Further topics

# %%
report.further_topics()

# %% [markdown]
# ### The worst messages

# %%
report.worst()

# %% [markdown]
# ### Drift over the order of execution

# %%
report.drift()

# %% [markdown]
# ## Callbacks

# %%
report.callbacks()

# %% [markdown]
# ## Services

# %%
report.services()

# %% [markdown]
# ## CPU and memory

# %%
report.resources()

# %% [markdown]
# ## Definitions

# %%
report.definitions()

# %%
report.write()
