"""Build tables from events that arrive while programs run: of the last seconds, or of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

import polars as pl

from roslens.collectors.ros2.callbacks import callback_objects
from roslens.collectors.ros2.events import INIT_EVENTS, Events
from roslens.collectors.ros2.goal_ids import goal_ends
from roslens.collectors.ros2.objects import find_objects
from roslens.collectors.ros2.one_pass import Pass, Rows, Running, batches_of, columns_of
from roslens.collectors.schema.tables import LOSSES

_PROCESS = ("host", "ctx_pid_ns", "vpid")
_PUBLISHED = "ros2:rcl_publish"
_OF_GOALS = ("ros2:goal_status", _PUBLISHED)
_INIT = frozenset(f"ros2:{name}" for name in INIT_EVENTS)
_KEYS = 1 << 15
"""Least number of messages that wait for a take in memory; later takes are found as well."""
_STEP = 0.1
"""Events are forgotten in steps of at least this fraction of the kept time."""
Fed: TypeAlias = tuple[Mapping[str, pl.DataFrame], pl.DataFrame]


class Model:
    """The model, fed with successive stretches of time.

    If a stretch has new objects or processes, late events, or losses of the tracer, everything that
    is kept is processed again: so the tables so far equal those that collecting the same events
    gives, except ``latency_ns`` and ``clock_bound_ns`` of messages between hosts,
    which are null.

    Parameters
    ----------
    keep_ns
        How far back the tables reach at least; earlier events are forgotten. None for all.
    again
        Returns the events of the kept time once more, with those that name objects, as
        arguments of `feed`; None if there is a single stretch.

    Attributes
    ----------
    needed_ns
        Time from which nothing is forgotten, whatever `keep_ns` says; None for no such time.
    first_ns, last_ns
        Times of the first kept event and of the last one; None before the first event.
    is_whole
        Whether nothing was missing when it began: no execution began before the first one seen.
    processes
        Processes so far: ``proc``, host, vpid, procname.
    """

    def __init__(self, keep_ns: int | None = None, again: Callable[[], Fed] | None = None) -> None:
        self._keep_ns = keep_ns
        self._again = again
        self._named: dict[str, pl.DataFrame] = {}
        self._of_goals: list[dict[str, pl.DataFrame]] = []
        self._known: set[tuple[object, ...]] = set()
        self._happened: set[str] = set()
        self._pass: Pass | None = None
        self.is_whole = True
        self.processes = Events({}).processes
        self.needed_ns: int | None = None
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def feed(self, batches: Mapping[str, pl.DataFrame], losses: pl.DataFrame | None = None) -> None:
        """Process the events since the last call.

        Parameters
        ----------
        batches
            Frame by event name (``ros2:rmw_take``), each in order of time, as they come from
            `roslens.collectors.reader.Trace.read`; an empty frame: the event is recorded.
        losses
            Events that the tracer dropped, columns of the table ``losses``; None for nothing.
        """
        frames = {name: frame for name, frame in batches.items() if not frame.is_empty()}
        dropped = losses is not None and not losses.is_empty()
        if self._has_news(frames) or dropped or self._pass is None:
            running: list[Running] = []
            if self._pass is not None and self._again is not None:
                running = self._pass.running()
                batches, losses = self._again()
            losses = LOSSES.empty() if losses is None else LOSSES.conform(losses)
            if self._pass is None:
                self.is_whole = losses.is_empty()
            self._begin(batches, losses, running)
            return
        of_pass = {name.removeprefix("ros2:"): frame for name, frame in frames.items()}
        # With a single host the pass needs no host column, and texts are the most expensive.
        unasked = {"host"} if self.processes["host"].n_unique() == 1 else set()
        self._pass.feed(
            {
                name: frame[[column for column in columns if column not in unasked]]
                for name, frame in of_pass.items()
                if (columns := columns_of(name, frame.columns))
            }
        )
        self._take_in(frames)
        self._forget()

    def tables(self) -> dict[str, Rows]:
        """Return the tables of the pass so far, by name; see `Pass.tables`."""
        if self._pass is None:
            self._begin({}, LOSSES.empty())
        assert self._pass is not None
        return self._pass.tables(last=False)[0]

    def goal_ends(self) -> pl.DataFrame:
        """Return goals of actions whose status was recorded so far; see `goal_ids.goal_ends`."""
        frames = {
            name: _joined(parts)
            for name in _OF_GOALS
            if (parts := [batch[name] for batch in self._of_goals if name in batch])
        }
        if _OF_GOALS[0] not in frames:
            return _no_goals()
        events = Events({**self._named, **frames})
        return goal_ends(events, find_objects(events))

    def nodes(self) -> list[tuple[str, int, int, int]]:
        """Return nodes by creation: name, vpid, PID namespace (0: not recorded), ``created_ns``."""
        if self._pass is None:
            self._begin({}, LOSSES.empty())
        nodes = self._objects.nodes.join(self.processes, on="proc", how="left")
        name = pl.col("node").cast(pl.String)
        return nodes.sort("created_ns").select(name, "vpid", "pid_ns", "created_ns").rows()

    def _has_news(self, frames: Mapping[str, pl.DataFrame]) -> bool:
        """Return whether there are new objects, processes or kinds of events, or late events."""
        new = frames.keys() - self._happened
        self._happened |= new
        before = len(self._known)
        for frame in frames.values():
            processes = frame[[name for name in _PROCESS if name in frame.columns]]
            # Most kinds come from one process; checking that takes a fiftieth of the time.
            single = all(
                not column.null_count() and (column == column[0]).all() for column in processes
            )
            self._known.update((processes.head(1) if single else processes.unique()).rows())
        named = not _INIT.isdisjoint(frames)
        late = self.last_ns is not None and any(
            _time(frame, 0) < self.last_ns for frame in frames.values()
        )
        return bool(new) or named or late or len(self._known) > before

    def _take_in(self, frames: Mapping[str, pl.DataFrame]) -> None:
        """Update the time of the last event, and keep the events about goals."""
        ends = [_time(frame, -1) for frame in frames.values()]
        self.last_ns = max([*ends, *([] if self.last_ns is None else [self.last_ns])], default=None)
        of_goals = {name: frames[name] for name in _OF_GOALS if name in frames}
        if (sent := of_goals.get(_PUBLISHED)) is not None:
            of_goals[_PUBLISHED] = sent.filter(pl.col("publisher_handle").is_in(self._of_status))
        self._of_goals.append(of_goals)

    def _begin(
        self,
        batches: Mapping[str, pl.DataFrame],
        losses: pl.DataFrame,
        running: Sequence[Running] = (),
    ) -> None:
        """Begin a pass with these events; `running` is what threads did in the pass before."""
        frames = {name: frame for name, frame in batches.items() if not frame.is_empty()}
        events = Events(batches)
        self._named = {name: frame for name, frame in batches.items() if name in _INIT}
        self.processes, self._objects = events.processes, find_objects(events)
        publishers = self._objects.publishers
        of_status = publishers["topic"].cast(pl.String).str.ends_with("/_action/status")
        self._of_status = publishers["publisher_handle"].filter(of_status).implode()
        self._pass = Pass(
            events, self._objects, callback_objects(events, self._objects), losses, keys=_KEYS
        )
        if self.last_ns is not None:
            # The events with which they began may lie too far back to be read again.
            unread = _not_among(running, frames.get("ros2:callback_start"))
            self._pass.resume(unread, self.last_ns)
        for batch in batches_of(events):
            self._pass.feed(batch)
        self._of_goals, self.last_ns = [], None
        self.first_ns = min((_time(frame, 0) for frame in frames.values()), default=None)
        self._take_in(frames)
        self._forget()

    def _forget(self) -> None:
        """Forget events older than the kept time; they count as lost, not as never recorded."""
        if self._keep_ns is None or self.last_ns is None or self.first_ns is None:
            return
        since = self.last_ns - self._keep_ns
        if self.needed_ns is not None:
            since = min(since, self.needed_ns)
        if since - self.first_ns < _STEP * self._keep_ns:
            return
        assert self._pass is not None
        self._pass.forget(since)
        self.first_ns = since
        late = pl.col("time_ns") >= since
        kept = (
            {name: frame.filter(late) for name, frame in batch.items()} for batch in self._of_goals
        )
        self._of_goals = [batch for batch in kept if any(frame.height for frame in batch.values())]


@cache
def _no_goals() -> pl.DataFrame:
    events = Events({})
    return goal_ends(events, find_objects(events))


def _not_among(running: Sequence[Running], starts: pl.DataFrame | None) -> list[Running]:
    """Return the executions whose start is none of these events."""
    if starts is None:
        return list(running)
    times = pl.col("time_ns").cast(pl.Int64)
    among = times.is_in([start for _, start, *_ in running])
    read = set(starts.filter(among).select("vpid", "vtid", times).rows())
    return [one for one in running if (*one[0][2:], one[1]) not in read]


def _time(frame: pl.DataFrame, place: int) -> int:
    return int(frame["time_ns"][place])


def _joined(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Concatenate frames in order of time."""
    joined = pl.concat(frames, how="diagonal_relaxed")
    if not joined["time_ns"].is_sorted():
        joined = joined.sort("time_ns", maintain_order=True)
    return joined
