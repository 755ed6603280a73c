"""What init events would have told of objects that programs made before they were attached to.

The probes read each endpoint's topic or service from the struct of rmw that its events point to
(``rmw/types.h``: middleware, data, name). Which node it belongs to, the graph tells, by the
middleware's id for the endpoint: that id lies in the data of the middleware, and there it is
looked for among those that the graph has for this topic. What is not found stays unknown.
"""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict

from roslens.recording.arrays import Bytes, Ints, np
from roslens.recording.manifest import Endpoint
from roslens.tracing.ftrace.formats import HEAD_BYTES, Field, Format
from roslens.tracing.ftrace.pages import find_events
from roslens.tracing.ftrace.raw import RawTrace, Records, Thread
from roslens.tracing.ftrace.rows import numbers_at, windows
from roslens.tracing.ftrace.tsdl import NAME_BYTES

NAME_FIELD = "roslens_name"
"""What a probe adds to an event: the name of the topic or service."""
NAME_FETCH = "+0(+16({register})):string"
NAMED = {
    "rmw_publish": "publisher",
    "rmw_take": "subscription",
    "rmw_take_request": "service",
    "rmw_send_response": "service",
    "rmw_send_request": "client",
    "rmw_take_response": "client",
}
"""Events whose first argument, ``rmw_<kind>_handle``, points to a named endpoint: its kind."""
_TOLD = {f"rmw_{x}_init": x for x in ("publisher", "subscription", "client")} | {
    f"rcl_{x}_init": x for x in ("publisher", "subscription", "service", "client")
}
NEW_THREAD = "task_newtask"
"""The kernel's event of a thread that begins."""
NEW_NAME = "task_rename"
"""The same of one that gets another name, as a process does that begins another program."""
_OF_SAME_PROCESS = 0x10000
"""CLONE_THREAD (linux/sched.h)."""
_DATA_BYTES = 256
_GID_BYTES = 16
_PREFIX_BYTES = 12
"""Of an id: what all endpoints of one participant have in common (RTPS 2.3, 9.3.1)."""
_ASKING = "client_gid"
"""A field of the events of a service: the middleware's id for the client."""
_FAULT = "(fault)"
_LAST_NUMBER = (1 << 16) - 1

Key = tuple[int, str, int]
"""Process, kind and address in it."""


class GraphEndpoint(BaseModel):
    """An endpoint as the graph shows it; `name` is the middleware's, `gid` in hexadecimal."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
        """The topic's name; that of a service's requests is left as it is."""
        return self.name.removeprefix("rt") if self.name.startswith("rt/") else self.name

    @property
    def ros_type(self) -> str:
        """The type of its messages as ROS writes it."""
        return self.type.replace("dds_::", "").replace("::", "/").rstrip("_")

    @property
    def full_node(self) -> str:
        """The node with its namespace."""
        return f"{self.namespace.rstrip('/')}/{self.node}"

    @property
    def known(self) -> bool:
        """Whether the graph knows its node."""
        return not self.node.startswith("_NODE_NAME_UNKNOWN_")


class FoundHandle(BaseModel):
    """An endpoint in the memory of a program: its middleware, and bytes of its data (hex)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    vpid: int
    kind: str
    handle: int
    middleware: str | None
    data: str


@dataclass
class Sighting:
    """An endpoint in events: the first of these, a thread of it, its name, how many there are."""

    time: int
    tid: int
    name: str
    count: int = 0


def event_name(probe: str) -> str:
    """The event that a probe of ours, ``<event>__<number>``, stands for."""
    return probe.rpartition("__")[0]


def sightings(
    trace: RawTrace, blocks: Iterable[Bytes], threads: Mapping[int, Thread]
) -> dict[Key, Sighting]:
    """The endpoints that some pages name; `trace` has the formats of the probes."""
    seen: dict[Key, Sighting] = {}
    for data in blocks:
        for name, kind, begin, time in _events(trace, data):
            described = trace.formats[kind]
            where = {x.name: x for x in described.fields}
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
                own = Sighting(int(time[at]), int(tid[at]), text)
                before = seen.setdefault(key, own)
                before.count += number
                if own.time < before.time:
                    before.time, before.tid, before.name = own.time, own.tid, own.name
    return seen


