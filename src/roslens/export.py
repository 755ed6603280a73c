"""Recordings for other tools: Perfetto, OpenTelemetry, Foxglove, graphs, CSV, HdrHistogram."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from roslens.analysis.interop import mcap_timings, opentelemetry
from roslens.analysis.interop.graph_text import dot, mermaid, node_topic_graph
from roslens.analysis.interop.perfetto import write_perfetto
from roslens.analysis.interop.stack_files import collapsed, pprof, speedscope
from roslens.analysis.measures.latency import clocks_refusal, medians
from roslens.analysis.measures.samples import run_samples, topic_groups
from roslens.analysis.statistics.hdr import log, percentile_table
from roslens.export_formats import Format
from roslens.recording import UsageError
from roslens.recording.arrays import np
from roslens.recording.errors import writing
from roslens.recording.files import write_atomically
from roslens.recordings import Recordings, open_recordings

_STACKS: Mapping[str, Callable[[pl.DataFrame], str | bytes]] = {
    "speedscope": speedscope,
    "collapsed": collapsed,
    "pprof": pprof,
}
_GRAPHS = {"dot": dot, "mermaid": mermaid}


def export(path: Path, out: Path, form: Format, table: str | None = None) -> None:
    """Write the recordings at `path` to the file `out`.

    Raises
    ------
    UsageError
        There is nothing to read, no such table, no message for HdrHistogram, there are several
        runs for a format of one run, or the format has no such times.
    UsageError, RunFailedError
        The file cannot be written; RunFailedError if the disk is full.
    """
    if (table is None) == (form == "csv"):
        raise UsageError("--table NAME goes with --format csv, and csv needs it")
    recordings = open_recordings(path)
    if form == "perfetto":
        write_perfetto(perfetto_tables(recordings, str(path)), out)
        return
    if form == "mcap":
        mcap_timings.write_mcap(tables_of_one(recordings, str(path), "an MCAP file"), out)
        return
    text: str | bytes
    if table is not None:
        text = _csv(recordings.table(table))
    elif form == "otlp":
        _check_begin(recordings, str(path), "OpenTelemetry")
        each = ((run.runs[0].name, _tables(run, opentelemetry.NEEDED)) for run in recordings)
        text = opentelemetry.otlp_json(each)
    elif form in ("hgrm", "hlog"):
        text = _histogram(recordings, path, form)
    elif form in _STACKS:
        text = _STACKS[form](recordings.stacks.frame())
    else:
        text = _GRAPHS[form](node_topic_graph(recordings))
    with writing(out):
        write_atomically(out, text)


def tables_of_one(
    recordings: Recordings, path: str, what: str = "a Perfetto trace"
) -> dict[str, pl.DataFrame]:
    """Return one run's tables that Perfetto and MCAP players show.

    Raises
    ------
    UsageError
        There are several runs at `path`, or the run began before 1970.
    """
    if len(recordings.recordings) != 1:
        raise UsageError(
            f"{path}: {what} is of one run, and here are {len(recordings.recordings)}; "
            "give the folder of one"
        )
    _check_begin(recordings, path, what)
    names = (
        "processes", "callback_instances", "publications", "messages", "service_calls", "heap",
    )  # fmt: skip
    tables = _tables(recordings, names)
    if not recordings.without_resources:
        tables["resources"] = recordings.resources.collect()
    return tables


def _check_begin(recordings: Recordings, path: str, what: str) -> None:
    """Refuse times that formats without negative times cannot hold."""
    begin = recordings.table("processes").select(pl.col("begin_ns").min()).collect().item()
    if begin is not None and begin < 0:
        raise UsageError(f"{path}: it was recorded before 1970, and {what} has no such times")


def perfetto_tables(recordings: Recordings, path: str) -> dict[str, pl.DataFrame]:
    """Add executors, stacks, CPU scheduling and waits of late messages to `tables_of_one`.

    Raises
    ------
    UsageError
        As in `tables_of_one`.
    """
    tables = tables_of_one(recordings, path) | _tables(recordings, ["executor_intervals"])
    tables["cpu_samples"] = recordings.cpu_samples.collect()
    name = recordings.runs[0].name
    late = recordings.why.lateness_by_run()[name]
    sentences = late.with_causes.select("message", why="sentence")
    tables["late"] = late.path.join(sentences, on="message", maintain_order="left")
    events = recordings.kernel_events(name, cut=True)
    scheduler = [name for name in ("sched_switch", "sched_waking") if name in events]
    return {**tables, **{name: events[name].collect() for name in scheduler}}


def _tables(recordings: Recordings, names: Sequence[str]) -> dict[str, pl.DataFrame]:
    frames = [recordings.table(name) for name in names]
    return dict(zip(names, pl.collect_all(frames), strict=True))


def _histogram(recordings: Recordings, path: Path, form: str) -> str:
    """Return latencies of the work topic, else the busiest, as percentiles or as a log of runs."""
    messages = recordings.table("messages")
    samples = run_samples(messages, recordings.runs, topic_groups(messages, recordings.runs)[0])
    told = medians(samples)
    by_run = {s.run.name: s for s in samples if s.run.name in told}
    if not by_run:
        bound = max((s.clock_bound_ns for s in samples), default=0.0)
        why = clocks_refusal(bound) if bound else "no callback is known to have got a message"
        raise UsageError(f"{path}: there is no latency to export: {why}")
    if form == "hgrm":
        return percentile_table(np.concatenate([s.sent_ns for s in by_run.values()]), 1e6)
    longest = max(s.seconds for s in by_run.values())
    return log({name: s.delivered_ns for name, s in by_run.items()}, longest)


def _csv(frame: pl.LazyFrame) -> str:
    """Write a frame as CSV, with lists as text because CSV has none."""
    lists = [name for name, kind in frame.collect_schema().items() if kind.is_nested()]
    flat = frame.with_columns(
        pl.col(name).cast(pl.List(pl.String)).list.join(" ") for name in lists
    )
    text = io.StringIO()
    flat.collect().write_csv(text)
    return text.getvalue()
