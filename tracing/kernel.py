"""What records the kernel beside the programs: LTTng's modules, ftrace or perf; or why nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from roslens.recording import RunFailedError, UsageError
from roslens.tracing.ftrace.recorder import KernelRecording, ftrace_recording
from roslens.tracing.ftrace.tracefs import why_no_ftrace
from roslens.tracing.lttng import TracingOptions
from roslens.tracing.lttng.kernel import why_no_kernel_tracing
from roslens.tracing.perf.buffers import why_no_perf
from roslens.tracing.perf.switches import perf_recording

KernelKind = Literal["lttng", "ftrace", "perf"]
_ONLY = (
    "perf_event_open tells when the programs recorded had a CPU, and not who had it instead, nor "
    "when they were woken"
)


def choose_kernel(options: TracingOptions) -> tuple[KernelKind | None, list[str]]:
    """What is to record the kernel, and what the user should know about it.

    Raises
    ------
    UsageError
        The kernel must be recorded and cannot be.
    """
    if options.kernel == "off":
        return None, []
    reasons = {"lttng": _why_no_lttng, "ftrace": _why_no_ftrace, "perf": _why_no_perf}
    kinds: tuple[KernelKind, ...] = ("lttng", "ftrace", "perf")
    wanted = [k for k in kinds if options.kernel in (k, "auto", "required")]
    complaints: list[str] = []
    for kind in wanted:
        reason = reasons[kind](options)
        if reason is None:
            return kind, ["; ".join([_ONLY, *complaints])] if kind == "perf" else []
        complaints.append(reason)
    text = "; ".join(complaints)
    if options.kernel != "auto":
        raise UsageError(text)
    return None, [text]


def _why_no_lttng(options: TracingOptions) -> str | None:
    if options.tracer == "native":
        return "no kernel trace by LTTng: the native tracer runs without it"
    return why_no_kernel_tracing()


def _why_no_ftrace(options: TracingOptions) -> str | None:
    return _why_not_bounded(options, "ftrace") or why_no_ftrace()


def _why_no_perf(options: TracingOptions) -> str | None:
    return _why_not_bounded(options, "perf_event_open") or why_no_perf()


def _why_not_bounded(options: TracingOptions, what_records: str) -> str | None:
    bounded = {
        "mode: snapshot": options.mode == "snapshot",
        "max_disk": options.max_disk is not None,
        "flight": options.flight is not None,
    }
    for what, wanted in bounded.items():
        if wanted:
            return f"no kernel trace by {what_records}: it keeps all, which is not '{what}'"
    return None


@contextmanager
def kernel_recording(
    options: TracingOptions, kind: KernelKind | None, output: Path
) -> Iterator[KernelRecording | None]:
    """Record the kernel into the folder `output`, unless a session of LTTng does it.

    Raises
    ------
    RunFailedError
        It cannot be recorded.
    """
    if kind is None or kind == "lttng":
        yield None
        return
    size = options.kernel_buffer
    with ExitStack() as stack:
        try:
            recording = stack.enter_context(
                perf_recording(output, buffer_bytes=size)
                if kind == "perf"
                else ftrace_recording(
                    output,
                    options.kernel_events,
                    buffer_bytes=size,
                    descendants_only=options.kernel_of == "workload",
                )
            )
        except RunFailedError as error:
            if options.kernel != "auto":
                raise
            recording = KernelRecording(notes=[str(error)])
        yield recording
