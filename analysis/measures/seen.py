"""Count what was recorded of a run over time: per CPU, process and kind of event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

import polars as pl

from roslens.collectors.ros2.losses import process_of_stream

Of = Literal["CPU", "process", "event"]
OF: tuple[Of, ...] = get_args(Of)
STEPS = 240


def seen_in_steps(events: Mapping[str, pl.LazyFrame], processes: pl.DataFrame) -> pl.DataFrame:
    """Count the events of each CPU, process and kind in `STEPS` equal steps of a run.

    Parameters
    ----------
    events
        Raw events by name, with ``time_ns``, ``host``, ``trace``, ``cpu_id`` and ``vpid``.
    processes
        ``host``, ``vpid``, ``procname``.

    Returns
    -------
    polars.DataFrame
        One row per ``of`` (CPU, process or event), ``name``, ``host`` and ``step`` (ns since the
        epoch at which it begins) with ``events`` (count), ``begin_ns`` and ``end_ns`` (times of
        the first and the last event); ``trace`` and ``cpu_id``, or ``vpid``, identify the CPU or
        process. Steps without an event have no row.
    """
    time = pl.col("time_ns")
    spans = pl.collect_all(
        frame.select(begin=time.min(), end=time.max()) for frame in events.values()
    )
    every = pl.concat([pl.DataFrame(schema={"begin": pl.Int64, "end": pl.Int64}), *spans])
    first, last = every["begin"].min(), every["end"].max()
    if not isinstance(first, int) or not isinstance(last, int):
        first = last = 0
    width = (last - first) // STEPS + 1
    key = ["host", "trace", "cpu_id", "vpid"]
    counted = [
        frame.group_by(pl.col(column).cast(kind) for column, kind in _WHERE.items())
        .agg(events=pl.len(), begin_ns=pl.col("at").min(), end_ns=pl.col("at").max())
        .with_columns(event=pl.lit(name))
        for name, frame in (
            (name, frame.select(*key, at=time, step=first + (time - first) // width * width))
            for name, frame in events.items()
        )
    ]
    counts = pl.concat([pl.LazyFrame(schema=_COUNTED), *counted], how="diagonal")
    rows = counts.collect(engine="streaming")
    names = processes.select("host", "vpid", "procname").unique(["host", "vpid"], keep="first")
    several = rows["trace"].n_unique() > 1
    place = pl.lit("CPU ") + pl.col("cpu_id").cast(pl.String)
    parts = [
        _summed(rows.drop_nulls("cpu_id"), "CPU", "trace", "cpu_id").with_columns(
            name=pl.col("trace") + " " + place if several else place
        ),
        _summed(rows.drop_nulls("vpid"), "process", "vpid")
        .join(names, on=["host", "vpid"], how="left", maintain_order="left")
        .with_columns(name=pl.format("{} ({})", pl.col("procname").fill_null("?"), "vpid")),
        _summed(rows, "event", "event").with_columns(name="event"),
    ]
    return pl.concat(parts, how="diagonal").select(
        *("of", "name", "host", "trace", "cpu_id", "vpid", "step", "events", "begin_ns", "end_ns")
    )


_WHERE: Mapping[str, pl.DataType] = {
    "host": pl.String(), "trace": pl.String(), "cpu_id": pl.Int32(), "vpid": pl.Int32(),
    "step": pl.Int64(),
}  # fmt: skip
_COUNTED = {
    **_WHERE, "events": pl.UInt32(), "begin_ns": pl.Int64(), "end_ns": pl.Int64(),
    "event": pl.String(),
}  # fmt: skip


def _summed(rows: pl.DataFrame, kind: Of, *key: str) -> pl.DataFrame:
    return (
        rows.group_by("host", *key, "step")
        .agg(pl.col("events").sum(), pl.col("begin_ns").min(), pl.col("end_ns").max())
        .sort("host", *key, "step")
        .with_columns(of=pl.lit(kind))
    )


def missing_events(losses: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return where events are missing, under the names of the rows of `seen_in_steps` concerned.

    Parameters
    ----------
    losses
        The ``losses`` table.
    steps
        From `seen_in_steps`.

    Returns
    -------
    polars.DataFrame
        ``of``, ``name``, ``begin_ns``, ``end_ns``; an unknown begin or end is that of the run. A
        CPU without any event has the name that it would have.
    """
    first, last = steps["begin_ns"].min(), steps["end_ns"].max()
    named = steps.select("of", "name", "host", "trace", "cpu_id", "vpid").unique()
    several = losses["trace"].n_unique() > 1 or named["trace"].drop_nulls().n_unique() > 1
    place = pl.lit("CPU ") + pl.col("cpu_id").cast(pl.String)
    with_process = losses.with_columns(process_of_stream())
    of_cpu = with_process.drop_nulls("cpu_id").with_columns(
        of=pl.lit("CPU"), name=pl.col("trace") + " " + place if several else place
    )
    of_process = with_process.filter(pl.col("cpu_id").is_null()).join(
        named.filter(pl.col("of") == "process").select("of", "host", "vpid", "name"),
        on=["host", "vpid"],
    )
    return pl.concat([of_cpu, of_process], how="diagonal").select(
        "of",
        "name",
        pl.col("begin_ns").fill_null(first),
        pl.col("end_ns").fill_null(last),
    )
