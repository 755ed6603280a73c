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
# # Communication
#
# Shared or unique pointer, within a process or through the middleware: how often publishers
# publish and subscriptions receive, what is lost on the way, and what latency really measures.
# The study of rclcpp of 2019, with loss and the age of queues made visible and with intervals
# over runs.

# %% tags=["parameters"]
recordings: list = ["data/samples/communication", "data/samples/communication_shared"]  # folders
factors: str = ""  # CSV file with the factors of recordings without a manifest, by path or name
topics: list = []  # topics to look at; none: the work topic of each run, else the application's
level: float = 0.95  # nominal coverage of the intervals
warm_up_s: float = 0.0  # seconds at the start of each run that are left out
include_failed: bool = False  # let runs that failed enter the estimates
published: str = "data/published/communication"  # folder with the published figures
results: str = ""  # folder with results of the study's own tool (test_inter_shared_...); none
output_dir: str = ""  # folder for metrics.json and cells.csv; empty: not written

# %%
import roslens as rl
from roslens.analysis.communication.parameters import CommunicationParameters
from roslens.analysis.communication.report import CommunicationReport
from roslens.recordings import resolve

parameters = CommunicationParameters.of_notebook(globals())
opened = rl.open(parameters.recordings, factors=parameters.factors)
report = CommunicationReport(opened, parameters, resolve(parameters.published))
opened

# %% [markdown]
# ## Answer

# %%
report.answer()

# %% [markdown]
# ## Loss first
#
# What the tracer dropped, which figures are approximate or partial for it, and where a full queue
# makes latency a measure of backlog.

# %%
report.loss()

# %% [markdown]
# ## Cells

# %%
report.overview()

# %% [markdown]
# ## As published, and here

# %%
report.published()

# %% [markdown]
# ## Periods
#
# One dot per publisher and per subscription, as the study drew them.

# %%
report.periods()

# %% [markdown]
# ## Latency

# %%
report.latency()

# %% [markdown]
# ## Backlog
#
# How many later messages a publisher had sent when a message was taken.

# %%
report.backlog()

# %% [markdown]
# ## Loss per pair

# %%
report.pairs()

# %% [markdown]
# ## Where the latency goes

# %%
report.hops()

# %% [markdown]
# ### One publication

# %%
report.flow()

# %% [markdown]
# ## Copies and allocation

# %%
report.copies()

# %% [markdown]
# ## The trace beside the programs' own logs

# %%
report.log()

# %% [markdown]
# ## Definitions

# %%
report.definitions()

# %%
report.write()
