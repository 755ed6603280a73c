"""Prepare raw events for the model: typed, with a number for each process and thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

import polars as pl

from roslens.collectors.ros2.processes import EVER, Span, during, find_processes, identified
from roslens.collectors.ros2.sessions import APART_NS, recorded_once, recorded_together
from roslens.collectors.ros2.types import BYTES, I32, I64, NAME, NOTHING, POINTERS, TEXT, U64

_TEXTS = (
    "version", "node_name", "namespace", "topic_name", "service_name", "type", "symbol",
    "function_name", "start_label", "goal_label",
)  # fmt: skip
_SIGNED = (
    "timestamp", "source_timestamp", "received_timestamp", "header_stamp", "sequence_number",
    "status", "period", "timeout",
)  # fmt: skip
_TYPES: Mapping[str, pl.DataType] = {
    **dict.fromkeys(_TEXTS, TEXT),
    **dict.fromkeys(_SIGNED, I64),
    **dict.fromkeys(("taken", "is_intra_process", "overwritten", "result"), I32),
    **dict.fromkeys(("gid", "client_gid", "goal_id"), BYTES),
    **dict.fromkeys(("subs", "pubs"), POINTERS),
}
"""The types of fields by name; all others are addresses, sizes or indices."""


def _typed(events: Mapping[str, str]) -> Mapping[str, Mapping[str, pl.DataType]]:
    return {
        name: {field: _TYPES.get(field, U64) for field in fields.split()}
        for name, fields in events.items()
    }


FIELDS = _typed({
    "rcl_init": "context_handle version",
    "rcl_node_init": "node_handle rmw_handle node_name namespace",
    "rmw_publisher_init": "rmw_publisher_handle gid",
    "rcl_publisher_init": "publisher_handle node_handle rmw_publisher_handle topic_name "
    "queue_depth",
    "rclcpp_intra_publish": "publisher_handle message",
    "rclcpp_publish": "message publisher_handle",
    "rcl_publish": "publisher_handle message",
    "rmw_publish": "rmw_publisher_handle message timestamp",
    "rmw_subscription_init": "rmw_subscription_handle gid",
    "rcl_subscription_init": "subscription_handle node_handle rmw_subscription_handle topic_name "
    "queue_depth",
    "rclcpp_subscription_init": "subscription_handle subscription",
    "rclcpp_subscription_callback_added": "subscription callback",
    "rmw_take": "rmw_subscription_handle message source_timestamp taken",
    "rcl_take": "message",
    "rclcpp_take": "message",
    "rcl_service_init": "service_handle node_handle rmw_service_handle service_name",
    "rclcpp_service_callback_added": "service_handle callback",
    "rmw_take_request": "rmw_service_handle request client_gid sequence_number taken",
    "rmw_send_response": "rmw_service_handle response client_gid sequence_number timestamp",
    "rmw_client_init": "rmw_client_handle gid",
    "rcl_client_init": "client_handle node_handle rmw_client_handle service_name",
    "rcl_send_request": "rmw_client_handle",
    "rmw_send_request": "rmw_client_handle request sequence_number",
    "rcl_send_response": "rmw_service_handle",
    "client_callback_start": "rmw_client_handle sequence_number",
    "action_request": "goal_id",
    "goal_status": "goal_id status",
    "message_type_init": "handle type",
    "message_content": "message size header_stamp",
    "message_received": "message received_timestamp",
    "rmw_take_response": "rmw_client_handle response sequence_number source_timestamp taken",
    "rcl_timer_init": "timer_handle period",
    "rclcpp_timer_callback_added": "timer_handle callback",
    "rclcpp_timer_link_node": "timer_handle node_handle",
    "rclcpp_callback_register": "callback symbol",
    "callback_start": "callback is_intra_process",
    "callback_end": "callback",
    "function_register": "function function_name",
    "function_entry": "function stack",
    "function_exit": "function stack",
    "rclcpp_executor_get_next_ready": "",
    "rclcpp_executor_wait_for_work": "timeout",
    "rclcpp_executor_execute": "handle",
    "executor_wait_start": "",
    "executor_wait_end": "",
    "rcl_lifecycle_state_machine_init": "node_handle state_machine",
    "rcl_lifecycle_transition": "state_machine start_label goal_label",
    "rclcpp_ipb_to_subscription": "ipb subscription",
    "rclcpp_buffer_to_ipb": "buffer ipb",
    "rclcpp_construct_ring_buffer": "buffer capacity",
    "rclcpp_ring_buffer_enqueue": "buffer index size overwritten",
    "rclcpp_ring_buffer_dequeue": "buffer index size",
    "rclcpp_ring_buffer_clear": "buffer",
    "message_link_periodic_async": "subs pubs",
    "message_link_partial_sync": "subs pubs",
})  # fmt: skip
"""The payload fields of the events that the model reads, after ``tracetools/tp_call.h`` and, for
events of roslens itself, ``tracing/ros/calls.py``."""

HEAP_FIELDS = _typed({
    "lttng_ust_libc:malloc": "size ptr",
    "lttng_ust_libc:calloc": "nmemb size ptr",
    "lttng_ust_libc:realloc": "in_ptr size ptr",
    "lttng_ust_libc:memalign": "size ptr",
    "lttng_ust_libc:posix_memalign": "size out_ptr result",
    "lttng_ust_libc:free": "ptr",
})  # fmt: skip
"""The payload fields of the allocator's events, after ``ust_libc.h`` of LTTng-UST."""

