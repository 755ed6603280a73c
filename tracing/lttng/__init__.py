"""Run our own LTTng session daemon and sessions on it, and count the events they lost."""

from roslens.tracing.lttng.daemon import SessionDaemon, session_daemon
from roslens.tracing.lttng.session import Session, recording_session
from roslens.tracing.lttng.settings import TracingOptions
from roslens.tracing.lttng.tool import LttngError, lttng_version

__all__ = [
    "LttngError",
    "Session",
    "SessionDaemon",
    "TracingOptions",
    "lttng_version",
    "recording_session",
    "session_daemon",
]
