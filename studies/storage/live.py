"""Represent each run of the storage benchmark as one row, and estimate figures over runs.

The throughput of a run is computed in two ways: as in the study, and correctly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from roslens.analysis.estimate import Cell, Estimate, Metric
from roslens.analysis.runs import Run, by_cell
from roslens.analysis.statistics.fractions import fraction_over_runs
from roslens.analysis.statistics.over_runs import percentile_over_runs, value_over_runs
from roslens.recording import Recording, UsageError
from roslens.recording.arrays import Floats, np
from roslens.studies.storage.results.comparison import DIGEST_SCHEMA, Batches
from roslens.studies.storage.results.runs import StorageRun


def mean_of_ratios(run: Batches) -> float:
    """Return bytes per second as in the study: the mean over calls of each call's own ratio.

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
    """Return bytes per second: all bytes over all time, including closing the file.

    Raises
    ------
    ValueError
        Writing and closing took no time by the clock.
    """
    nanoseconds = int(run.calls["write_ns"].sum()) + run.close_ns
    if nanoseconds == 0:
        raise ValueError("writing and closing took no time by the clock")
    return int(run.calls["num_bytes"].sum()) / nanoseconds * 1e9


FACTORS = ("message_size", "batch_size", "plugin_config")

THROUGHPUT = Metric(
    "storage_throughput",
    "bytes of all messages over the time of all write calls and of the close",
    "byte/s",
    "higher",
)
AS_PUBLISHED = Metric(
    "storage_throughput_mean_of_calls",
    "mean over write calls of each call's bytes over its time, the close left out (as published; "
    "calls that only fill a buffer look free)",
    "byte/s",
    "higher",
)
DROPPED = Metric(
    "storage_dropped",
    "messages that found the queue before the writer full, of those that came",
    "1",
    scale="fraction",
)
_WRITE_TIME = "time of a write call by the program's own monotonic clock"
_PERCENTILES = {"storage_write_p50": 0.5, "storage_write_p99": 0.99}
MEMORY = Metric(
    "storage_memory",
    "peak resident memory while writing beyond that just before opening the file",
    "byte",
)
ON_DISK = Metric("storage_bytes_on_disk", "bytes of the files when closed", "byte")
SIZE = Metric("storage_size", "bytes of the files over bytes of the messages", "byte/byte")


@dataclass(frozen=True)
class LiveRun:
    """A run that counts, with the files of its benchmark.

    Attributes
    ----------
    machine
        Model of the CPU; campaigns of one machine belong together.
    """

    run: Run
    machine: str
    storage: StorageRun

    @property
    def memory(self) -> float | None:
        """Value of `MEMORY` in bytes; None where the system does not report it."""
        before, peak = self.storage.facts.rss_before_bytes, self.storage.facts.rss_peak_bytes
        return None if before is None or peak is None else float(max(0, peak - before))


Measure = Callable[[LiveRun], float | None]
"""A figure of one run; None where it is not known."""

_PER_RUN: Mapping[Metric, Measure] = {
    Metric("storage_close_time", "time of closing the file", "ns"): lambda live: float(
        live.storage.facts.close_ns
    ),
    Metric(
        "storage_cpu_per_byte",
        "CPU time of all threads from the first write call to the close, per byte of messages",
        "ns/byte",
    ): lambda live: live.storage.facts.cpu_ns / live.storage.facts.bytes,
    MEMORY: lambda live: live.memory,
    ON_DISK: lambda live: float(live.storage.facts.bytes_on_disk),
    SIZE: lambda live: live.storage.facts.bytes_on_disk / live.storage.facts.bytes,
}


def machine_of(recording: Recording) -> str:
    """Return the label of a machine: the model of its CPU, never its name."""
    manifest = recording.manifest
    return (manifest.host.cpu_model if manifest else None) or "this machine"


def digests_of(runs: Sequence[LiveRun]) -> pl.DataFrame:
    """Return runs with all `FACTORS` in the columns of the published digests; `run` is the block.

    `avg_byte_throughput` is bytes over time, including the close, whatever the column's name says.

    Raises
    ------
    UsageError
        One cell has two runs of a block.
    """
    # Two recordings of one campaign share their blocks; other campaigns have others.
    blocks = list(dict.fromkeys(live.run.block for live in runs))
    rows = [
        (
            live.machine,
            blocks.index(live.run.block),
            *study_cell(live),
            overall(live.storage.batches),
            live.storage.batches.close_ns / 1e9,
        )
        for live in runs
    ]
    frame = pl.DataFrame(rows, schema=DIGEST_SCHEMA, orient="row")
    key = ["machine", "run", "messages", "batch_size", "plugin_config"]
    twice = frame.filter(pl.struct(key).is_duplicated())
    if not twice.is_empty():
        raise UsageError(
            f"{', '.join(map(str, twice.row(0)[1:5]))}: a block has this cell more than once; the "
            "same recording was given twice"
        )
    return frame


def study_cell(live: LiveRun) -> tuple[str, str, str]:
    """Return the levels of `FACTORS`."""
    size, batch, config = (str(live.run.cell[name]) for name in FACTORS)
    return size, batch, config


def estimates(runs: Sequence[LiveRun], level: float) -> list[Estimate]:
    """Return all estimates, cell by cell."""
    return [
        e
        for members in by_cell(runs)
        for e in _estimates_of_cell(members, members[0].run.cell, level)
    ]


def _estimates_of_cell(runs: Sequence[LiveRun], cell: Cell, level: float) -> list[Estimate]:
    calls = sum(live.storage.facts.write_calls for live in runs)
    results = [
        value_over_runs(
            metric, cell, [measure(live.storage.batches) for live in runs], calls, level
        )
        for metric, measure in ((THROUGHPUT, overall), (AS_PUBLISHED, mean_of_ratios))
    ]
    facts = [live.storage.facts for live in runs]
    if all(f.produced is not None for f in facts):
        dropped = [f.dropped or 0 for f in facts]
        results.append(
            fraction_over_runs(DROPPED, cell, dropped, [f.produced or 0 for f in facts], level)
        )
    times = [write_times(live) for live in runs]
    for name, q in _PERCENTILES.items():
        metric = Metric(name, f"P{100 * q:g} of the {_WRITE_TIME}", "ns")
        results.append(percentile_over_runs(metric, cell, times, q, level))
    return results + estimates_per_run(runs, _PER_RUN, level)


def estimates_per_run(
    runs: Sequence[LiveRun], measures: Mapping[Metric, Measure], level: float
) -> list[Estimate]:
    """Estimate figures of one cell as means over the runs in which they are known."""
    results = []
    for metric, measure in measures.items():
        values = [value for live in runs if (value := measure(live)) is not None]
        if values:
            cell = runs[0].run.cell
            results.append(value_over_runs(metric, cell, values, len(values), level))
    return results


def write_times(live: LiveRun) -> Floats:
    """Return the time of each write call in ns, in their order."""
    return live.storage.batches.calls["write_ns"].to_numpy().astype(np.float64)
