"""LTTng: a session daemon of one's own, sessions on it, and what they lost."""

from tracing.lttng.daemon import SessionDaemon, session_daemon
from tracing.lttng.session import Session, recording_session
from tracing.lttng.settings import TracingOptions
from tracing.lttng.tool import LttngError, lttng_version

__all__ = [
    "LttngError",
    "Session",
    "SessionDaemon",
    "TracingOptions",
    "lttng_version",
    "recording_session",
    "session_daemon",
]
