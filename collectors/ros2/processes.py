"""Assign events to processes.

A process is a number on a host, in the pid namespace where the context ``pid_ns`` was recorded.
Numbers are reused when processes end, and two namespaces have equal ones. If the main threads of
one number have different names one after the other, these are two processes; if the names
alternate, the events cannot be told apart. A number that initialises ROS again belongs to another
process, unless an object made before is used afterwards without being made again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

import polars as pl

from roslens.collectors.ros2.sessions import recorded_once
from roslens.collectors.ros2.types import I32, I64, NOTHING, TEXT, U64

KEY = ("host", "pid_ns", "vpid", "part")
PID_NS = "ctx_pid_ns"
_FEW = 8
_INIT = "ros2:rcl_init"
_MADE = {
    "rcl_node_init": "node_handle",
    "rmw_publisher_init": "rmw_publisher_handle",
    "rcl_publisher_init": "publisher_handle",
    "rmw_subscription_init": "rmw_subscription_handle",
    "rcl_subscription_init": "subscription_handle",
    "rclcpp_subscription_init": "subscription",
    "rclcpp_subscription_callback_added": "callback",
    "rcl_service_init": "rmw_service_handle",
    "rclcpp_service_callback_added": "callback",
    "rcl_client_init": "rmw_client_handle",
    "rcl_timer_init": "timer_handle",
    "rclcpp_timer_callback_added": "callback",
    "rclcpp_callback_register": "callback",
    "rcl_lifecycle_state_machine_init": "state_machine",
    "rclcpp_construct_ring_buffer": "buffer",
}
"""The field with the address of the object that an init event announces."""

Span: TypeAlias = tuple[int | None, int | None]
"""A stretch of time: its begin, and its end, which is excluded; None for an open side."""
EVER: Span = (None, None)
Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)


@dataclass(frozen=True)
class Boundary:
    """A moment from which on a number belongs to another process."""

    host: str
    pid_ns: int
    vpid: int
    time_ns: int

    def passed(self, host: str | None) -> pl.Expr:
        """Return whether an event belongs to the later process."""
        mine = (pl.col("vpid") == self.vpid) & (pl.col("pid_ns") == self.pid_ns)
        if host is None:
            mine &= pl.col("host") == self.host
        return (mine & (pl.col("time_ns") >= self.time_ns)).cast(I32)


@dataclass(frozen=True)
class Processes:
    """All processes of a recording.

    Attributes
    ----------
    frame
        ``proc`` (number), host, pid_ns (0 where not recorded), vpid, part, procname, begin_ns,
        end_ns, events; over all events.
    host
        The only host; None if there are several.
    boundaries
            Moments at which a number was given to another process.
        collisions
            Numbers that several processes had at the same time: (host, vpid).
    """

    frame: pl.DataFrame
    host: str | None
    boundaries: list[Boundary] = field(default_factory=list)
    collisions: list[tuple[str, int]] = field(default_factory=list)

    def numbered(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Replace the columns that identify a process by its number, ``proc``; see `identified`."""
        frame = _with_part(frame, self.boundaries, self.host)
        if self._by_vpid is not None:
            return frame.with_columns(self._by_vpid).drop(KEY)
        numbers = self.frame.lazy().select(*KEY, "proc")
        return frame.join(numbers, on=list(KEY), how="left", maintain_order="left").drop(KEY)

    @cached_property
    def _by_vpid(self) -> pl.Expr | None:
        """Expression for ``proc`` if vpids are unique: no join, and no hash table if few."""
        vpids = self.frame["vpid"]
        if self.host is None or not vpids.is_unique().all():
            return None
        if vpids.len() > _FEW:
            proc = pl.col("vpid").replace_strict(
                vpids, self.frame["proc"], default=None, return_dtype=I32
            )
            return proc.alias("proc")
        proc = pl.lit(None, dtype=I32)
        for vpid, number in self.frame.select("vpid", "proc").iter_rows():
            mine = pl.col("vpid") == vpid
            proc = pl.when(mine).then(pl.lit(number, dtype=I32)).otherwise(proc)
        return proc.alias("proc")


def identified(columns: Collection[str], host: str | None) -> list[pl.Expr]:
    """Return the columns that `Processes.numbered` needs of raw events: host, pid_ns, vpid."""
    namespace = pl.col(PID_NS).cast(I64) if PID_NS in columns else pl.lit(None, dtype=I64)
    return [
        pl.lit(host).alias("host") if host is not None else pl.col("host"),
        namespace.fill_null(0).alias("pid_ns"),
        pl.col("vpid").cast(I32).fill_null(NOTHING),
    ]


