"""Record with the native tracer: no daemon, only a folder and two environment variables."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from roslens.recording import RunFailedError
from roslens.recording.manifest import Loss, TracingSettings
from roslens.recording.scratch import scratch_folder
from roslens.tracing.guard import guarded
from roslens.tracing.lttng.daemon import MARKER
from roslens.tracing.lttng.settings import NEEDED_CONTEXTS, TracingOptions
from roslens.tracing.native_tracer.library import (
    EVENTS_VARIABLE,
    FLIGHT_VARIABLE,
    FOLDER_VARIABLE,
    prepare,
)
from roslens.tracing.native_tracer.snapshot import take_snapshot
from roslens.tracing.native_tracer.trace_files import cut_to_content, read_written

VERSION = "1"
FLIGHT_NAME = "flight"
"""Folder of a flight recorder's files inside the run's folder, for the time of the run."""
_LEAST_FREE_BYTES = 1 << 20


@dataclass
class NativeTracer:
    """The counterpart of a session daemon; see `SessionDaemon` for the attributes."""

    token: str
    home: Path
    notes: list[str] = field(default_factory=list)

    @property
    def workload_variables(self) -> dict[str, str]:
        """Return the variables that the recorded programs need, whatever their folder is."""
        return {MARKER: self.token}

    def is_alive(self) -> bool:
        """Return True: there is no process that could end."""
        return True


@contextmanager
def native_tracer(hold: Sequence[int] = ()) -> Iterator[NativeTracer]:
    """Yield a tracer for as long as the context lasts; its processes end with this process.

    Parameters
    ----------
    hold
        Descriptors kept open until everything is cleaned up, even if this process is killed.
    """
    token = secrets.token_hex(6)
    with scratch_folder(Path(tempfile.gettempdir()), "roslens-native-") as scratch:
        home = scratch.resolve()
        with guarded(f"{MARKER}={token}", home, hold=hold):
            yield NativeTracer(token, home)


@dataclass
class NativeSession:
    """A recording session; see `roslens.tracing.lttng.Session` for the attributes."""

    tracer: NativeTracer
    options: TracingOptions
    output: Path
    loss: Loss = field(default_factory=Loss)
    troubles: list[str] = field(default_factory=list)
    snapshots: int = 0

    @property
    def workload_variables(self) -> dict[str, str]:
        """Return the environment variables that the recorded programs need."""
        return _variables(self.written, self.options)

    @property
    def written(self) -> Path:
        """Return the folder of the programs; a flight recorder's is read only as a snapshot."""
        return self.output if self.options.flight is None else self.output.with_name(FLIGHT_NAME)

    @property
    def settings(self) -> TracingSettings:
        """Return the session's settings for the manifest."""
        return TracingSettings(
            tracer="native",
            tracer_version=VERSION,
            domains=["ust"],
            events=list(self.options.events),
            contexts=list(NEEDED_CONTEXTS),
            flight_seconds=self.options.flight,
            notes=list(self.tracer.notes),
        )

    def is_out_of_space(self) -> bool:
        """Return whether the disk has no room for further packets."""
        return shutil.disk_usage(self.output.parent).free < _LEAST_FREE_BYTES

    def has_events(self) -> bool:
        """Whether any event was recorded or discarded."""
        return any(read_written(self.output))

    def begin_events(self) -> None:
        """Do nothing: events are recorded from the beginning."""

    def snapshot(self) -> None:
        """Do nothing: all events are written continuously."""


def native_variables(
    output: Path, options: TracingOptions, preload: Sequence[Path]
) -> dict[str, str]:
    """Return the variables with which any program records itself into the folder `output`.

    Parameters
    ----------
    output
        The folder, which is created.
    options
        The settings of the recording.
    preload
        The libraries that the programs preload; the tracer's library is first.

    Raises
    ------
    RunFailedError
        The folder cannot be made or written.
    """
    _make(output, preload[0], options)
    return {**_variables(output, options), "LD_PRELOAD": ":".join(map(str, preload))}


def diagnose_no_native_events(environ: Mapping[str, str]) -> str:
    """Describe in one line likely causes of a run without any event of the native tracer.

    Parameters
    ----------
    environ
        The environment of the workload.
    """
    wanted = [
        Path(path) for path in environ.get("LD_PRELOAD", "").split(":") if "libtracetools" in path
    ]
    if not any(path.is_file() for path in wanted):
        cause = "LD_PRELOAD of the workload does not name the tracer's library"
    else:
        cause = (
            "the workload ran no ROS 2 node, dropped LD_PRELOAD (sudo, env -i), ran as another "
            "user or in a container without the folder, or its ROS 2 was built with "
            "TRACETOOLS_DISABLED"
        )
    return f"no ros2 events were recorded; likely cause: {cause}"


def _variables(output: Path, options: TracingOptions) -> dict[str, str]:
    flight = {} if options.flight is None else {FLIGHT_VARIABLE: f"{options.flight:g}"}
    return {
        **flight,
        FOLDER_VARIABLE: str(output.resolve()),
        EVENTS_VARIABLE: ",".join(options.events),
    }


def _make(output: Path, library: Path, options: TracingOptions) -> None:
    """Create a trace's folder with all files that its programs need."""
    try:
        # The folder is private, because programs map the files in it, and others could change them.
        output.mkdir(mode=0o700, parents=True, exist_ok=True)
        output.chmod(0o700)
    except OSError as error:
        raise RunFailedError(f"{output}: cannot be made: {error.strerror}") from error
    prepare(library, output, options.flight or 0.0)


@contextmanager
def native_session(
    tracer: NativeTracer, options: TracingOptions, output: Path, library: Path
) -> Iterator[NativeSession]:
    """Record into the folder `output` for as long as the context lasts.

    Parameters
    ----------
    tracer, options, output
        The tracer, the settings, and the folder of the trace.
    library
        The library that the programs load.

    Raises
    ------
    RunFailedError
        The folder cannot be made or written.
    """
    session = NativeSession(tracer, options, output)
    _make(session.written, library, options)
    try:
        yield session
    finally:
        if session.written != output:
            take_snapshot(session.written, output)
            shutil.rmtree(session.written, ignore_errors=True)
        session.loss = Loss(discarded_events=read_written(output)[1], lost_packets=0)
        cut_to_content(output)
