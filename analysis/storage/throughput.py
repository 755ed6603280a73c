"""Throughput of one run of the storage benchmark: the study's way, and the right one."""

from __future__ import annotations

import polars as pl

from roslens.collectors.results.storage_study import Batches


def mean_of_ratios(run: Batches) -> float:
    """Bytes per second as the study has it: the mean over calls of each call's own ratio.

    The close time is left out, so a configuration that only fills a buffer in most calls looks
    free.

    Raises
    ------
    ValueError
        A call took no time.
    """
    if run.calls["write_ns"].eq(0).any():
        raise ValueError("a write call took no time by the clock: its own ratio is not defined")
    ratio = run.calls.select((pl.col("num_bytes") / (pl.col("write_ns") * 1e-9)).mean())
    return float(ratio.item())


def overall(run: Batches) -> float:
    """Bytes per second: all bytes over all time, closing the file included.

    Raises
    ------
    ValueError
        Nothing took any time.
    """
    nanoseconds = int(run.calls["write_ns"].sum()) + run.close_ns
    if nanoseconds == 0:
        raise ValueError("writing and closing took no time by the clock")
    return int(run.calls["num_bytes"].sum()) / nanoseconds * 1e9