def during(frame: Frame, span: Span) -> Frame:
    """Return the events within a stretch of time."""
    begin, end = span
    if begin is not None:
        frame = frame.filter(pl.col("time_ns") >= begin)
    return frame if end is None else frame.filter(pl.col("time_ns") < end)


def find_processes(
    raw: Mapping[str, pl.LazyFrame],
    init: Iterable[str],
    host: str | None,
) -> Processes:
    """Find every process that recorded an event.

    Parameters
    ----------
    raw
        All events by name.
    init
        Names of the rare events at the beginning of a process.
    host
        The only host; None if there may be several.
    """
    boundaries, collisions = _reuse(raw, init, host)
    boundaries += _restarts(raw, boundaries, collisions, host)
    table = (
        _counted(raw, boundaries, host)
        .sort("begin_ns", maintain_order=True)
        .group_by(KEY)
        .agg(
            pl.col("first").first(),
            pl.col("begin_ns").min(),
            pl.col("end_ns").max(),
            pl.col("events").sum(),
        )
        .sort("begin_ns", "host", "pid_ns", "vpid", "part")
        .with_row_index("proc")
        .with_columns(pl.col("proc").cast(I32))
    )
    return Processes(
        frame=_with_name(table, raw, host),
        host=host,
        boundaries=boundaries,
        collisions=collisions,
    )


def _counted(
    raw: Mapping[str, pl.LazyFrame], boundaries: list[Boundary], host: str | None
) -> pl.DataFrame:
    """Return first and last time and number of events, by event name and process."""
    empty = pl.LazyFrame(
        schema={
            "host": TEXT, "pid_ns": I64, "vpid": I32, "part": I32, "begin_ns": I64, "end_ns": I64,
            "events": I64, "first": TEXT,
        }
    )  # fmt: skip
    parts = []
    for name, frame in raw.items():
        columns = frame.collect_schema().names()
        events = frame.select(pl.col("time_ns").cast(I64), *identified(columns, host))
        if not name.startswith("ros2:"):
            events = events.filter(pl.col("vpid") != NOTHING)
        events = _with_part(events, boundaries, host)
        # Grouping by constant columns would take most of the time.
        constants = {
            "host": None if host is None else pl.lit(host),
            "pid_ns": None if PID_NS in columns else pl.lit(0, dtype=I64),
            "part": None if boundaries else pl.lit(0, dtype=I32),
        }
        counted = events.group_by(column for column in KEY if constants.get(column) is None).agg(
            pl.col("time_ns").min().alias("begin_ns"),
            pl.col("time_ns").max().alias("end_ns"),
            pl.len().cast(I64).alias("events"),
        )
        same = [value.alias(column) for column, value in constants.items() if value is not None]
        counted = counted.with_columns(*same, pl.lit(name).alias("first"))
        schema = empty.collect_schema()
        parts.append(counted.select(pl.col(c).cast(kind) for c, kind in schema.items()))
    # One after the other, and each as a stream: the events may exceed the memory.
    return pl.concat(part.collect(engine="streaming") for part in (empty, *parts))


def _with_part(frame: pl.LazyFrame, boundaries: list[Boundary], host: str | None) -> pl.LazyFrame:
    part = [boundary.passed(host) for boundary in boundaries]
    number = pl.sum_horizontal(part).cast(I32) if part else pl.lit(0, dtype=I32)
    return frame.with_columns(number.alias("part"))


def _with_name(
    frame: pl.DataFrame, raw: Mapping[str, pl.LazyFrame], host: str | None
) -> pl.DataFrame:
    """Add ``procname``, the name of the thread of the first event."""
    wanted = [
        raw[first]
        .filter(pl.col("time_ns") == begin)
        .select(*identified(raw[first].collect_schema().names(), host), "procname")
        .filter((pl.col("vpid") == vpid) & (pl.col("host") == at))
        .select(pl.col("procname").cast(TEXT).first())
        for at, vpid, begin, first in frame.select("host", "vpid", "begin_ns", "first").iter_rows()
    ]
    names = [answer.item() if answer.height else None for answer in pl.collect_all(wanted)]
    return frame.with_columns(pl.Series("procname", names, dtype=TEXT)).drop("first")


