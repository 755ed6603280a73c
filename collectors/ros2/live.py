"""Tables of events that come while programs run: of the last seconds, or of all."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from roslens.collectors.ros2.callbacks import callback_objects
from roslens.collectors.ros2.events import INIT_EVENTS, Events
from roslens.collectors.ros2.goal_ids import goal_ends
from roslens.collectors.ros2.objects import find_objects
from roslens.collectors.ros2.one_pass import Pass, Rows, batches_of, columns_of
from roslens.collectors.schema.tables import LOSSES

_PROCESS = ("host", "ctx_pid_ns", "vpid")
_OF_GOALS = ("ros2:goal_status", "ros2:rcl_publish")
_INIT = frozenset(f"ros2:{name}" for name in INIT_EVENTS)


class Model:
    """The model, fed stretch by stretch of time.

    Where a stretch tells of new objects or processes, comes late, or of what the tracer dropped,
    the events that are kept are gone through again: so the tables so far are those that collecting
    the same events gives, but for ``latency_ns`` and ``clock_bound_ns`` of messages between hosts,
    which are null.

    Parameters
    ----------
    keep_ns
        How far back the tables reach at least; beyond twice that, events are
        forgotten but for those that name objects. None for all.

    Attributes
    ----------
    first_ns, last_ns
        Since when, and until when there are events; None before the first.
    """

    def __init__(self, keep_ns: int | None = None) -> None:
        self._keep_ns = keep_ns
        self._names: dict[str, pl.DataFrame] = {}
        self._kept: list[dict[str, pl.DataFrame]] = []
        self._declared: dict[str, pl.DataFrame] = {}
        self._losses = LOSSES.empty()
        self._known: set[tuple[object, ...]] = set()
        self._happened: set[str] = set()
        self._pass: Pass | None = None
        self._events = Events({})
        self.first_ns: int | None = None
        self.last_ns: int | None = None

    def feed(self, batches: Mapping[str, pl.DataFrame], losses: pl.DataFrame | None = None) -> None:
        """Take in what happened since.

        Parameters
        ----------
        batches
            Event name (``ros2:rmw_take``) to frame, as `roslens.collectors.reader.Trace.read` gives
            them, each in the order of time; an empty frame says that the event is recorded.
        losses
            What the tracer dropped, columns of the table ``losses``; None for nothing.
        """
        for name in batches.keys() - self._declared.keys():
            self._declared[name] = batches[name].clear()
        there = {name: frame for name, frame in batches.items() if not frame.is_empty()}
        named = {name: frame for name, frame in there.items() if name in _INIT}
        rest = {name: frame for name, frame in there.items() if name not in _INIT}
        changed = self._pass is None or bool(named) or self._tells_more(there)
        if losses is not None and not losses.is_empty():
            self._losses = pl.concat([self._losses, LOSSES.conform(losses)])
            changed = True
        for name, frame in named.items():
            before = [self._names[name]] if name in self._names else []
            self._names[name] = _joined([*before, frame])
        if rest:
            self._kept.append(rest)
        begins = [_time(frame, 0) for frame in there.values()]
        ends = [_time(frame, -1) for frame in there.values()]
        if ends:
            self.last_ns = max(*ends, self.last_ns or ends[0])
            self.first_ns = min(begins) if self.first_ns is None else self.first_ns
        is_long = self._is_long()
        if is_long:
            self._forget()
        if changed:
            self._begin_again()
        elif is_long:
            self._go_on()
        else:
            self._feed(rest)

    def tables(self) -> dict[str, Rows]:
        """The tables of the pass so far, by name; see `Pass.tables`."""
        if self._pass is None:
            self._begin_again()
        assert self._pass is not None
        return self._pass.tables(last=False)[0]

    def goal_ends(self) -> pl.DataFrame:
        """Goals of actions whose status was told so far; see `goal_ids.goal_ends`."""
        named = {name: x for name, x in self._joined_kept().items() if name in _OF_GOALS}
        events = Events({**self._declared, **named, **self._names})
        return goal_ends(events, find_objects(events))

    def nodes(self) -> list[tuple[str, int, int]]:
        """Nodes so far: name, vpid and PID namespace (0 where not recorded), as they were made."""
        if self._pass is None:
            self._begin_again()
        nodes = self._objects[0].nodes.join(self.processes, on="proc", how="left")
        return (
            nodes.sort("created_ns").select(pl.col("node").cast(pl.String), "vpid", "pid_ns").rows()
        )

    @property
    def processes(self) -> pl.DataFrame:
        """Processes so far: ``proc``, host, vpid, procname."""
        return self._events.processes

    def _tells_more(self, there: Mapping[str, pl.DataFrame]) -> bool:
        """Whether there are new processes or kinds of events, or events before the last one."""
        new = there.keys() - self._happened
        self._happened |= new
        known = len(self._known)
        if there:
            columns = {tuple(x for x in _PROCESS if x in frame.columns) for frame in there.values()}
            for own in columns:
                alike = [x.select(own) for x in there.values() if set(own) <= set(x.columns)]
                self._known.update(pl.concat(alike).unique().rows())
        late = self.last_ns is not None and any(_time(x, 0) < self.last_ns for x in there.values())
        return bool(new) or late or len(self._known) > known

    def _is_long(self) -> bool:
        return (
            self._keep_ns is not None
            and self.last_ns is not None
            and self.first_ns is not None
            and self.last_ns - self.first_ns > 2 * self._keep_ns
        )

    def _feed(self, stretch: Mapping[str, pl.DataFrame]) -> None:
        assert self._pass is not None
        of_pass = {name.removeprefix("ros2:"): frame for name, frame in stretch.items()}
        self._pass.feed(
            {
                name: frame.select(columns)
                for name, frame in of_pass.items()
                if (columns := columns_of(name, frame.columns))
            }
        )

    def _go_on(self) -> None:
        """With the same objects, which are as they were."""
        self._pass = Pass(self._events, *self._objects, self._losses)
        self._feed({name: x for name, x in self._joined_kept().items() if not x.is_empty()})

    def _joined_kept(self) -> dict[str, pl.DataFrame]:
        return {
            name: _joined([empty, *(x[name] for x in self._kept if name in x)])
            for name, empty in self._declared.items()
            if name not in _INIT
        }

    def _begin_again(self) -> None:
        kept = self._joined_kept()
        events = Events({**self._declared, **kept, **self._names})
        self._events = events
        objects = find_objects(events)
        self._objects = (objects, callback_objects(events, objects))
        self._pass = Pass(events, *self._objects, self._losses)
        for batches in batches_of(events):
            self._pass.feed(batches)

    def _forget(self) -> None:
        """What lies further back than is kept; it counts as lost, not as what never happened."""
        assert self.last_ns is not None
        assert self._keep_ns is not None
        since = self.last_ns - self._keep_ns
        kept = []
        for stretch in self._kept:
            late = {
                name: x if _time(x, 0) >= since else x.filter(pl.col("time_ns") >= since)
                for name, x in stretch.items()
                if _time(x, -1) >= since
            }
            if late:
                kept.append(late)
        first = min((_time(x, 0) for x in self._names.values()), default=since)
        hosts = {str(host) for host, *_ in self._known}
        forgotten = [
            {"host": host, "kind": "lost_packets", "begin_ns": min(first, since), "end_ns": since}
            for host in sorted(hosts)
        ]
        later = self._losses.filter(pl.col("end_ns").is_null() | (pl.col("end_ns") > since))
        self._losses = pl.concat(
            [later, LOSSES.conform(pl.DataFrame(forgotten, schema=LOSSES.schema))]
        )
        self._kept, self.first_ns = kept, since


def _time(frame: pl.DataFrame, place: int) -> int:
    return int(frame["time_ns"][place])


def _joined(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """One after the other, in the order of time."""
    found = pl.concat(frames, how="diagonal_relaxed")
    if not found["time_ns"].is_sorted():
        found = found.sort("time_ns", maintain_order=True)
    return found