def with_new_threads(
    trace: RawTrace,
    blocks: Iterable[Bytes],
    threads: Mapping[int, Thread],
    *,
    processes: bool = False,
) -> dict[int, Thread]:
    """Some threads and those that they began, of which some ended before anyone looked.

    `trace` has the formats of `NEW_THREAD` and `NEW_NAME`. `processes`: also those of processes
    that they began.
    """
    began: list[tuple[int, ...]] = []
    names: list[tuple[int, int, str]] = []
    for data in blocks:
        for _, number, begin, time in _events(trace, data):
            where = {x.name: x.offset for x in trace.formats[number].fields}
            if "newcomm" in where:
                tids = numbers_at(data, begin + 4, "<i4").tolist()
                for at, tid, now in zip(begin.tolist(), tids, time.tolist(), strict=True):
                    text = bytes(data[at + where["newcomm"] :][:NAME_BYTES]).partition(b"\0")[0]
                    names.append((now, tid, text.decode(errors="replace")))
                continue
            places = ((4, "<i4"), (where["pid"], "<i4"), (where["clone_flags"], "<i8"))
            columns = [time, *(numbers_at(data, begin + at, kind) for at, kind in places)]
            began += zip(*(x.tolist() for x in columns), strict=True)
    found = dict(threads)
    for _, parent, child, flags in sorted(began):
        vpid, vtid, name = found.get(parent, (0, 0, ""))
        # In a namespace of its own, a thread has another number there.
        if vtid == parent and flags & _OF_SAME_PROCESS:
            found.setdefault(child, (vpid, child, name))
        elif vtid == parent and processes:
            found.setdefault(child, (child, child, name))
    for _, tid, name in sorted(names) if processes else ():
        if tid in found:
            found[tid] = (*found[tid][:2], name)
    return found


def _events(trace: RawTrace, data: Bytes) -> Iterator[tuple[str, int, Ints, Ints]]:
    """Of each probe that has events in some pages: name, number, where they begin, their times."""
    if trace.header is None:
        return
    found = find_events(data, trace.header)
    whole = (found.size >= HEAD_BYTES) & trace.recorded(found.time)
    begin, size, time = found.begin[whole], found.size[whole], found.time[whole]
    kind = numbers_at(data, begin, "<u2")
    for number in np.unique(kind).tolist():
        described = trace.formats.get(number)
        if described is not None:
            own = (kind == number) & (size >= described.size)
            if own.any():
                yield event_name(described.name), number, begin[own], time[own]


def _text(data: Bytes, begin: int, offset: int) -> str:
    word = int(numbers_at(data, np.array([begin + offset]), "<u4")[0])
    start = begin + (word & 0xFFFF)
    return bytes(data[start : start + (word >> 16)]).partition(b"\0")[0].decode(errors="replace")


def read_handle(key: Key, tid: int) -> FoundHandle | None:
    """Look at an endpoint in the memory of its program; None where it cannot be read."""
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
    """Whether a graph has every publisher and subscription that was found in a program's memory."""
    own = list(graph)
    ids = {
        kind: [bytes.fromhex(x.gid)[:_GID_BYTES] for x in own if x.kind == kind and x.known]
        for kind in ("publisher", "subscription")
    }
    return all(
        any(gid in bytes.fromhex(one.data) for gid in ids[one.kind])
        for one in found
        if one.kind in ids
    )


@dataclass
class _Object:
    """An endpoint of which init events are made."""

    vpid: int
    kind: str
    handle: int
    name: str
    graph: GraphEndpoint | None = None
    gid: bytes = b""


class _Graph:
    """The endpoints of the graph, and which of them belong to which program."""

    def __init__(self, endpoints: Iterable[GraphEndpoint], found: Iterable[FoundHandle]) -> None:
        self._named: dict[tuple[str, str], list[GraphEndpoint]] = defaultdict(list)
        for one in endpoints:
            self._named[one.kind, one.ros_name].append(one)
        self.data = {(x.vpid, x.kind, x.handle): bytes.fromhex(x.data) for x in found}
        self.participants: dict[int, set[str]] = defaultdict(set)

    def of(self, key: Key, name: str) -> GraphEndpoint | None:
        """The endpoint of the graph whose id lies in the data of an endpoint of a program."""
        data = self.data.get(key, b"")
        there = [x for x in self._named[key[1], name] if bytes.fromhex(x.gid)[:_GID_BYTES] in data]
        if len(there) != 1:
            return None
        self.participants[key[0]].add(there[0].gid[: 2 * _PREFIX_BYTES])
        return there[0]

    def of_program(self, vpid: int, kind: str, name: str) -> list[GraphEndpoint]:
        """The endpoints of a name that the participants of a program have."""
        own = self.participants[vpid]
        return [x for x in self._named[kind, name] if x.gid[: 2 * _PREFIX_BYTES] in own]

    def subscriptions(self, vpid: int) -> Iterator[GraphEndpoint]:
        """Those of topics that the participants of a program have."""
        own = self.participants[vpid]
        for (kind, _), there in self._named.items():
            if kind == "subscription":
                for one in there:
                    if one.name.startswith("rt/") and one.gid[: 2 * _PREFIX_BYTES] in own:
                        yield one