def _reuse(
    raw: Mapping[str, pl.LazyFrame], init: Iterable[str], host: str | None
) -> tuple[list[Boundary], list[tuple[str, int]]]:
    """Return where numbers were reused, and which ones several processes had at once."""
    mains = []
    for name in init:
        frame = raw.get(name)
        if frame is None:
            continue
        columns = frame.collect_schema().names()
        mains.append(
            frame.filter(pl.col("vpid") == pl.col("vtid")).select(
                "time_ns", *identified(columns, host), pl.col("procname").cast(TEXT)
            )
        )
    if not mains:
        return [], []
    key = ["host", "pid_ns", "vpid"]
    begins = (
        pl.concat(pl.collect_all(mains))
        .drop_nulls("procname")
        .sort("time_ns")
        .filter((pl.col("procname") != pl.col("procname").shift(1)).over(key).fill_null(value=True))
    )
    boundaries: list[Boundary] = []
    collisions: list[tuple[str, int]] = []
    for (at, namespace, vpid), runs in begins.filter(
        pl.col("procname").n_unique().over(key) > 1
    ).group_by(key, maintain_order=True):
        mine = [
            Boundary(str(at), int(namespace), int(vpid), time)
            for time in runs["time_ns"].to_list()[1:]
        ]
        if runs["procname"].is_unique().all() and not _still_running(raw, runs, mine[0], host):
            boundaries += mine
        else:
            collisions.append((str(at), int(vpid)))
    return boundaries, collisions


def _still_running(
    raw: Mapping[str, pl.LazyFrame], runs: pl.DataFrame, pid_reuse: Boundary, host: str | None
) -> bool:
    """Return whether a main thread of an earlier name records events after a later one began."""
    names, times = runs["procname"].to_list(), runs["time_ns"].to_list()
    earlier = [
        (pl.col("procname") == name) & (pl.col("time_ns") >= end)
        for name, end in zip(names[:-1], times[1:], strict=True)
    ]
    counts = (
        frame.filter((pl.col("vpid") == pid_reuse.vpid) & (pl.col("vtid") == pid_reuse.vpid))
        .filter(pl.any_horizontal(earlier))
        .select(*identified(frame.collect_schema().names(), host))
        .filter((pl.col("pid_ns") == pid_reuse.pid_ns) & (pl.col("host") == pid_reuse.host))
        .select(pl.len())
        for frame in raw.values()
    )
    return any(count.collect(engine="streaming").item() for count in counts)


def _restarts(
    raw: Mapping[str, pl.LazyFrame],
    boundaries: list[Boundary],
    collisions: Collection[tuple[str, int]],
    host: str | None,
) -> list[Boundary]:
    """Find where a number of one name initialised ROS again and used no object made before."""
    if _INIT not in raw:
        return []
    columns = raw[_INIT].collect_schema().names()
    extra = [column for column in ("trace", "context_handle") if column in columns]
    inits = _with_part(
        raw[_INIT].select("time_ns", *identified(columns, host), *extra), boundaries, host
    ).collect()
    # Snapshots repeat init events, and so do sessions at the same time.
    inits = inits.sort("time_ns").unique(["time_ns", *KEY], keep="first", maintain_order=True)
    if "trace" in extra:
        inits = recorded_once(inits, [*KEY, *extra[1:]])
    again = inits.filter(~pl.struct(KEY).is_first_distinct())
    return [
        Boundary(at, namespace, vpid, time)
        for time, at, namespace, vpid in again.select("time_ns", *KEY[:3]).iter_rows()
        if (at, vpid) not in collisions
        and not _goes_on(raw, Boundary(at, namespace, vpid, time), host)
    ]


def _goes_on(raw: Mapping[str, pl.LazyFrame], pid_reuse: Boundary, host: str | None) -> bool:
    """Return whether an object made before is used later without being made again in between."""

    def addresses(name: str, field_of: str) -> pl.LazyFrame:
        frame = raw[name].filter(pl.col("vpid") == pid_reuse.vpid)
        names = identified(frame.collect_schema().names(), host)
        return frame.select(
            "time_ns",
            *names,
            pl.lit(field_of).alias("field"),
            pl.col(field_of).cast(U64).alias("at"),
        ).filter((pl.col("pid_ns") == pid_reuse.pid_ns) & (pl.col("host") == pid_reuse.host))

    makers = {f"ros2:{name}": field for name, field in _MADE.items() if f"ros2:{name}" in raw}
    if not makers:
        return False
    key = ["field", "at"]
    created = pl.concat(pl.collect_all(addresses(*maker) for maker in makers.items())).lazy()
    later = pl.col("time_ns") >= pid_reuse.time_ns
    again = created.filter(later).group_by(key).agg(pl.col("time_ns").min().alias("again_ns"))
    old = (
        created.filter(~later).select(key).unique().join(again, on=key, how="left").collect().lazy()
    )
    uses = (
        addresses(name, used).filter(later).join(old, on=key)
        .filter(pl.col("again_ns").is_null() | (pl.col("time_ns") < pl.col("again_ns")))
        .select(pl.len())
        for name, frame in raw.items() if name.startswith("ros2:")
        for used in sorted(set(_MADE.values()) & set(frame.collect_schema()))
        if makers.get(name) != used
    )  # fmt: skip
    return any(count.collect(engine="streaming").item() for count in uses)
