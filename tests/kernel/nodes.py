"""Record nodes with ftrace, and read the rows they wrote about their own callbacks."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from roslens.collectors.collection import collect, tables
from roslens.recording import find_recordings
from roslens.tracing.command import record_command
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.lttng.settings import KERNEL_EVENTS


def recorded(node: str, output: Path, *events: str) -> Path:
    """Record and collect one of the programs here, also with other kernel events."""
    folder, manifest = record_command(
        ["python", str(Path(__file__).with_name(node))],
        output,
        options=TracingOptions(
            tracer="native", kernel="ftrace", kernel_events=(*KERNEL_EVENTS, *events)
        ),
        ros="embedded",
        trace_rclpy=True,
        time_limit=120,
    )
    assert manifest.status == "complete", manifest.failure
    assert (manifest.tracing.kernel, manifest.tracing.domains) == ("ftrace", ["ust", "kernel"])
    collect(find_recordings(folder)[0])
    return folder


def kernel(folder: Path) -> dict[str, pl.LazyFrame]:
    return {
        path.stem: pl.scan_parquet(path)
        for path in (folder / "events" / "kernel").glob("*.parquet")
    }


def executions(folder: Path) -> pl.DataFrame:
    """Return the rows of callback_scheduling joined with the node's log of the same executions."""
    scheduling = tables(find_recordings(folder)[0])["callback_scheduling"].collect()
    log = pl.read_csv(folder / "native" / "callbacks.csv")
    return (
        log.sort("begin_ns")
        .join_asof(scheduling.sort("start_ns"), left_on="begin_ns", right_on="start_ns")
        .filter(pl.col("begin_ns") < pl.col("start_ns") + pl.col("duration_ns"))
    )
