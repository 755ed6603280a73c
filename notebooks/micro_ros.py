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
# # micro-ROS: memory, throughput and latency on a constrained device
#
# Memory by kind per entity, throughput by transport, latency by direction, and what figures of
# this kind can support. Without recordings or results of a board the figures published for a
# Renesas EK-RA6M5 are computed anew.

# %% tags=["parameters"]
recordings: list = []  # recordings of the suite micro-ros, or folders that hold some
results: list = []  # folders with the files of a board's test bench
source: str = ""  # published or recordings; empty: published where nothing else is given
factors: str = ""  # CSV file with the factors of recordings without a manifest
level: float = 0.95  # nominal coverage of the intervals
budgets: dict = {}  # most bytes per entity (or slot), such as {publisher: 600}
lines: dict = {}  # line rates in bit/s by transport, such as {serial: [115200, 10]} (bits per byte)
include_failed: bool = False  # let runs that failed enter the estimates
leave_out: list = []  # "lossy", "disturbed": such runs enter no estimate either
output_dir: str = ""  # folder for metrics.json, slopes.csv, checks.csv; empty: not written

# %%
from roslens.analysis.micro_ros.parameters import MicroRosParameters
from roslens.micro_ros import micro_ros_report

parameters = MicroRosParameters.of_notebook(globals())
report = micro_ros_report(parameters)
report.source()

# %% [markdown]
# ## Answer

# %%
report.answer()

# %% [markdown]
# ## Checks

# %%
report.checks()

# %% [markdown]
# ## Memory per entity

# %%
report.memory()

# %% [markdown]
# ## Memory per slot of the RMW history

# %%
report.history()

# %% [markdown]
# ## What was published

# %%
report.statements()

# %% [markdown]
# ## Throughput

# %%
report.throughput()

# %% [markdown]
# ## Latency by direction

# %%
report.latency()

# %% [markdown]
# ## Round trips

# %%
report.round_trips()

# %% [markdown]
# ## Definitions

# %%
report.definitions()

# %%
report.write()
