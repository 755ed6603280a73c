"""Select part of a recording: a stretch of time, some processes, nodes or topics.

Filters are applied to every table lazily, so that only the selected rows are read.
"""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import polars as pl

from roslens.collectors.times import parse_time
from roslens.recording import UsageError
from roslens.recording.schema import Table

NEVER_CUT = ("health", "losses")
"""Tables about the recording as a whole: losses outside of a view can distort it, too."""

OBJECTS = (
    "hosts",
    "processes",
    "contexts",
    "nodes",
    "publishers",
    "subscriptions",
    "services",
    "clients",
    "timers",
    "callbacks",
    "ring_buffers",
    "state_machines",
    "actions",
    "message_links",
)
"""Tables that are not cut by time: events refer to objects that were created earlier."""

MOMENTS: Mapping[str, tuple[str, ...]] = {
    "callback_instances": ("start_ns",),
    "publications": ("publish_ns",),
    "takes": ("take_ns",),
    "messages": ("publish_ns", "take_ns"),
    "one_sided_messages": ("take_ns",),
    "service_calls": (
        "request_called_ns",
        "request_sent_ns",
        "request_taken_ns",
        "callback_start_ns",
        "response_sent_ns",
        "response_taken_ns",
    ),
    "action_goals": (
        "goal_called_ns",
        "goal_sent_ns",
        "goal_taken_ns",
        "goal_response_sent_ns",
        "goal_response_taken_ns",
    ),
    "timer_activations": ("start_ns",),
    "callback_scheduling": ("start_ns",),
    "callback_allocations": ("start_ns",),
    "heap": ("time_ns",),
    "callback_heap": ("time_ns",),
    "resources": ("time_ns",),
    "threads": ("time_ns",),
    "system": ("time_ns",),
    "allocation_sites": ("time_ns",),
    "cpu_samples": ("time_ns",),
    "waits": ("time_ns",),
}
"""Begin of a row by table: the first of these times that is known decides its stretch."""

STRETCHES = ("executor_intervals", "lifecycle_states")
"""Tables of spans from ``begin_ns`` to ``end_ns``: a row is in every stretch it touches."""

_ENDS = ("", "publisher_", "subscription_", "client_", "server_")
_MOST_NAMES = 10

Names = str | Iterable[str]
Edge = float | str
Window = tuple[Edge | None, Edge | None]