INIT_EVENTS = tuple(
    name
    for name in FIELDS
    if name.endswith(("_init", "_added", "_register", "_link_node", "_ipb", "_to_subscription"))
    or name == "rclcpp_construct_ring_buffer"
    or name.startswith("message_link_")
)
"""Rare events that name objects; a snapshot session records them repeatedly."""

_FEW = 100_000

Raw: TypeAlias = Mapping[str, pl.DataFrame] | Mapping[str, pl.LazyFrame]
"""Frame by event name (``ros2:rmw_take``), with `RAW_EVENT_COLUMNS`, then the payload."""


class Events:
    """The raw events of a recording, by name without the provider.

    Parameters
    ----------
    raw
        All events. Of lazy frames, only the columns and the events that the model uses are
        read.
    hosts
        Labels of all hosts, where they are known.

    Attributes
    ----------
    found
        The processes that were found, and how to tell them apart.
    processes
        The frame of `found`.
    """

    def __init__(self, raw: Raw, hosts: Sequence[str] = ()) -> None:
        lazy = {name: frame.lazy() for name, frame in raw.items()}
        of_all = (
            frame.select(pl.len(), several=_in_several_traces(frame)) for frame in lazy.values()
        )
        counts = dict(zip(lazy, (frame.row(0) for frame in pl.collect_all(of_all)), strict=True))
        happened = {name: lazy[name] for name, (count, _) in counts.items() if count}
        self._raw, self._happened = _by_short_name(lazy), _by_short_name(happened)
        self._in_several = [name for name in happened if counts[name][1]]
        self._columns: dict[str, set[str]] = {}
        self.found = find_processes(
            happened,
            [f"ros2:{name}" for name in INIT_EVENTS],
            hosts[0] if len(hosts) == 1 else None,
        )
        self.processes = self.found.frame
        self._repeated: dict[str, int] = {}
        self._twice: dict[tuple[str, Span], int] = {}
        self._without_context: dict[tuple[str, Span], int] = {}
        self._frames: dict[str, pl.DataFrame] = {}

    @cached_property
    def places(self) -> pl.DataFrame:
        """Host and vpid of each process, in the order of ``proc``; null where missing."""
        vpid = pl.col("vpid").replace(NOTHING, None)
        return self.processes.select(pl.col("host").cast(NAME), vpid)

    @property
    def repeated(self) -> int:
        """Number of repeated init events that were left out, among events read so far."""
        return sum(self._repeated.values())

    @property
    def twice(self) -> int:
        """Number of events left out because another session had recorded them, so far."""
        return sum(self._twice.values())

    @cached_property
    def overlapping(self) -> bool:
        """Whether two sessions recorded the same event at the same time, init event or other."""
        for name in INIT_EVENTS:
            self[name]
        names = {name.removeprefix("ros2:") for name in self._in_several} & {*FIELDS}
        return self.twice > 0 or any(
            recorded_together(self._raw[name], FIELDS[name]) for name in names - {*INIT_EVENTS}
        )

    @property
    def without_context(self) -> int:
        """Number of ros2 events without the context vpid or vtid, among events read so far."""
        return sum(self._without_context.values())

    def declared(self, name: str) -> bool:
        """Return whether the event was enabled, as far as the trace shows."""
        return name.removeprefix("ros2:") in self._raw

    def __getitem__(self, name: str) -> pl.DataFrame:
        """Return the events of one name: time_ns, proc, thread (one number), typed payload.

        Rows are sorted by time. Absent events give an empty frame, absent fields nulls.
        """
        if name in self._frames:
            return self._frames[name]
        if name in INIT_EVENTS:
            self._load_init_events()
            return self._frames[name]
        frame = self._load(name, EVER)
        # Frequent events are read again rather than kept in memory.
        if frame.height <= _FEW:
            self._frames[name] = frame
        return frame

    def _load_init_events(self) -> None:
        """Load all init events at once: there are many kinds, and few of each."""
        wanted = {name: self._scanned(name, EVER) for name in INIT_EVENTS if self.has(name)}
        frames = dict(zip(wanted, pl.collect_all(wanted.values()), strict=True))
        for name in INIT_EVENTS:
            frame = frames.get(name)
            self._frames[name] = (
                empty_events(name) if frame is None else self._distinct(name, EVER, frame)
            )

    def within(self, name: str, begin_ns: int | None, end_ns: int | None) -> pl.DataFrame:
        """Return events as `[]` does, from begin to end (excluded); not for init events."""
        return self._load(name, (begin_ns, end_ns))

    def concerning(self, name: str, field: str, handles: pl.Series) -> pl.DataFrame:
        """Return the events of one name that concern some objects, without those of others.

        Nothing is read if there are no objects.
        """
        if name not in self._raw or handles.is_empty():
            return empty_events(name)
        rows = self._scanned(name, EVER).filter(pl.col(field).is_in(handles.implode())).collect()
        kept = [column for column in rows.columns if column not in ("trace", "nowhere")]
        if "trace" in rows.columns:
            rows = recorded_once(rows, [column for column in kept if column != "time_ns"])
        return rows.select(kept).sort("time_ns", maintain_order=True)

    def has(self, name: str) -> bool:
        """Return whether the event was recorded at least once."""
        return name in self._happened

    def has_column(self, name: str, column: str) -> bool:
        """Return whether the frame of an event has this column, payload or context."""
        return name in self._raw and column in self._columns_of(name)

    def scan(self, name: str) -> pl.LazyFrame | None:
        """Return the events of one name as recorded; None if there are none."""
        return self._raw.get(name)

    def _columns_of(self, name: str) -> set[str]:
        if name not in self._columns:
            self._columns[name] = set(self._raw[name].collect_schema())
        return self._columns[name]

    def _load(self, name: str, span: Span) -> pl.DataFrame:
        if name not in self._raw:
            return empty_events(name)
        return self._distinct(name, span, self._scanned(name, span).collect())

    def _trace(self, name: str) -> list[str]:
        """Return the column that tells the recording session of an event, if that matters."""
        sessions = name in INIT_EVENTS or self.overlapping
        return ["trace"] if sessions and "trace" in self._columns_of(name) else []

    def _scanned(self, name: str, span: Span) -> pl.LazyFrame:
        fields = _fields(name)
        columns = self._columns_of(name)
        trace = self._trace(name)
        # The first record of an event may lie before the stretch that contains the second.
        before = span[0] - APART_NS if trace and span[0] is not None else span[0]
        return self.found.numbered(
            during(self._raw[name], (before, span[1])).select(
                pl.col("time_ns").cast(I64),
                *identified(columns, self.found.host),
                pl.col("vtid").cast(I64).fill_null(NOTHING),
                ((pl.col("vpid").is_null()) | (pl.col("vtid").is_null())).alias("nowhere"),
                *trace,
                *(
                    pl.col(field).cast(kind)
                    if field in columns
                    else pl.lit(None, dtype=kind).alias(field)
                    for field, kind in fields.items()
                ),
            )
        ).select(
            "time_ns",
            "proc",
            (pl.col("proc").cast(I64) * 2**32 + pl.col("vtid")).alias("thread"),
            *fields,
            "nowhere",
            *trace,
        )

    def _distinct(self, name: str, span: Span, frame: pl.DataFrame) -> pl.DataFrame:
        """Drop and count events that were recorded twice; return the rest in one chunk."""
        trace = self._trace(name)
        columns = [column for column in frame.columns if column not in ("trace", "nowhere")]
        unique = frame
        if name in INIT_EVENTS:
            unique = unique.unique(columns, keep="first", maintain_order=True)
            self._repeated[name] = frame.height - unique.height
        if trace:
            unique = recorded_once(unique, [column for column in columns if column != "time_ns"])
            unique = during(unique, span)
            recorded = frame.filter(pl.col("time_ns") >= span[0]) if span[0] is not None else frame
            self._twice[name, span] = recorded.height - unique.height - self._repeated.get(name, 0)
        self._without_context[name, span] = int(unique["nowhere"].sum())
        unique = unique.select(columns)
        if not unique["time_ns"].is_sorted():
            unique = unique.sort("time_ns", maintain_order=True)
        return unique.rechunk()


