"""Encode the kernel's events in Perfetto traces (``protos/perfetto/trace/ftrace``) as bytes.

Names, fields and order are those of LTTng's kernel events. A switch in ``compact_sched`` states
only the incoming thread: the outgoing thread is the one that came last, or -1 if this is not
known.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from functools import cached_property, lru_cache

from roslens.recording.arrays import Ints, NDArray, np
from roslens.tracing.ftrace.formats import Format, format_of
from roslens.tracing.ftrace.raw import Records
from roslens.tracing.perfetto.protobuf import fields, number, sized, varints

UNKNOWN = -1
LATEST = 1 << 62
# Fields of FtraceEventBundle, FtraceEvent, CompactSched
CPU, LOST, CLOCK = number(1), number(3), number(5)
EVENT, COMPACT = sized(2), sized(4)
_TIME, _TID, _FLAGS = number(1), number(2), number(5)
_NAMES = sized(5)
_SWITCH_COLUMNS, _WAKING_COLUMNS = (1, 2, 3, 4, 6), (7, 8, 9, 10, 11, 12)
_OPTIONAL = 12
_MOST_UNREAD = 1 << 12
_LONGEST_TEXT, _SHORT = 4095, 128
_HEAD = [("type", "<u2"), ("flags", "u1"), ("preempt", "u1"), ("pid", "<i4")]
_TYPES = {"t": ("S16", "16s"), "i": ("<i4", "I"), "u": ("<u4", "I"), "q": ("<i8", "Q"),
          "s": ("<u4", "I")}  # fmt: skip
"""Types of the fields below: a short text, numbers, the position of a long text at the end."""
_TEXTS = ("t", "s")
_SWITCH, _WAKING = 4, 20
_WAKE = "comm:t tid:i prio:i - target_cpu:i"
_DESCRIBED = {
    _SWITCH: "sched_switch prev_comm:t prev_tid:i prev_prio:i prev_state:q"
    " next_comm:t next_tid:i next_prio:i",
    11: "power_cpu_frequency state:u cpu_id:u",
    13: "power_cpu_idle state:u cpu_id:u",
    17: f"sched_wakeup {_WAKE}",
    _WAKING: f"sched_waking {_WAKE}",
    24: "irq_softirq_entry vec:u",
    25: "irq_softirq_exit vec:u",
    26: "irq_softirq_raise vec:u",
    36: "irq_handler_entry irq:i name:s",
    37: "irq_handler_exit irq:i ret:i",
    114: f"sched_wakeup_new {_WAKE}",
    237: "sched_process_exec filename:s tid:i old_tid:i",
    238: "sched_process_exit comm:t tid:i - prio:i",
    239: "sched_process_fork parent_comm:t parent_tid:i child_comm:t child_tid:i",
    491: "sched_migrate_task comm:t tid:i prio:i orig_cpu:i dest_cpu:i",
}
"""By number in FtraceEvent: an event's name, and its fields in the order of their numbers."""


