"""Define the formats in which recordings can be exported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Format: TypeAlias = Literal[
    "perfetto",
    "otlp",
    "mcap",
    "dot",
    "mermaid",
    "csv",
    "hgrm",
    "hlog",
    "speedscope",
    "collapsed",
    "pprof",
]
FORMATS: Mapping[Format, str] = {
    "perfetto": "the timeline of one recording, for ui.perfetto.dev",
    "otlp": "spans of OpenTelemetry as OTLP JSON, one line per run: chains as traces",
    "mcap": "latencies, callbacks and resources of one recording over time, for Foxglove",
    "dot": "the graph of nodes and topics, for Graphviz",
    "mermaid": "the graph of nodes and topics, for Markdown",
    "csv": "one table, given with --table",
    "hgrm": "percentiles of latencies in ms, for the plots of HdrHistogram",
    "hlog": "a log with the latencies of each run, for the tools of HdrHistogram",
    "speedscope": "CPU time of callbacks by call stack, a profile each, for speedscope.app",
    "collapsed": "the same as collapsed stacks in ns, for flame graphs and the Firefox Profiler",
    "pprof": "the same for pprof ('go tool pprof -http=: FILE'), with the callback as a label",
}
"""Every export format, with a description of the file's content."""