def _in_several_traces(events: pl.LazyFrame) -> pl.Expr:
    """Return an expression for whether several traces hold events of a kind."""
    if "trace" not in events.collect_schema():
        return pl.lit(value=False)
    trace = pl.col("trace")
    return trace.min() != trace.max()


def _by_short_name(events: Mapping[str, pl.LazyFrame]) -> Mapping[str, pl.LazyFrame]:
    # Kernel events have no provider; their files lie in a folder of that name.
    return {name.removeprefix("ros2:").removeprefix("kernel:"): events[name] for name in events}


def _fields(name: str) -> Mapping[str, pl.DataType]:
    return FIELDS[name] if name in FIELDS else HEAP_FIELDS[name]


def empty_events(name: str) -> pl.DataFrame:
    """Return an empty frame for an event, with the columns that `Events` gives."""
    return pl.DataFrame(schema={"time_ns": I64, "proc": I32, "thread": I64, **_fields(name)})


def vtid() -> pl.Expr:
    """Extract the thread id from the number that stands for (host, vpid, vtid)."""
    low = pl.col("thread") % 2**32
    return pl.when(low < 2**31).then(low).cast(I32)


def proc(thread: str = "thread") -> pl.Expr:
    """Extract the process's number from the number of a thread."""
    # An unknown thread id counts as -1.
    return ((pl.col(thread) + 1) // 2**32).cast(I32)