class Kind:
    """An event type that is read."""

    def __init__(self, own: int, described: str) -> None:
        name, *parts = described.split()
        split = [(field, part.partition(":")) for field, part in enumerate(parts, 1)]
        columns = [(field, column, kind) for field, (column, _, kind) in split if kind]
        self.number = own
        self._columns = [*_HEAD, *((column, _TYPES[kind][0]) for _, column, kind in columns)]
        self._of_format = name, [column for _, column, kind in columns if kind == "s"]
        self._struct = struct.Struct("<HBBI" + "".join(_TYPES[kind][1] for *_, kind in columns))
        self._places = {
            (sized if kind in _TEXTS else number)(field): place
            for place, (field, _, kind) in enumerate(columns)
        }
        self._bits = [8 * struct.calcsize(f"<{_TYPES[kind][1]}") for *_, kind in columns]
        self._empty: list[int | bytes] = [b"" if kind in _TEXTS else 0 for *_, kind in columns]
        self._texts = [place for place, (*_, kind) in enumerate(columns) if kind == "s"]

    @cached_property
    def layout(self) -> np.dtype[np.void]:
        """Return the event's fields and their types as an array type."""
        return np.dtype(self._columns)

    @cached_property
    def format(self) -> Format:
        """Return the format as the kernel would describe it."""
        name, texts = self._of_format
        return format_of(self.number, name, self.layout, texts)

    def encoded(self, flags: int, tid: int, message: bytes) -> bytes:
        """Return the bytes of an event."""
        values = self._empty.copy()
        for tag, value in fields(message):
            place = self._places.get(tag)
            if place is not None:
                values[place] = value
        behind = b""
        for place in self._texts:
            text = bytes(values[place])[:_LONGEST_TEXT] + b"\0"
            values[place] = len(text) << 16 | (self._struct.size + len(behind))
            behind += text
        cut = (
            value & ((1 << bits) - 1) if isinstance(value, int) else value
            for value, bits in zip(values, self._bits, strict=True)
        )
        head = self._struct.pack(self.number, flags & 0xFF, 0, tid & 0xFFFFFFFF, *cut)
        return head + behind


KINDS = {code: Kind(code, described) for code, described in _DESCRIBED.items()}


@lru_cache(maxsize=1 << 14)
def _cached_encoding(code: int, flags: int, tid: int, message: bytes) -> bytes:
    """Cache `Kind.encoded`: most events differ from earlier ones only in their times."""
    return KINDS[code].encoded(flags, tid, message)


@dataclass
class _Group:
    """A group of events: their bytes together, the size of each, their times."""

    data: bytes
    size: Ints
    time: Ints