class Names:
    """Reads pages for what names endpoints, and writes the init events that are missing.

    Parameters
    ----------
    trace
        The pages, and the formats of the probes under the names of these.
    threads
        Of the programs.
    graph, found
        What the graph shows; endpoints in the memory of the programs.
    functions
        Names of probed functions, which are numbered from 1 on.
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
        """Look at some pages."""
        for name, number, begin, time in _events(self._trace, data):
            first = int(time.min())
            self._begin = first if self._begin is None else min(self._begin, first)
            where = {x.name: x for x in self._trace.formats[number].fields}
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
                for one in zip(tid, handle.tolist(), time.tolist(), strict=True):
                    key = (self._threads.get(one[0], (0, 0, ""))[0], _TOLD[name], one[1])
                    self._told[key] = min(one[2], self._told.get(key, one[2]))
            elif name in _STEPS:
                code, columns = _STEPS[name]
                rows = [
                    numbers_at(data, begin + 4, "<i4"),
                    time,
                    np.full(len(time), code, dtype=np.int64),
                    *(
                        numbers_at(data, begin + where[x].offset, f"<i{where[x].size}")
                        if x in where
                        else np.zeros(len(time), dtype=np.int64)
                        for x in columns
                    ),
                ]
                self._steps.append(np.stack(rows, axis=1))
        for key, own in sightings(self._trace, [data], self._threads).items():
            before = self._seen.setdefault(key, own)
            if own.time < before.time:
                self._seen[key] = own

    def _call(self, tid: Ints, function: Ints, time: Ints) -> None:
        pairs, first = np.unique(np.stack([tid, function]), axis=1, return_index=True)
        for one, number, at in zip(*pairs.tolist(), first.tolist(), strict=True):
            if one in self._threads:
                key, here = (self._threads[one][0], number), (int(time[at]), one)
                self._called[key] = min(here, self._called.get(key, here))

    @property
    def not_called(self) -> list[str]:
        """The names of probed functions that no known thread called."""
        called = {number for _, number in self._called}
        return [x for number, x in enumerate(self._functions, 1) if number not in called]

    def records(self) -> tuple[dict[int, Format], list[Records]]:
        """Formats and init events: all before the first event, a function's before its first."""
        objects = self._objects()
        written = _Written()
        pieces = []
        if self._begin is not None and objects:
            self._write_objects(objects, written)
            pieces.append(written.records(self._begin))
        for (_, number), (time, written.tid) in sorted(self._called.items(), key=lambda x: x[1]):
            name = self._functions[number - 1]
            written.add("function_register", function=number, function_name=name)
            pieces.append(written.records(time))
        return written.formats, pieces

    def _write_objects(self, objects: list[_Object], written: _Written) -> None:
        uppers, callbacks = self._above()
        nodes: dict[tuple[int, str, str], int] = {}
        for one in objects:
            written.tid = self._thread_of(one.vpid)
            node = 0
            if one.graph is not None and one.graph.known:
                key = (one.vpid, one.graph.namespace, one.graph.node)
                if key not in nodes:
                    # Addresses within an object, where no other object begins.
                    nodes[key] = one.handle + 3
                    written.add(
                        "rcl_node_init",
                        node_handle=nodes[key],
                        rmw_handle=0,
                        node_name=one.graph.node,
                        namespace=one.graph.namespace,
                    )
                node = nodes[key]
            own = (one.vpid, one.kind, one.handle)
            upper = uppers.get(own, one.handle + 1)
            one.gid = self._id_of(one)
            _write_object(written, one, node, upper, callbacks.get(own))

    def _objects(self) -> list[_Object]:
        before = {k: x for k, x in self._seen.items() if x.time < self._told.get(k, x.time + 1)}
        made = [
            _Object(*key, name=x.name, graph=self._graph.of(key, x.name))
            for key, x in sorted(before.items())
        ]
        matched = {x.graph.gid for x in made if x.graph is not None}
        for one in made:
            if one.graph is None and one.kind == "service":
                there = self._graph.of_program(one.vpid, "subscription", f"rq{one.name}Request")
            elif one.graph is None and one.kind == "client":
                there = self._graph.of_program(one.vpid, "publisher", f"rq{one.name}Request")
            else:
                continue
            if len({x.full_node for x in there}) == 1:
                one.graph = there[0]
        unclear = {(x.vpid, x.name) for x in made if x.kind == "subscription" and x.graph is None}
        told = {(key[0], key[1]) for key in self._told}
        for vpid in sorted(self._graph.participants):
            if (vpid, "subscription") in told:
                # Some were made meanwhile, and nothing tells which of the graph's these are.
                continue
            # One that took nothing can have lost messages, too. Its address is not known: it gets
            # one in the first page, where nothing lies.
            silent = [x for x in self._graph.subscriptions(vpid) if x.gid not in matched]
            for number, of in enumerate(silent):
                if (vpid, of.ros_name) not in unclear:
                    made.append(_Object(vpid, "subscription", 16 + 8 * number, of.ros_name, of))
        return made

    def _id_of(self, one: _Object) -> bytes:
        """The middleware's id for an endpoint, of a client as services know it; else nothing."""
        if one.kind == "client":
            data = self._graph.data.get((one.vpid, one.kind, one.handle), b"")
            found = [x for x in self._asking if x in data]
            return found[0] if len(found) == 1 else b""
        if one.graph is None or one.kind == "service":
            return b""
        return bytes.fromhex(one.graph.gid)[:_GID_BYTES].ljust(_GID_BYTES, b"\0")

    def _thread_of(self, vpid: int) -> int:
        mine = {tid: x for tid, x in self._threads.items() if x[0] == vpid}
        return next((tid for tid, x in mine.items() if x[1] == vpid), min(mine))

    def _above(self) -> tuple[dict[Key, int], dict[Key, int]]:
        """By an endpoint of rmw: the publisher of rcl above it, the callback that it starts.

        Each is what comes next to it on a thread, if it is that always.
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
            started = same & (behind[:, 2] == _START) & (behind[:, 4] == 0)
            took = ahead[:, 4] != 0
            for code, kind in ((_TAKE, "subscription"), (_TAKE_REQUEST, "service")):
                fits = started & took & (ahead[:, 2] == code)
                self._pairs(ahead[fits], behind[fits], kind, callbacks)
        owners: dict[tuple[int, int], set[Key]] = defaultdict(set)
        for key, found in callbacks.items():
            for one in found:
                owners[key[0], one].add(key)
        return (
            {key: next(iter(found)) for key, found in uppers.items() if len(found) == 1},
            {
                key: next(iter(found))
                for key, found in callbacks.items()
                if len(found) == 1 and len(owners[key[0], next(iter(found))]) == 1
            },
        )

    def _pairs(self, of: Ints, with_: Ints, kind: str, into: dict[Key, set[int]]) -> None:
        if not len(of):
            return
        found = np.unique(np.stack([of[:, 0], of[:, 3], with_[:, 3]], axis=1), axis=0)
        for tid, handle, other in found.tolist():
            thread = self._threads.get(tid)
            if thread is not None:
                into[thread[0], kind, handle].add(other)


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
"""Events that tell what belongs together: a code, an object, and what else counts."""


def _write_object(
    written: _Written, one: _Object, node: int, upper: int, callback: int | None
) -> None:
    kind, rmw = one.kind, f"rmw_{one.kind}_handle"
    own: dict[str, int] = {f"{kind}_handle": upper, "node_handle": node, rmw: one.handle}
    if one.gid:
        both: dict[str, int | str | bytes] = {rmw: one.handle, "gid": one.gid}
        written.add(f"rmw_{kind}_init", **both)
    if kind in {"publisher", "subscription"}:
        depth = (one.graph and one.graph.depth) or 0
        written.add(f"rcl_{kind}_init", **own, topic_name=one.name, queue_depth=depth)
        if one.graph is not None:
            written.add("message_type_init", handle=upper, type=one.graph.ros_type)
    else:
        written.add(f"rcl_{kind}_init", **own, service_name=one.name)
    if callback is not None and kind == "subscription":
        whole = {"subscription": one.handle + 2}
        written.add("rclcpp_subscription_init", **{f"{kind}_handle": upper}, **whole)
        written.add("rclcpp_subscription_callback_added", **whole, callback=callback)
    elif callback is not None:
        written.add("rclcpp_service_callback_added", service_handle=upper, callback=callback)


class _Written:
    """Events that are made, not recorded; `tid`: the thread that they are of."""

    def __init__(self) -> None:
        self.tid = 0
        self.formats: dict[int, Format] = {}
        self._numbers: dict[str, int] = {}
        self._events: list[bytes] = []

    def add(self, name: str, **fields: int | str | bytes) -> None:
        """One event; its fields are addresses, texts or ids."""
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
        after = max(x.end for x in self.formats[number].fields)
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
        """Those since the last time in their order, before a time."""
        events, self._events = self._events, []
        size = np.array([len(x) for x in events], dtype=np.int64)
        count = len(size)
        return Records(
            np.frombuffer(b"".join(events), dtype=np.uint8),
            np.cumsum(size) - size,
            size,
            until - count + np.arange(count, dtype=np.int64),
        )


def manifest_graph(endpoints: Iterable[GraphEndpoint]) -> list[Endpoint]:
    """Publishers and subscriptions of topics, as manifests have them."""
    return [
        Endpoint(
            topic=x.ros_name,
            node=x.full_node,
            kind="publisher" if x.kind == "publisher" else "subscription",
            type=x.ros_type,
            reliability=x.reliability,
            durability=x.durability,
            history=x.history,
            depth=x.depth,
        )
        for x in endpoints
        if x.known and x.name.startswith("rt/")
    ]