@dataclass(frozen=True)
class View:
    """A selection from recordings; None for no restriction.

    Attributes
    ----------
    window_s
        Begin and end, in seconds after the run's first event, or as `parse_time` reads them.
    window_ns
        Begin and end, in ns since the epoch.
    processes
        Selected processes per run, as (host, vpid).
    process_nodes
        Full names of the nodes of these processes, per run.
    nodes, topics
        Full names of the selected nodes and topics.
    touching
        Whether executions of callbacks are selected that touch the time, not those that begin in
        it.
    """

    window_s: Window | None = None
    window_ns: tuple[int | None, int | None] | None = None
    processes: Mapping[str, frozenset[tuple[str, int]]] | None = None
    process_nodes: Mapping[str, frozenset[str]] | None = None
    nodes: frozenset[str] | None = None
    topics: frozenset[str] | None = None
    touching: bool = False

    @property
    def has_window(self) -> bool:
        """Whether the time is restricted."""
        return self.window_s is not None or self.window_ns is not None

    def window_of(self, origin_ns: int | None) -> tuple[int | None, int | None]:
        """Return begin and end in ns since the epoch, for a run with first event at `origin_ns`."""
        windows = [self.window_ns or (None, None)]
        if self.window_s is not None and origin_ns is not None:
            begin, end = (
                None if edge is None
                else parse_time(edge, origin_ns) if isinstance(edge, str)
                else origin_ns + round(edge * 1e9)
                for edge in self.window_s
            )  # fmt: skip
            windows.append((begin, end))
        return common_window(windows)

    def filters(self, table: Table, run: str, origin_ns: int | None) -> list[pl.Expr]:
        """Return the conditions that a row of `table` of this run must satisfy."""
        if table.name in NEVER_CUT:
            return []
        columns = {column.name for column in table.columns}
        terms = list(self._in_time(table.name, origin_ns))
        terms += self._in_processes(columns, run)
        if self.nodes is not None:
            terms += _any_holds(_is_any_of(f"{end}node", self.nodes) for end in _ENDS
                          if f"{end}node" in columns)  # fmt: skip
        if self.topics is not None:
            terms += _any_holds(_is_any_of(f"{end}topic", self.topics) for end in _ENDS
                          if f"{end}topic" in columns)  # fmt: skip
            if {"kind", "name"} <= columns:
                no_subscription = (pl.col("kind") != "subscription").fill_null(value=True)
                terms.append(no_subscription | _is_any_of("name", self.topics))
        return terms

    def _in_time(self, table: str, origin_ns: int | None) -> Iterable[pl.Expr]:
        if not self.has_window or table in OBJECTS:
            return
        begin, end = self.window_of(origin_ns)
        if table in STRETCHES:
            until, since = pl.col("end_ns"), pl.col("begin_ns")
        else:
            until = since = pl.coalesce(MOMENTS[table])
        if self.touching and table == "callback_instances":
            until = pl.col("end_ns")
        if begin is not None:
            # A span without an end reaches to the end of the trace; without a begin, to its start.
            yield (until >= begin).fill_null(value=table in STRETCHES)
        if end is not None:
            yield (since < end).fill_null(value=table in STRETCHES)

    def _in_processes(self, columns: set[str], run: str) -> Iterable[pl.Expr]:
        if self.processes is None or self.process_nodes is None:
            return []
        chosen = self.processes.get(run, frozenset())
        ends = [end for end in _ENDS if f"{end}vpid" in columns]
        if ends:
            return _any_holds(
                (pl.col(f"{end}host") == host) & (pl.col(f"{end}vpid") == vpid)
                for end in ends
                for host, vpid in sorted(chosen)
            ) or [pl.lit(value=False)]
        names = self.process_nodes.get(run, frozenset())
        return _any_holds(
            _is_any_of(f"{end}node", names) for end in _ENDS if f"{end}node" in columns
        )


def matching(patterns: Names, names: Iterable[str], what: str) -> frozenset[str]:
    """Return the names that match patterns such as ``/camera*``.

    Raises
    ------
    UsageError
        A pattern matches no name.
    """
    present = sorted(set(names))
    matched: set[str] = set()
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        fitting = fnmatch.filter(present, pattern)
        if not fitting:
            raise UsageError(f"no {what} is named {pattern!r}; {instead_of(pattern, present)}")
        matched.update(fitting)
    return frozenset(matched)


def instead_of(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known names that may have been meant, and all that exist."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3)
    shown = ", ".join(names[:_MOST_NAMES]) + (" ..." if len(names) > _MOST_NAMES else "")
    listed = f"here are {shown or 'none'}"
    return f"did you mean {' or '.join(near)}? T{listed}" if near else f"t{listed}"


def common_window(
    windows: Sequence[tuple[int | None, int | None]],
) -> tuple[int | None, int | None]:
    """Return the intersection of all windows; None for an open end."""
    return (
        max((begin for begin, _ in windows if begin is not None), default=None),
        min((end for _, end in windows if end is not None), default=None),
    )


def check_window(begin: Edge | None, end: Edge | None) -> None:
    """Raise `UsageError` for a window of no times, or of numbers that ends before it begins."""
    for edge in (begin, end):
        if not isinstance(edge, Real | str | None):
            raise UsageError(f"window: {edge!r} is no time; give seconds, or text such as 11:30:16")
    if not isinstance(begin, str | None) and not isinstance(end, str | None) and begin >= end:
        raise UsageError(f"the window ends ({end}) before it begins ({begin})")


def _is_any_of(column: str, names: Iterable[str]) -> pl.Expr:
    return pl.col(column).is_in(sorted(names)).fill_null(value=False)


def _any_holds(expressions: Iterable[pl.Expr]) -> list[pl.Expr]:
    """Combine expressions so that one must hold, if there are any."""
    given = list(expressions)
    return [pl.any_horizontal(given)] if given else []
