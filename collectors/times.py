"""Parse times and durations as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from roslens.recording import UsageError

LEAST_NS = 1_000_000_000
"""The shortest wait or silence that counts as one."""
_SECOND = 1_000_000_000
_UNITS = {"": _SECOND, "s": _SECOND, "ms": 1_000_000, "us": 1_000, "ns": 1, "min": 60 * _SECOND}
_DAY = 24 * 3600 * _SECOND
_DURATION = re.compile(r"(\d+)(?:\.(\d+))?(s|ms|us|ns|min|)")
_CLOCK = re.compile(
    r"(?:(\d{4}-\d{2}-\d{2})[ T])?(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(?: ?UTC|Z)?"
)


def parse_time(text: str, first_ns: int | None) -> int:
    """Convert a time as people write it to ns since the epoch.

    Accepted are nanoseconds since the epoch (``1760000005000001243``); date and time, or time of
    day, in UTC, as roslens prints them (``2025-10-09 08:53:25.5 UTC``, ``08:53:25.000001243``; a
    time of day is on the first day of the trace at or after its beginning); and times relative to
    the first event of the trace, at `first_ns` (``+2.5s``, ``+300ms``, ``+2min``).

    Raises
    ------
    UsageError
        The text is none of these, or the trace does not state when it begins.
    """
    time_ns = _parsed(text, first_ns)
    if abs(time_ns) >= 1 << 63:
        raise UsageError(f"'{text}' is no time of a trace: ns since the epoch have 63 bits")
    return time_ns


def _parsed(text: str, first_ns: int | None) -> int:
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    relative = text.startswith("+") and _DURATION.fullmatch(text[1:])
    clock = _CLOCK.fullmatch(text)
    if not relative and clock is None:
        raise UsageError(
            f"'{text}' is no time: give ns since the epoch, [YYYY-MM-DD ]HH:MM:SS.fff in UTC, or "
            "+2.5s from the first event of the trace"
        )
    if first_ns is None:
        raise UsageError(f"'{text}': this trace does not say when it begins; give ns")
    if relative:
        return first_ns + _ns(relative)
    assert clock is not None
    date, hours, minutes, seconds, fraction = clock.groups()
    try:
        at = datetime.fromisoformat(
            f"{date or utc(first_ns)[:10]} {hours:0>2}:{minutes}:{seconds or '00'}+00:00"
        )
    except ValueError as error:
        raise UsageError(f"'{text}' is no time of day") from error
    time_ns = int(at.timestamp()) * _SECOND + int((fraction or "").ljust(9, "0"))
    # The recording may cross midnight.
    is_before = time_ns < first_ns // _SECOND * _SECOND - 60 * _SECOND
    return time_ns + _DAY if is_before and not date else time_ns


def utc(time_ns: int) -> str:
    """Format a time in ns since the epoch as UTC text, to the microsecond."""
    seconds, rest = divmod(time_ns, _SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest // 1000:06d}"


def parse_duration(option: str, text: str) -> int:
    """Convert a duration to ns: ``2.5s``, ``300ms``, ``2min``.

    Raises
    ------
    UsageError
        The text is not a duration; the message names `option`.
    """
    match = _DURATION.fullmatch(text)
    if match is None or (not match[3] and float(text)):
        # A bare number does not show whether seconds or milliseconds are meant.
        raise UsageError(
            f"{option} {text}: give a duration with its unit, such as 2.5s, 300ms or 2min"
        )
    return _ns(match)


def _ns(duration: re.Match[str]) -> int:
    whole, fraction, unit = duration.groups()
    scale = _UNITS[unit]
    # Computed in integers, as floats are too coarse for ns.
    part: int = int(fraction or "0") * scale // 10 ** len(fraction or "")
    return int(whole) * scale + part