class Decoder:
    """The decoder of one CPU's events.

    Parameters
    ----------
    unread
        Counts the events of each unknown number.
    """

    def __init__(self, unread: Counter[int]) -> None:
        self._unread = unread
        self._running: np.void | None = None

    def forget_threads(self) -> None:
        """Forget which thread has the CPU, because events are missing here."""
        self._running = None

    def records(self, bundle: bytes) -> Records:
        """Return the events of a bundle, ordered by time.

        Raises
        ------
        ValueError
            The bundle is damaged.
        """
        rows: list[bytes] = []
        times: list[int] = []
        compact = []
        told_whole = False
        for tag, content in fields(bundle):
            if tag == EVENT:
                time, row, code = self._event(bytes(content))
                told_whole |= code == _SWITCH
                if row is not None:
                    rows.append(row)
                    times.append(time)
            elif tag == COMPACT:
                compact.append(bytes(content))
        if told_whole:
            self.forget_threads()
        groups = [group for message in compact for group in self._compact(message)]
        if told_whole:
            self.forget_threads()
        size = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        groups.append(_Group(b"".join(rows), size, _checked(np.array(times, dtype=np.uint64))))
        data = np.frombuffer(b"".join(group.data for group in groups), dtype=np.uint8)
        size = np.concatenate([group.size for group in groups])
        moments = np.concatenate([group.time for group in groups])
        order = np.argsort(moments, kind="stable")
        return Records(data, (np.cumsum(size) - size)[order], size[order], moments[order])

    def _event(self, message: bytes) -> tuple[int, bytes | None, int]:
        """Return time, bytes and number of an event; an unknown event has no bytes."""
        time = tid = flags = code = 0
        content = b""
        for tag, value in fields(message):
            if isinstance(value, bytes):
                code, content = tag >> 3, value
            elif tag == _TIME:
                time = value
            elif tag == _TID:
                tid = value
            elif tag == _FLAGS:
                flags = value
        kind = KINDS.get(code)
        if kind is None:
            known = code in self._unread or len(self._unread) < _MOST_UNREAD
            self._unread[code if known else 0] += 1
            return time, None, code
        few = len(content) <= _SHORT
        row = (
            _cached_encoding(code, flags, tid, content)
            if few
            else kind.encoded(flags, tid, content)
        )
        return time, row, code

    def _compact(self, message: bytes) -> list[_Group]:
        names: list[bytes] = []
        packed: dict[int, list[NDArray[np.uint64]]] = {
            column: [] for column in (*_SWITCH_COLUMNS, *_WAKING_COLUMNS)
        }
        for tag, value in fields(message):
            if tag == _NAMES and isinstance(value, bytes):
                names.append(value)
            elif tag >> 3 in packed:
                values = (
                    varints(value) if isinstance(value, bytes) else np.array([value], np.uint64)
                )
                packed[tag >> 3].append(values)
        none = np.empty(0, dtype=np.uint64)
        columns = {column: np.concatenate([none, *arrays]) for column, arrays in packed.items()}
        if not len(columns[_OPTIONAL]):
            columns[_OPTIONAL] = np.zeros(len(columns[_WAKING_COLUMNS[0]]), dtype=np.uint64)
        for together in (_SWITCH_COLUMNS, _WAKING_COLUMNS):
            if len({len(columns[column]) for column in together}) > 1:
                raise ValueError("columns of compact_sched with different lengths")
        texts = np.array(names, dtype="S16")
        before = self._running
        switched, switches = self._switches(columns, texts)
        woken = _since(columns[7])
        wakes = _empty(_WAKING, len(woken), columns[12])
        wakes["comm"] = _texts_at(texts, columns[11])
        for name, column in (("tid", 8), ("target_cpu", 9), ("prio", 10)):
            wakes[name] = columns[column].view(np.int64)
        # The waking thread is the one that has the CPU.
        first = UNKNOWN if before is None else int(before["next_tid"])
        running = np.concatenate(([first], switches["next_tid"]))
        wakes["pid"] = running[np.searchsorted(switched, woken)]
        return [_group(wakes, woken), _group(switches, switched)]

    def _switches(
        self, columns: dict[int, NDArray[np.uint64]], texts: NDArray[np.bytes_]
    ) -> tuple[Ints, NDArray[np.void]]:
        times = _since(columns[1])
        switches = _empty(_SWITCH, len(times))
        switches["next_comm"] = _texts_at(texts, columns[6])
        for name, column in (("prev_state", 2), ("next_tid", 3), ("next_prio", 4)):
            switches[name] = columns[column].view(np.int64)
        if len(switches):
            for name in ("comm", "tid", "prio"):
                switches[f"prev_{name}"][1:] = switches[f"next_{name}"][:-1]
                if self._running is not None:
                    switches[f"prev_{name}"][0] = self._running[f"next_{name}"]
            if self._running is None:
                switches["prev_tid"][0] = UNKNOWN
            self._running = switches[-1].copy()
        switches["pid"] = switches["prev_tid"]
        return times, switches


def _empty(code: int, count: int, flags: NDArray[np.uint64] | int = 0) -> NDArray[np.void]:
    rows: NDArray[np.void] = np.zeros(count, dtype=KINDS[code].layout)
    rows["type"], rows["flags"] = code, flags
    return rows


def _group(rows: NDArray[np.void], times: Ints) -> _Group:
    return _Group(rows.tobytes(), np.full(len(rows), rows.dtype.itemsize, dtype=np.int64), times)


def _texts_at(texts: NDArray[np.bytes_], at: NDArray[np.uint64]) -> NDArray[np.bytes_]:
    if len(at) and int(at.max()) >= len(texts):
        raise ValueError("the name of a thread that is not there")
    names: NDArray[np.bytes_] = texts[at.astype(np.int64)]
    return names


def _since(steps: NDArray[np.uint64]) -> Ints:
    """Return times from their steps, each of which is relative to the previous time."""
    times = _checked(_checked(steps).cumsum().view(np.uint64))
    if (np.diff(times) < 0).any():
        raise ValueError("a time that cannot be")
    return times


def _checked(times: NDArray[np.uint64]) -> Ints:
    if len(times) and int(times.max()) > LATEST:
        raise ValueError("a time that cannot be")
    return times.astype(np.int64)
