"""What a run's quantile of latency is made of: the segments of the messages next to it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from roslens.analysis.path.path import Paths
from roslens.analysis.statistics.quantiles import quantile


def parts_of_quantile(
    paths: Paths, topics: frozenset[str], latency_ns: ArrayLike, q: float
) -> Mapping[str, float]:
    """Mean segments, from publish to callback_start, of the messages between two quantiles.

    These are (1 - q) / 2 to either side of q, at most 0.05. The means are scaled so that
    they add up to the q-quantile to the end.

    Parameters
    ----------
    topics, latency_ns
        Of which the quantile is; ns, at least one.

    Returns
    -------
    ns by kind of segment and, where it is known, the callback that held the message up; empty
    where no message has a path.
    """
    value, half = quantile(latency_ns, q), min(0.05, (1 - q) / 2)
    low, high = (quantile(latency_ns, max(x, 0.0)) for x in (q - half, q + half))
    took = pl.col("callback_start_ns") - pl.col("publish_ns")
    rows = (
        paths.messages.with_row_index("row")
        .filter(pl.col("topic").is_in(list(topics)))
        .sort((took - value).abs(), maintain_order=True)
    )
    near = rows.filter(took.is_between(low, high))
    near = rows.head(1) if near.is_empty() else near
    path = paths.of(np.sort(near["row"].to_numpy().astype(np.int64)), to_start=True)
    who = pl.format(", {} of {}", "who_callback", pl.col("who_node").fill_null("a node"))
    cause = pl.concat_str(pl.col("kind").cast(pl.String).str.replace_all("_", " "),
                          who.fill_null(""))  # fmt: skip
    spent = dict(path.group_by(cause.alias("cause")).agg(pl.sum("duration_ns")).iter_rows())
    total = sum(spent.values())
    return {name: ns * value / total for name, ns in spent.items()} if total else {}
