"""Recognise files of other kernel recorders by their content, and convert them to CTF."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roslens.tracing.ftrace.ctf import Converted
from roslens.tracing.ftrace.trace_dat import MAGIC as TRACE_DAT
from roslens.tracing.ftrace.trace_dat import convert_trace_dat
from roslens.tracing.perf.perf_data import MAGIC as PERF_DATA
from roslens.tracing.perf.perf_data import convert_perf_data
from roslens.tracing.perfetto.trace import convert_perfetto, is_perfetto


def reader_of(path: Path) -> Callable[..., Converted] | None:
    """Return the converter for a file of trace-cmd, perf or Perfetto, or None for other files.

    The converter takes the file, the new trace's folder, ``beside`` (a folder that may hold traces
    of programs, whose clock is then used) and ``max_bytes``. A damaged file may raise any
    exception: call the converter through `roslens.recording.foreign.read_foreign`.
    """
    with path.open("rb") as stream:
        head = stream.read(16)
    for magic, convert in ((TRACE_DAT, convert_trace_dat), (PERF_DATA, convert_perf_data)):
        if head.startswith(magic):
            return convert
    return convert_perfetto if is_perfetto(path) else None
