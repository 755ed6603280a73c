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
# # Leaks
#
# Whether memory climbs, by how much per second and per message, and the smallest climb that would
# have been noticed. The run is the unit of replication: one robust slope per run, Student's t over
# runs; a trend within one run is no evidence, for memory has long swings of its own.

# %% tags=["parameters"]
recordings: str = "data/samples/demo"  # a recording or a folder that holds some, or a list of these
factors: str = ""  # CSV file with the factors of recordings without a manifest, by path or name
series: str = "rss"  # which size of memory: rss, pss or heap
margin: float = 1024.0  # B/s; smaller slopes are as good as none
level: float = 0.95  # nominal coverage of the intervals
warm_up_s: float = 0.0  # seconds left out at the start; 0: 5 s, at most a tenth of the shortest run
cut_end_s: float = 0.0  # seconds left out at the end of what each run did
include_failed: bool = False  # let runs that failed enter the estimates
leave_out: list = []  # "lossy", "disturbed": such runs enter no estimate either
output_dir: str = ""  # folder for metrics.json and leaks.csv; empty: not written

# %%
import roslens as rl
from roslens.analysis.leaks.parameters import LeaksParameters
from roslens.analysis.leaks.report import LeaksReport

parameters = LeaksParameters.of_notebook(globals())
opened = rl.open(parameters.recordings, factors=parameters.factors)
report = LeaksReport(opened, parameters)
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
# ## Verdicts

# %%
report.verdicts()

# %% [markdown]
# ## Memory over time

# %%
report.over_time()

# %% [markdown]
# ## Slopes

# %%
report.slopes()

# %% [markdown]
# ## Callbacks that keep what they allocate

# %%
report.heap()

# %% [markdown]
# ## Why a peak is refused
#
# Many tools report the peak of the resident set (`ru_maxrss`). A peak never falls, so its slope is
# above zero whether or not anything leaks.

# %%
report.why_no_peak()

# %% [markdown]
# ## The published study of executors

# %%
report.statements()

# %% [markdown]
# ## Definitions

# %%
report.definitions()

# %%
report.write()
