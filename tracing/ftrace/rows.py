"""Encode events of ring-buffer pages as the bytes of a CTF stream, with LTTng's contexts."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from roslens.recording.arrays import Bools, Bytes, Ints, NDArray, np
from roslens.tracing.ftrace.formats import HEAD_BYTES, Format, split_strings
from roslens.tracing.ftrace.raw import RawTrace, Thread
from roslens.tracing.ftrace.tsdl import NAME_BYTES

_TYPE_AT, _FLAGS_AT, _PID_AT = 0, 2, 4
_LONGEST_TEXT = 4096


@dataclass
class Rows:
    """Events encoded one after the other.

    Attributes
    ----------
    content
        The bytes of all events.
    edges
        Where each event begins in the bytes, and where the last one ends; omitted events have no
        bytes.
    begin, time, kind
        For each event: its offset in the pages, its time, its type number.
    kept
        Whether each event is written.
    wrong
        Number of invalid events.
    of_others
        Number of events of unwanted or unknown threads.
    by_name
        Number of written events by name.
    """

    content: Bytes
    edges: Ints
    begin: Ints
    time: Ints
    kind: Ints
    kept: Bools
    wrong: int = 0
    foreign: int = 0
    by_name: Counter[str] = field(default_factory=Counter)


class Encoder:
    """The encoder of a trace's events."""

    def __init__(self, raw: RawTrace) -> None:
        self._layouts = {number: _Layout(described) for number, described in raw.formats.items()}
        self._ignored = raw.ignored
        self._context = _KernelContext() if raw.threads is None else _Threads(raw.threads)

    def encode(self, data: Bytes, begin: Ints, size: Ints, time: Ints) -> Rows:
        """Encode the events at the given offsets of the pages."""
        # The head common to all events: number, flags, thread.
        whole = size >= HEAD_BYTES
        begin, size, time = begin[whole], size[whole], time[whole]
        kind = numbers_at(data, begin + _TYPE_AT, "<u2")
        length = np.zeros(len(kind), dtype=np.int64)
        rows = Rows(np.empty(0, np.uint8), length, begin, time, kind, length > 0)
        rows.wrong = int((~whole).sum())
        context, meant = self._context.contexts(data, begin)
        head = np.empty(len(kind), [("id", "<u2"), ("time", "<u8"), ("context", context.dtype)])
        head["id"], head["time"], head["context"] = kind, time, context
        lead = head.dtype.itemsize
        parts: list[tuple[_Layout, Ints, list[bytes]]] = []
        for number in np.unique(kind).tolist():
            if number not in self._ignored:
                events = self._encoded_rows(rows, number, meant, size)
                layout = self._layouts.get(number)
                if layout is not None and len(events):
                    texts = layout.texts(data, begin[events], size[events])
                    length[events] = lead + layout.size
                    if texts:
                        length[events] += np.fromiter(map(len, texts), np.int64)
                    parts.append((layout, events, texts))
        rows.kept = length > 0
        rows.edges = np.concatenate(([0], np.cumsum(length)))
        rows.content = np.zeros(int(rows.edges[-1]), dtype=np.uint8)
        place = rows.edges[:-1]
        windows(rows.content, lead)[place[rows.kept]] = head[rows.kept].view(f"V{lead}")
        for layout, events, texts in parts:
            after = place[events] + lead
            for source, width in layout.spans:
                windows(rows.content, width)[after] = windows(data, width)[begin[events] + source]
                after += width
            if texts:
                joined = np.frombuffer(b"".join(texts), dtype=np.uint8)
                sizes = np.fromiter(map(len, texts), np.int64)
                first = np.repeat(after - np.cumsum(sizes) + sizes, sizes)
                rows.content[first + np.arange(len(joined))] = joined
        return rows

    def _encoded_rows(self, rows: Rows, number: int, meant: Bools, size: Ints) -> Ints:
        """Return the events of a type number that can be written; count all others."""
        of_number = rows.kind == number
        rows.foreign += int((of_number & ~meant).sum())
        events = np.flatnonzero(of_number & meant)
        layout = self._layouts.get(number)
        fitting = events if layout is None else events[size[events] >= layout.format.size]
        writable = fitting if layout is not None else events[:0]
        rows.wrong += len(events) - len(writable)
        if layout is not None and len(writable):
            rows.by_name[layout.format.name] += len(writable)
        return writable


