"""Make the init events of objects that programs created before roslens attached to them.

The probes read each endpoint's topic or service from the rmw struct that its events point to
(``rmw/types.h``: middleware, data, name). Its node comes from the graph: the middleware's data
contains the endpoint's id, which is looked up among the ids that the graph has for this topic.
Endpoints that are not found stay unknown.
"""

from __future__ import annotations

import os
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter

from roslens.recording.arrays import Bytes, Ints, np
from roslens.recording.manifest import Endpoint
from roslens.recording.models import Frozen
from roslens.tracing.ftrace.formats import HEAD_BYTES, Field, Format
from roslens.tracing.ftrace.pages import find_events
from roslens.tracing.ftrace.raw import RawTrace, Records, Thread
from roslens.tracing.ftrace.rows import numbers_at, windows
from roslens.tracing.ftrace.tsdl import NAME_BYTES

NAME_FIELD = "roslens_name"
"""Field that a probe adds to an event: the name of the topic or service."""
NAME_FETCH = "+0(+16({register})):string"
NAMED = {
    "rmw_publish": "publisher",
    "rmw_take": "subscription",
    "rmw_take_request": "service",
    "rmw_send_response": "service",
    "rmw_send_request": "client",
    "rmw_take_response": "client",
}
"""Kind of the named endpoint to which an event's first argument ``rmw_<kind>_handle`` points."""
_TOLD = {f"rmw_{kind}_init": kind for kind in ("publisher", "subscription", "client")} | {
    f"rcl_{kind}_init": kind for kind in ("publisher", "subscription", "service", "client")
}
NEW_THREAD = "task_newtask"
"""The kernel's event of a new thread."""
NEW_NAME = "task_rename"
"""The kernel's event of a thread that is renamed, as when a process executes another program."""
_OF_SAME_PROCESS = 0x10000
"""CLONE_THREAD (linux/sched.h)."""
_DATA_BYTES = 256
_GID_BYTES = 16
_PREFIX_BYTES = 12
"""Length of the part of an id shared by all endpoints of a participant (RTPS 2.3, 9.3.1)."""
_ASKING = "client_gid"
"""Field of a service's events: the middleware's id of the client."""
_FAULT = "(fault)"
_LAST_NUMBER = (1 << 16) - 1

Key = tuple[int, str, int]
"""Process, kind of the endpoint, and its address in the process."""


class GraphEndpoint(Frozen):
    """An endpoint in the ROS graph; `name` is the middleware's name, `gid` is in hexadecimal."""

    name: str
    kind: str
    node: str
    namespace: str
    type: str
    gid: str
    depth: int | None
    reliability: str
    durability: str
    history: str

    @property
    def ros_name(self) -> str:
        """Return the topic's name; names of service requests are not changed."""
        return self.name.removeprefix("rt") if self.name.startswith("rt/") else self.name

    @property
    def ros_type(self) -> str:
        """Return the message type in ROS notation."""
        return self.type.replace("dds_::", "").replace("::", "/").rstrip("_")

    @property
    def full_node(self) -> str:
        """Return the node's name with its namespace."""
        return f"{self.namespace.rstrip('/')}/{self.node}"

    @property
    def node_is_known(self) -> bool:
        """Return whether the graph knows the endpoint's node."""
        return not self.node.startswith("_NODE_NAME_UNKNOWN_")


class FoundHandle(Frozen):
    """An endpoint found in a program's memory: its middleware, and bytes of its data (hex)."""

    vpid: int
    kind: str
    handle: int
    middleware: str | None
    data: str


@dataclass(frozen=True)
class Sighting:
    """An endpoint seen in events: first time, a thread, its name, number of events."""

    time: int
    tid: int
    name: str
    count: int = 0


_FIRST = attrgetter("time")


