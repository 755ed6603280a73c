"""Files of other recorders of the kernel, known by their content; each becomes a CTF trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from roslens.tracing.ftrace.ctf import Converted
from roslens.tracing.ftrace.trace_dat import convert_trace_dat, is_kernel_trace
from roslens.tracing.perf.perf_data import convert_perf_data, is_perf_data
from roslens.tracing.perfetto.trace import convert_perfetto, is_perfetto


def reader_of(path: Path) -> Callable[..., Converted] | None:
    """What makes a CTF trace of a file of trace-cmd, perf or Perfetto; None of any other.

    It takes the file, the new trace's folder, ``beside`` (where traces of programs may lie, whose
    clock is then taken) and ``max_bytes``. A damaged file may raise anything: read it by
    `roslens.recording.foreign.read_foreign`.
    """
    if is_kernel_trace(path):
        return convert_trace_dat
    if is_perf_data(path):
        return convert_perf_data
    return convert_perfetto if is_perfetto(path) else None
