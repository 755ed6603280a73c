"""The tracer of a recording: LTTng, or the one of our own; both have the same shape."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from roslens.tracing.ftrace.tracefs import remove_leftovers
from roslens.tracing.kernel import choose_kernel
from roslens.tracing.lttng import Session, SessionDaemon, TracingOptions, recording_session
from roslens.tracing.lttng import session_daemon as _session_daemon
from roslens.tracing.lttng.session import check_disk
from roslens.tracing.native_tracer.library import native_preload
from roslens.tracing.native_tracer.session import (
    NativeSession,
    NativeTracer,
    native_session,
    native_tracer,
)
from roslens.tracing.ros import RosEnvironment

Tracer = SessionDaemon | NativeTracer
TracingSession = Session | NativeSession


@contextmanager
def start_tracer(
    options: TracingOptions,
    note: Callable[[str], None] | None = None,
    hold: Sequence[int] = (),
) -> Iterator[Tracer]:
    """The tracer that the options name, for as long as the context lasts.

    Parameters
    ----------
    options
        Their tracer is ``lttng`` or ``native``.
    note
        Called with one line when something takes long.
    hold
        Descriptors that are kept open until all is cleared up, although this process is killed.

    Raises
    ------
    UsageError
        LTTng is not installed; or the kernel is required and cannot be traced.
    RunFailedError
        No session daemon runs and none can be started.
    """
    remove_leftovers()
    kind, notes = choose_kernel(options)
    with (
        native_tracer(hold)
        if options.tracer == "native"
        else _session_daemon(
            kernel=options.kernel if kind == "lttng" else "off",
            machine=options.daemon == "machine",
            progress=note,
            hold=hold,
        )
    ) as tracer:
        tracer.notes += notes
        yield tracer


def fits(tracer: Tracer, options: TracingOptions) -> bool:
    """Whether a tracer is the one that the options name."""
    return isinstance(tracer, NativeTracer) == (options.tracer == "native")


def check_options(tracer: Tracer, options: TracingOptions) -> None:
    """Find out whether a tracer can do what the options say, before anything is made.

    Raises
    ------
    UsageError
        It cannot.
    """
    choose_kernel(options)
    if isinstance(tracer, SessionDaemon):
        check_disk(options, kernel=tracer.kernel)


def start_session(
    tracer: Tracer, options: TracingOptions, output: Path, preload: Sequence[Path]
) -> AbstractContextManager[TracingSession]:
    """Record into the folder `output` as long as the context lasts.

    Parameters
    ----------
    preload
        What the programs preload; the native tracer's library is the first of them.

    Raises
    ------
    LttngError, RunFailedError
        The session cannot be made.
    """
    if isinstance(tracer, NativeTracer):
        return native_session(tracer, options, output, preload[0])
    return recording_session(tracer, options, output)


def needed_preload(options: TracingOptions, ros: RosEnvironment | None) -> tuple[Path, ...]:
    """What the programs of a run preload so that the tracer sees their events.

    Raises
    ------
    UsageError, HeaderError, CompileError
        It cannot be had; says why.
    """
    if options.tracer == "native":
        return tuple(native_preload(ros))
    return tuple(ros.preload()) if ros is not None else ()