def sightings(
    trace: RawTrace, blocks: Iterable[Bytes], threads: Mapping[int, Thread]
) -> dict[Key, Sighting]:
    """Return the endpoints named in some pages; `trace` has the formats of the probes."""
    seen: dict[Key, Sighting] = {}
    for data in blocks:
        for name, kind, begin, time in _events(trace, data):
            described = trace.formats[kind]
            where = {field.name: field for field in described.fields}
            if NAME_FIELD not in where or name not in NAMED:
                continue
            tid = numbers_at(data, begin + 4, "<i4")
            handle = numbers_at(data, begin + where[f"rmw_{NAMED[name]}_handle"].offset, "<i8")
            _, first, count = np.unique(
                np.stack([tid, handle]), axis=1, return_index=True, return_counts=True
            )
            for at, number in zip(first.tolist(), count.tolist(), strict=True):
                thread = threads.get(int(tid[at]))
                text = _text(data, int(begin[at]), where[NAME_FIELD].offset)
                if thread is None or text in {"", _FAULT}:
                    continue
                key = (thread[0], NAMED[name], int(handle[at]))
                sighting = Sighting(int(time[at]), int(tid[at]), text)
                before = seen.get(key, sighting)
                earliest = min(before, sighting, key=_FIRST)
                seen[key] = replace(earliest, count=before.count + number)
    return seen


def with_new_threads(
    trace: RawTrace,
    blocks: Iterable[Bytes],
    threads: Mapping[int, Thread],
    *,
    processes: bool = False,
) -> dict[int, Thread]:
    """Return known threads and the threads they started, including any that have already ended.

    `trace` has the formats of `NEW_THREAD` and `NEW_NAME`. `processes`: also include threads of
    processes that they started.
    """
    began: list[tuple[int, ...]] = []
    names: list[tuple[int, int, str]] = []
    for data in blocks:
        for _, number, begin, time in _events(trace, data):
            where = {field.name: field.offset for field in trace.formats[number].fields}
            if "newcomm" in where:
                tids = numbers_at(data, begin + 4, "<i4").tolist()
                for at, tid, now in zip(begin.tolist(), tids, time.tolist(), strict=True):
                    text = bytes(data[at + where["newcomm"] :][:NAME_BYTES]).partition(b"\0")[0]
                    names.append((now, tid, text.decode(errors="replace")))
                continue
            places = ((4, "<i4"), (where["pid"], "<i4"), (where["clone_flags"], "<i8"))
            columns = [time, *(numbers_at(data, begin + at, kind) for at, kind in places)]
            began += zip(*(column.tolist() for column in columns), strict=True)
    by_tid = dict(threads)
    for _, parent, child, flags in sorted(began):
        vpid, vtid, name = by_tid.get(parent, (0, 0, ""))
        # A thread in its own namespace has a different number there.
        if vtid == parent and flags & _OF_SAME_PROCESS:
            by_tid.setdefault(child, (vpid, child, name))
        elif vtid == parent and processes:
            by_tid.setdefault(child, (child, child, name))
    for _, tid, name in sorted(names) if processes else ():
        if tid in by_tid:
            by_tid[tid] = (*by_tid[tid][:2], name)
    return by_tid


def _events(trace: RawTrace, data: Bytes) -> Iterator[tuple[str, int, Ints, Ints]]:
    """Yield the name, number, event offsets and event times of each probe in some pages."""
    if trace.header is None:
        return
    events = find_events(data, trace.header)
    whole = (events.size >= HEAD_BYTES) & trace.recorded(events.time)
    begin, size, time = events.begin[whole], events.size[whole], events.time[whole]
    kind = numbers_at(data, begin, "<u2")
    for number in np.unique(kind).tolist():
        described = trace.formats.get(number)
        if described is not None:
            of_kind = (kind == number) & (size >= described.size)
            if of_kind.any():
                # Our probe of an event is named ``<event>__<number>``.
                event = described.name.rpartition("__")[0]
                yield event, number, begin[of_kind], time[of_kind]


def _text(data: Bytes, begin: int, offset: int) -> str:
    word = int(numbers_at(data, np.array([begin + offset]), "<u4")[0])
    start = begin + (word & 0xFFFF)
    return bytes(data[start : start + (word >> 16)]).partition(b"\0")[0].decode(errors="replace")


