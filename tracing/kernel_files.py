"""Recognise files of other kernel recorders by their content, and convert them to CTF."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roslens.tracing.ftrace.ctf import Converted
from roslens.tracing.ftrace.trace_dat import convert_trace_dat, is_kernel_trace
from roslens.tracing.perf.perf_data import convert_perf_data, is_perf_data
from roslens.tracing.perfetto.trace import convert_perfetto, is_perfetto


def reader_of(path: Path) -> Callable[..., Converted] | None:
    """Return the converter for a file of trace-cmd, perf or Perfetto, or None for other files.

    The converter takes the file, the new trace's folder, ``beside`` (a folder that may hold traces
    of programs, whose clock is then used) and ``max_bytes``. A damaged file may raise any
    exception: call the converter through `roslens.recording.foreign.read_foreign`.
    """
    if is_kernel_trace(path):
        return convert_trace_dat
    if is_perf_data(path):
        return convert_perf_data
    return convert_perfetto if is_perfetto(path) else None
