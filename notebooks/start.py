# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Start
#
# From "I have a trace" to "I see what happened to this message". Run all cells; everything follows
# the run that is chosen in the list.

# %% tags=["parameters"]
recordings: str = ""  # recordings; empty: those given to roslens lab, else the samples
topic: str = ""  # the topic of the latency picture; empty: the busiest

# %%
from roslens.widgets.start import StartPage, recordings_wanted

page = StartPage(recordings_wanted(recordings))
page.list()

# %%
page.choose()

# %% [markdown]
# ## Loss first

# %%
page.loss()

# %% [markdown]
# ## Topics

# %%
page.overview()

# %% [markdown]
# ## Nodes and topics

# %%
page.graph()

# %% [markdown]
# What is clicked in the graph is searched for in the timeline. The longest chain of messages, part by
# part, or the way of the message that was clicked in the timeline:

# %%
page.chain()

# %% [markdown]
# ## Timeline
#
# Wheel or + and - zoom, dragging or the arrow keys pan. Click a callback for its message's whole
# way. Drag with shift for a range: topics, graph, chain, the picture below and `page.view()` follow
# it. ? shows all keys.

# %%
page.timeline()

# %%
page.latency_of_range(topic)

# %% [markdown]
# ## Further

# %%
page.notebooks()