def read_handle(key: Key, tid: int) -> FoundHandle | None:
    """Read an endpoint from its program's memory; return None if it cannot be read."""
    with suppress(OSError, struct.error, OverflowError):
        memory = os.open(f"/proc/{tid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            middleware, data = struct.unpack("<QQ", os.pread(memory, 16, key[2]))
            name = os.pread(memory, 64, middleware).partition(b"\0")[0]
            content = os.pread(memory, _DATA_BYTES, data)
        finally:
            os.close(memory)
        shown = name.decode("ascii", errors="replace")
        return FoundHandle(
            vpid=key[0],
            kind=key[1],
            handle=key[2],
            middleware=shown if shown.isidentifier() else None,
            data=content.hex(),
        )
    return None


def is_whole(graph: Iterable[GraphEndpoint], found: Iterable[FoundHandle]) -> bool:
    """Return whether a graph has every publisher and subscription found in memory."""
    endpoints = list(graph)
    ids = {
        kind: [
            bytes.fromhex(endpoint.gid)[:_GID_BYTES]
            for endpoint in endpoints
            if endpoint.kind == kind and endpoint.node_is_known
        ]
        for kind in ("publisher", "subscription")
    }
    return all(
        any(gid in bytes.fromhex(handle.data) for gid in ids[handle.kind])
        for handle in found
        if handle.kind in ids
    )


@dataclass
class _Object:
    """An endpoint for which init events are made."""

    vpid: int
    kind: str
    handle: int
    name: str
    graph: GraphEndpoint | None = None
    gid: bytes = b""


class _Graph:
    """The endpoints of the graph, matched with the programs that they belong to."""

    def __init__(self, endpoints: Iterable[GraphEndpoint], handles: Iterable[FoundHandle]) -> None:
        self._named: dict[tuple[str, str], list[GraphEndpoint]] = defaultdict(list)
        for endpoint in endpoints:
            self._named[endpoint.kind, endpoint.ros_name].append(endpoint)
        self.data = {
            (handle.vpid, handle.kind, handle.handle): bytes.fromhex(handle.data)
            for handle in handles
        }
        self.participants: dict[int, set[str]] = defaultdict(set)

    def find_endpoint(self, key: Key, name: str) -> GraphEndpoint | None:
        """Return the graph endpoint whose id lies in the data of a program's endpoint."""
        data = self.data.get(key, b"")
        fitting = [
            endpoint
            for endpoint in self._named[key[1], name]
            if bytes.fromhex(endpoint.gid)[:_GID_BYTES] in data
        ]
        if len(fitting) != 1:
            return None
        self.participants[key[0]].add(fitting[0].gid[: 2 * _PREFIX_BYTES])
        return fitting[0]

    def endpoints_of_program(
        self, vpid: int, kind: str, name: str | None = None
    ) -> list[GraphEndpoint]:
        """Return the endpoints of a kind, of any or one name, of a program's participants."""
        prefixes = self.participants[vpid]
        return [
            endpoint
            for (of_kind, of_name), endpoints in self._named.items()
            if of_kind == kind and name in (None, of_name)
            for endpoint in endpoints
            if endpoint.gid[: 2 * _PREFIX_BYTES] in prefixes
        ]


class Names:
    """A collector of the names of endpoints in pages, which makes the missing init events.

    Parameters
    ----------
    trace
        The pages, and the formats of the probes by their own names.
    threads
        Threads of the programs.
    graph, found
        Endpoints that the graph shows, and endpoints found in the programs' memory.
    functions
        Names of probed functions, which are numbered from 1.
    """

    def __init__(
        self,
        trace: RawTrace,
        threads: Mapping[int, Thread],
        graph: Iterable[GraphEndpoint],
        found: Iterable[FoundHandle],
        functions: Sequence[str] = (),
    ) -> None:
        self._trace, self._threads = trace, threads
        self._functions = functions
        self._called: dict[tuple[int, int], tuple[int, int]] = {}
        self._graph = _Graph(graph, found)
        self._begin: int | None = None
        self._told: dict[Key, int] = {}
        self._seen: dict[Key, Sighting] = {}
        self._steps: list[Ints] = []
        self._asking: set[bytes] = set()

    def read(self, data: Bytes) -> None:
        """Collect endpoints, function calls and steps from some pages."""
        for name, number, begin, time in _events(self._trace, data):
            first = int(time.min())
            self._begin = first if self._begin is None else min(self._begin, first)
            where = {field.name: field for field in self._trace.formats[number].fields}
            if _ASKING in where:
                ids = windows(data, _GID_BYTES)[begin + where[_ASKING].offset]
                self._asking.update(map(bytes, np.unique(ids)))
            if name == "function_entry":
                self._call(
                    numbers_at(data, begin + 4, "<i4"),
                    numbers_at(data, begin + where["function"].offset, "<i8"),
                    time,
                )
            if name in _TOLD:
                tid = numbers_at(data, begin + 4, "<i4").tolist()
                handle = numbers_at(data, begin + where[f"rmw_{_TOLD[name]}_handle"].offset, "<i8")
                for row in zip(tid, handle.tolist(), time.tolist(), strict=True):
                    key = (self._threads.get(row[0], (0, 0, ""))[0], _TOLD[name], row[1])
                    self._told[key] = min(row[2], self._told.get(key, row[2]))
            elif name in _STEPS:
                code, columns = _STEPS[name]
                rows = [
                    numbers_at(data, begin + 4, "<i4"),
                    time,
                    np.full(len(time), code, dtype=np.int64),
                    *(
                        numbers_at(data, begin + where[column].offset, f"<i{where[column].size}")
                        if column in where
                        else np.zeros(len(time), dtype=np.int64)
                        for column in columns
                    ),
                ]
                self._steps.append(np.stack(rows, axis=1))
        for key, sighting in sightings(self._trace, [data], self._threads).items():
            self._seen[key] = min(self._seen.get(key, sighting), sighting, key=_FIRST)

    def _call(self, tid: Ints, function: Ints, time: Ints) -> None:
        pairs, first = np.unique(np.stack([tid, function]), axis=1, return_index=True)
        for caller, number, at in zip(*pairs.tolist(), first.tolist(), strict=True):
            if caller in self._threads:
                key, call = (self._threads[caller][0], number), (int(time[at]), caller)
                self._called[key] = min(call, self._called.get(key, call))

    @property
    def not_called(self) -> list[str]:
        """Return the names of probed functions that no known thread called."""
        called = {number for _, number in self._called}
        return [name for number, name in enumerate(self._functions, 1) if number not in called]

    def records(self) -> tuple[dict[int, Format], list[Records]]:
        """Return formats and init events, dated before all events or a function's first call."""
        objects = self._objects()
        written = _Written()
        pieces = []
        if self._begin is not None and objects:
            self._write_objects(objects, written)
            pieces.append(written.records(self._begin))
        for (_, number), (time, written.tid) in sorted(
            self._called.items(), key=lambda pair: pair[1]
        ):
            name = self._functions[number - 1]
            written.add("function_register", function=number, function_name=name)
            pieces.append(written.records(time))
        return written.formats, pieces

    def _write_objects(self, objects: list[_Object], written: _Written) -> None:
        uppers, callbacks = self._rcl_of_rmw()
        nodes: dict[tuple[int, str, str], int] = {}
        for endpoint in objects:
            written.tid = self._thread_of(endpoint.vpid)
            node = 0
            if endpoint.graph is not None and endpoint.graph.node_is_known:
                key = (endpoint.vpid, endpoint.graph.namespace, endpoint.graph.node)
                if key not in nodes:
                    # Use an address inside the object, where no other object begins.
                    nodes[key] = endpoint.handle + 3
                    written.add(
                        "rcl_node_init",
                        node_handle=nodes[key],
                        rmw_handle=0,
                        node_name=endpoint.graph.node,
                        namespace=endpoint.graph.namespace,
                    )
                node = nodes[key]
            endpoint_key = (endpoint.vpid, endpoint.kind, endpoint.handle)
            upper = uppers.get(endpoint_key, endpoint.handle + 1)
            endpoint.gid = self._id_of(endpoint)
            _write_object(written, endpoint, node, upper, callbacks.get(endpoint_key))

    def _objects(self) -> list[_Object]:
        before = {
            key: sighting
            for key, sighting in self._seen.items()
            if sighting.time < self._told.get(key, sighting.time + 1)
        }
        objects = [
            _Object(*key, name=sighting.name, graph=self._graph.find_endpoint(key, sighting.name))
            for key, sighting in sorted(before.items())
        ]
        matched = {endpoint.graph.gid for endpoint in objects if endpoint.graph is not None}
        for endpoint in objects:
            kind = {"service": "subscription", "client": "publisher"}.get(endpoint.kind)
            if endpoint.graph is None and kind is not None:
                name = f"rq{endpoint.name}Request"
                candidates = self._graph.endpoints_of_program(endpoint.vpid, kind, name)
                if len({candidate.full_node for candidate in candidates}) == 1:
                    endpoint.graph = candidates[0]
        unclear = {
            (endpoint.vpid, endpoint.name)
            for endpoint in objects
            if endpoint.kind == "subscription" and endpoint.graph is None
        }
        initialized = {(key[0], key[1]) for key in self._told}
        for vpid in sorted(self._graph.participants):
            if (vpid, "subscription") in initialized:
                # Some subscriptions were created while recording, and cannot be told from the
                # graph's.
                continue
            # A subscription that took nothing can have lost messages, too. Its address is unknown,
            # so it gets one in the first page, where no object lies.
            silent = (
                endpoint
                for endpoint in self._graph.endpoints_of_program(vpid, "subscription")
                if endpoint.name.startswith("rt/") and endpoint.gid not in matched
            )
            objects += [
                _Object(vpid, "subscription", 16 + 8 * number, endpoint.ros_name, endpoint)
                for number, endpoint in enumerate(silent)
                if (vpid, endpoint.ros_name) not in unclear
            ]
        return objects

    def _id_of(self, endpoint: _Object) -> bytes:
        """Return the middleware's id of an endpoint (of a client, as services know it), or b""."""
        if endpoint.kind == "client":
            data = self._graph.data.get((endpoint.vpid, endpoint.kind, endpoint.handle), b"")
            gids = [gid for gid in self._asking if gid in data]
            return gids[0] if len(gids) == 1 else b""
        if endpoint.graph is None or endpoint.kind == "service":
            return b""
        return bytes.fromhex(endpoint.graph.gid)[:_GID_BYTES].ljust(_GID_BYTES, b"\0")

    def _thread_of(self, vpid: int) -> int:
        mine = {tid: thread for tid, thread in self._threads.items() if thread[0] == vpid}
        return next((tid for tid, thread in mine.items() if thread[1] == vpid), min(mine))

    def _rcl_of_rmw(self) -> tuple[dict[Key, int], dict[Key, int]]:
        """Return for rmw endpoints the rcl publisher above them, and the callback they start.

        Each is the neighbouring event on the thread, provided that it is always the same.
        """
        uppers: dict[Key, set[int]] = defaultdict(set)
        callbacks: dict[Key, set[int]] = defaultdict(set)
        if self._steps:
            steps = np.concatenate(self._steps)
            steps = steps[np.lexsort((steps[:, 1], steps[:, 0]))]
            ahead, behind = steps[:-1], steps[1:]
            window = np.searchsorted(self._trace.pauses[:, 0], steps[:, 1])
            same = (ahead[:, 0] == behind[:, 0]) & (window[:-1] == window[1:])
            published = same & (ahead[:, 2] == _RCL_PUBLISH) & (behind[:, 2] == _PUBLISH)
            published &= ahead[:, 4] == behind[:, 4]
            self._pairs(behind[published], ahead[published], "publisher", uppers)
            begun = same & (behind[:, 2] == _START) & (behind[:, 4] == 0)
            took = ahead[:, 4] != 0
            for code, kind in ((_TAKE, "subscription"), (_TAKE_REQUEST, "service")):
                fits = begun & took & (ahead[:, 2] == code)
                self._pairs(ahead[fits], behind[fits], kind, callbacks)
        owners = Counter((key[0], each) for key, all_of in callbacks.items() for each in all_of)
        started = {key: each for key, each in _single(callbacks) if owners[key[0], each] == 1}
        return dict(_single(uppers)), started

    def _pairs(self, steps: Ints, neighbours: Ints, kind: str, into: dict[Key, set[int]]) -> None:
        if not len(steps):
            return
        triples = np.unique(np.stack([steps[:, 0], steps[:, 3], neighbours[:, 3]], axis=1), axis=0)
        for tid, handle, neighbour in triples.tolist():
            thread = self._threads.get(tid)
            if thread is not None:
                into[thread[0], kind, handle].add(neighbour)


def _single(addresses: Mapping[Key, set[int]]) -> Iterator[tuple[Key, int]]:
    """Yield the keys that have exactly one address, and this address."""
    return ((key, each) for key, (each, *more) in addresses.items() if not more)


_RCL_PUBLISH, _PUBLISH, _TAKE, _TAKE_REQUEST, _START, _OTHER = range(6)
_STEPS: dict[str, tuple[int, tuple[str, str]]] = {
    "rcl_publish": (_RCL_PUBLISH, ("publisher_handle", "message")),
    "rmw_publish": (_PUBLISH, ("rmw_publisher_handle", "message")),
    "rmw_take": (_TAKE, ("rmw_subscription_handle", "taken")),
    "rmw_take_request": (_TAKE_REQUEST, ("rmw_service_handle", "taken")),
    "callback_start": (_START, ("callback", "is_intra_process")),
    **dict.fromkeys(
        (
            *("rmw_take_response", "rclcpp_ring_buffer_dequeue", "callback_end"),
            *("rclcpp_executor_execute", "rclcpp_executor_get_next_ready"),
            "rclcpp_executor_wait_for_work",
        ),
        (_OTHER, ("", "")),
    ),
}
"""Events that show which objects belong together: a code, an object, and a further condition."""


def _write_object(
    written: _Written, endpoint: _Object, node: int, upper: int, callback: int | None
) -> None:
    kind, rmw = endpoint.kind, f"rmw_{endpoint.kind}_handle"
    handles: dict[str, int] = {f"{kind}_handle": upper, "node_handle": node, rmw: endpoint.handle}
    if endpoint.gid:
        identity: dict[str, int | str | bytes] = {rmw: endpoint.handle, "gid": endpoint.gid}
        written.add(f"rmw_{kind}_init", **identity)
    if kind in {"publisher", "subscription"}:
        depth = (endpoint.graph and endpoint.graph.depth) or 0
        written.add(f"rcl_{kind}_init", **handles, topic_name=endpoint.name, queue_depth=depth)
        if endpoint.graph is not None:
            written.add("message_type_init", handle=upper, type=endpoint.graph.ros_type)
    else:
        written.add(f"rcl_{kind}_init", **handles, service_name=endpoint.name)
    if callback is not None and kind == "subscription":
        whole = {"subscription": endpoint.handle + 2}
        written.add("rclcpp_subscription_init", **{f"{kind}_handle": upper}, **whole)
        written.add("rclcpp_subscription_callback_added", **whole, callback=callback)
    elif callback is not None:
        written.add("rclcpp_service_callback_added", service_handle=upper, callback=callback)


class _Written:
    """Events that are made, not recorded; `tid` is the thread that they belong to."""

    def __init__(self) -> None:
        self.tid = 0
        self.formats: dict[int, Format] = {}
        self._numbers: dict[str, int] = {}
        self._events: list[bytes] = []

    def add(self, name: str, **fields: int | str | bytes) -> None:
        """Add an event; its fields are addresses, texts or ids."""
        if name not in self._numbers:
            described, at = [], HEAD_BYTES
            for field, value in fields.items():
                if isinstance(value, bytes):
                    described.append(Field(field, at, 1, "ints", count=len(value)))
                else:
                    size, kind = (8, "int") if isinstance(value, int) else (4, "string")
                    described.append(Field(field, at, size, kind))  # type: ignore[arg-type]
                at = described[-1].end
            number = _LAST_NUMBER - len(self._numbers)
            self._numbers[name] = number
            self.formats[number] = Format(number, f"ros2:{name}", tuple(described))
        number = self._numbers[name]
        after = max(field.end for field in self.formats[number].fields)
        head, texts = struct.pack("<HBBi", number, 0, 0, self.tid), b""
        for value in fields.values():
            if isinstance(value, int):
                head += struct.pack("<Q", value & (1 << 64) - 1)
            elif isinstance(value, bytes):
                head += value
            else:
                text = value.encode() + b"\0"
                head += struct.pack("<I", len(text) << 16 | after + len(texts))
                texts += text
        self._events.append(head + texts)

    def records(self, until: int) -> Records:
        """Return the events added since the last call, in order, just before a time."""
        events, self._events = self._events, []
        size = np.array([len(event) for event in events], dtype=np.int64)
        count = len(size)
        return Records(
            np.frombuffer(b"".join(events), dtype=np.uint8),
            np.cumsum(size) - size,
            size,
            until - count + np.arange(count, dtype=np.int64),
        )


def manifest_graph(endpoints: Iterable[GraphEndpoint]) -> list[Endpoint]:
    """Return the publishers and subscriptions of topics in the form that manifests use."""
    return [
        Endpoint(
            topic=endpoint.ros_name,
            node=endpoint.full_node,
            kind="publisher" if endpoint.kind == "publisher" else "subscription",
            type=endpoint.ros_type,
            reliability=endpoint.reliability,
            durability=endpoint.durability,
            history=endpoint.history,
            depth=endpoint.depth,
        )
        for endpoint in endpoints
        if endpoint.node_is_known and endpoint.name.startswith("rt/")
    ]
