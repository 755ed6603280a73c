"""One publication of each cell with its hops, for drawing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from roslens.analysis.communication.figures import Hop, MessageFlow
from roslens.analysis.communication.hops import HOPS
from roslens.analysis.estimate import cell_label
from roslens.analysis.figures.style import wrapped
from roslens.analysis.runs import Run, cells_of, constant_factors


def median_flows(copied: pl.DataFrame, runs: Sequence[Run]) -> list[MessageFlow]:
    """The message of median latency in the first run of each cell that has any.

    Parameters
    ----------
    copied
        Messages with hops, ``behind``, ``logged_callback_ns`` and ``copy_ns``.
    """
    flows = []
    hidden = constant_factors(runs)
    for members in cells_of(runs).values():
        for run in members:
            rows = copied.filter((pl.col("run") == run.name) & (pl.col("outcome") == "delivered"))
            if rows.height:
                row = rows.sort("latency_ns", "message_id").row(rows.height // 2, named=True)
                own = {k: v for k, v in run.cell.items() if k not in hidden}
                flows.append(_flow(row, copied, cell_label(own)))
                break
    return flows


def _flow(row: Mapping[str, Any], everything: pl.DataFrame, cell: str) -> MessageFlow:
    start = int(row["publish_ns"])
    hops, at = [], 0
    for hop in HOPS:
        duration = row[f"hop_{hop}_ns"]
        if duration is not None:
            hops.append(Hop(hop.replace("_", " "), at, at + duration))
            at += duration
    callback = row["callback_end_ns"]
    if row["copy_ns"] is not None:
        hops.append(Hop("copy", at, at + int(row["copy_ns"])))
        at += int(row["copy_ns"])
    if callback is not None and callback - start >= at:
        hops.append(Hop("callback", at, callback - start))
    behind: list[int] = []
    if row["take_ns"] is not None:
        behind = (
            everything.filter(
                (pl.col("run") == row["run"])
                & (pl.col("publisher_id") == row["publisher_id"])
                & (pl.col("publish_ns") > start)
                & (pl.col("publish_ns") <= row["take_ns"])
            )
            .select((pl.col("publish_ns") - start).unique().sort())
            .to_series()
            .to_list()
        )
    title = f"{wrapped(cell, 44)}\n{row['topic']}, message {row['message_id']}"
    latency = int(row["latency_ns"])
    return MessageFlow(title, hops, behind, latency)
