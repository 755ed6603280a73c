"""Start the tracer of a recording: LTTng, or our own; both have the same interface.

Also record the kernel with LTTng's modules, ftrace or perf, or explain why it is not recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from roslens.recording import RunFailedError, UsageError
from roslens.tracing.ftrace.functions import Function, notes_of, place_functions
from roslens.tracing.ftrace.recorder import FUNCTIONS_NAME, KernelRecording, ftrace_recording
from roslens.tracing.ftrace.tracefs import remove_leftovers, why_no_ftrace
from roslens.tracing.lttng import Session, SessionDaemon, TracingOptions, recording_session
from roslens.tracing.lttng import session_daemon as _session_daemon
from roslens.tracing.lttng.kernel import why_no_kernel_tracing
from roslens.tracing.lttng.session import check_disk
from roslens.tracing.native_tracer.library import native_preload
from roslens.tracing.native_tracer.session import (
    NativeSession,
    NativeTracer,
    native_session,
    native_tracer,
)
from roslens.tracing.perf.buffers import why_no_perf
from roslens.tracing.perf.switches import perf_recording
from roslens.tracing.ros import RosEnvironment

KernelKind = Literal["lttng", "ftrace", "perf"]
_ONLY = (
    "perf_event_open shows when the programs recorded had a CPU, and not who had it instead, nor "
    "when they were woken"
)


def choose_kernel(options: TracingOptions) -> tuple[KernelKind | None, list[str]]:
    """Choose the kernel recorder; return it, and what the user should know about it.

    Raises
    ------
    UsageError
        The kernel must be recorded, but cannot be.
    """
    if options.kernel == "off":
        return None, []
    kinds: tuple[KernelKind, ...] = ("lttng", "ftrace", "perf")
    complaints: list[str] = []
    for kind in (k for k in kinds if options.kernel in (k, "auto", "required")):
        reason = _why_not(kind, options)
        if reason is None:
            return kind, ["; ".join([_ONLY, *complaints])] if kind == "perf" else []
        complaints.append(reason)
    text = "; ".join(complaints)
    if options.kernel != "auto":
        raise UsageError(text)
    return None, [text]


def _why_not(kind: KernelKind, options: TracingOptions) -> str | None:
    """Return in one line why a recorder cannot record the kernel with the options, or None."""
    if kind == "lttng":
        native = "no kernel trace by LTTng: the native tracer runs without it"
        return native if options.tracer == "native" else why_no_kernel_tracing()
    what_records, why_no = {
        "ftrace": ("ftrace", why_no_ftrace),
        "perf": ("perf_event_open", why_no_perf),
    }[kind]
    bounded = {
        "mode: snapshot": options.mode == "snapshot",
        "max_disk": options.max_disk is not None,
        "flight": options.flight is not None,
    }
    for setting, wanted in bounded.items():
        if wanted:
            return f"no kernel trace by {what_records}: it keeps all, which is not '{setting}'"
    return why_no()


@contextmanager
def kernel_recording(
    options: TracingOptions,
    kind: KernelKind | None,
    output: Path,
    functions: Sequence[Function] = (),
) -> Iterator[KernelRecording]:
    """Record the kernel into the folder `output`, unless a session of LTTng records it.

    Also record the calls of functions, in the programs that the calling thread starts.

    Raises
    ------
    RunFailedError
        The kernel cannot be recorded.
    """
    recording, size = KernelRecording(), options.kernel_buffer
    with ExitStack() as stack:
        try:
            if kind == "perf":
                recording = stack.enter_context(perf_recording(output, buffer_bytes=size))
            elif kind == "ftrace":
                of_machine = ftrace_recording(
                    output,
                    options.kernel_events,
                    buffer_bytes=size,
                    descendants_only=options.kernel_of == "workload",
                )
                recording = stack.enter_context(of_machine)
        except RunFailedError as error:
            if options.kernel != "auto":
                raise
            recording.notes.append(str(error))
        if functions:
            of_functions = ftrace_recording(
                output,
                (),
                buffer_bytes=size,
                descendants_only=True,
                prepare=lambda instance: place_functions(instance, functions, own=True),
                raw_name=FUNCTIONS_NAME,
                recording=recording,
            )
            stack.enter_context(of_functions)
            recording.of_functions += notes_of(functions)
        yield recording


Tracer = SessionDaemon | NativeTracer
TracingSession = Session | NativeSession


@contextmanager
def start_tracer(
    options: TracingOptions,
    note: Callable[[str], None] | None = None,
    hold: Sequence[int] = (),
) -> Iterator[Tracer]:
    """Yield the tracer selected by the options, for as long as the context lasts.

    Parameters
    ----------
    options
        The options, whose tracer is ``lttng`` or ``native``.
    note
        Called with a line when something takes long.
    hold
        Descriptors kept open until everything is cleaned up, even if this process is killed.

    Raises
    ------
    UsageError
        LTTng is not installed; or the kernel is required, but cannot be traced.
    RunFailedError
        No session daemon runs and none can be started.
    """
    remove_leftovers()
    kind, notes = choose_kernel(options)
    with (
        native_tracer(hold)
        if options.tracer == "native"
        else _session_daemon(
            kernel=kind == "lttng",
            machine=options.daemon == "machine",
            progress=note,
            hold=hold,
        )
    ) as tracer:
        tracer.notes += notes
        yield tracer


def is_selected(tracer: Tracer, options: TracingOptions) -> bool:
    """Return whether a tracer is the one that the options select."""
    return isinstance(tracer, NativeTracer) == (options.tracer == "native")


def check_options(tracer: Tracer, options: TracingOptions) -> None:
    """Check that a tracer supports the options, before anything is created.

    Raises
    ------
    UsageError
        The tracer does not support the options.
    """
    choose_kernel(options)
    if isinstance(tracer, SessionDaemon):
        check_disk(options, kernel=tracer.kernel)


def start_session(
    tracer: Tracer, options: TracingOptions, output: Path, preload: Sequence[Path]
) -> AbstractContextManager[TracingSession]:
    """Record into the folder `output` for as long as the context lasts.

    Parameters
    ----------
    preload
        Libraries that the programs preload; the native tracer's library must be first.

    Raises
    ------
    LttngError, RunFailedError
        The session cannot be created.
    """
    if isinstance(tracer, NativeTracer):
        return native_session(tracer, options, output, preload[0])
    return recording_session(tracer, options, output)


def needed_preload(options: TracingOptions, ros: RosEnvironment | None) -> tuple[Path, ...]:
    """Return the libraries that a run's programs preload so that the tracer sees their events.

    Raises
    ------
    UsageError, HeaderError, CompileError
        A library is not available; the message states why.
    """
    if options.tracer == "native":
        return tuple(native_preload(ros))
    return tuple(ros.preload()) if ros is not None else ()