class _KernelContext:
    """The context of each kernel event: thread, flags (whether in an interrupt)."""

    def contexts(self, data: Bytes, begin: Ints) -> tuple[NDArray[np.void], Bools]:
        """Return each event's context as bytes, and that all events are wanted."""
        contexts = np.empty(len(begin), [("tid", "<i4"), ("flags", "u1")])
        contexts["tid"], contexts["flags"] = (
            numbers_at(data, begin + _PID_AT, "<i4"),
            data[begin + _FLAGS_AT],
        )
        return contexts.view(f"V{contexts.dtype.itemsize}"), np.ones(len(begin), dtype=np.bool_)


class _Threads:
    """The context of each event of a program: process, thread, name, like LTTng's contexts."""

    def __init__(self, threads: Mapping[int, Thread]) -> None:
        self._known = np.array(sorted(threads), dtype=np.int64)
        rows = [
            struct.pack(f"<ii{NAME_BYTES}s", vpid, vtid, name.encode()[: NAME_BYTES - 1])
            for _, (vpid, vtid, name) in sorted(threads.items())
        ]
        self._rows: NDArray[np.void] = np.frombuffer(b"".join(rows), dtype=f"V{8 + NAME_BYTES}")

    def contexts(self, data: Bytes, begin: Ints) -> tuple[NDArray[np.void], Bools]:
        """Return each event's context as bytes, and for which events the thread is known."""
        tid = numbers_at(data, begin + _PID_AT, "<i4")
        if not len(self._known):
            return np.zeros(len(tid), self._rows.dtype), np.zeros(len(tid), np.bool_)
        at = np.minimum(np.searchsorted(self._known, tid), len(self._known) - 1)
        return self._rows[at], self._known[at] == tid


class _Layout:
    """The bytes of an event that are written: fields of fixed size first, then its strings.

    `spans`: offset and length of each piece with a fixed size; `size`: their total length.
    """

    def __init__(self, described: Format) -> None:
        self.format = described
        fixed, self._strings = split_strings(described)
        self.spans: list[tuple[int, int]] = []
        for fixed_field in fixed:
            begin = fixed_field.offset
            if self.spans and sum(self.spans[-1]) == begin:
                begin = self.spans.pop()[0]
            self.spans.append((begin, fixed_field.end - begin))
        self.size = sum(width for _, width in self.spans)

    def texts(self, data: Bytes, begin: Ints, size: Ints) -> list[bytes]:
        """Return each event's zero-terminated strings, joined; an empty list without strings."""
        texts = [b""] * len(begin) if self._strings else []
        content = data.data
        for string in self._strings:
            words = numbers_at(data, begin + string.offset, "<u4")
            offset, length = words & 0xFFFF, words >> 16
            if string.kind == "relative_string":
                offset = offset + string.end
            stop = np.minimum(np.minimum(offset + length, size), offset + _LONGEST_TEXT)
            starts, stops = (begin + offset).tolist(), (begin + stop).tolist()
            for row, (start, end) in enumerate(zip(starts, stops, strict=True)):
                text = bytes(content[start:end]) if end > start else b""
                texts[row] += text.partition(b"\0")[0] + b"\0"
        return texts


def windows(data: Bytes, width: int) -> NDArray[np.void]:
    """View the data from each byte on as one value of `width` bytes, for copies in bulk."""
    count = max(0, len(data) - width + 1)
    return np.ndarray(count, dtype=f"V{width}", buffer=data, strides=(1,))


def numbers_at(data: Bytes, at: Ints, kind: str) -> Ints:
    """Return the numbers at the given offsets, of a type such as ``<u2``."""
    numbers: Ints = windows(data, np.dtype(kind).itemsize)[at].view(kind).astype(np.int64)
    return numbers
