"""Write packets of a Perfetto trace: tracks, events with arguments, stack samples, interned names.

The format is protobuf (``protos/perfetto/trace/trace.proto``). All packets of one kind get one
layout, with numbers as varints of a fixed width (longer than needed, which is allowed), so that
they are written column by column.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from pathlib import Path

import polars as pl

from roslens.analysis.interop.protobuf import message_field, number_field, text_field, varint
from roslens.recording.arrays import Bytes, NDArray, np
from roslens.recording.errors import writing
from roslens.recording.files import replaced_whole

# TracePacket
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _TRACK = 8, 10, 11, 12, 13, 60
_PERF_SAMPLE = 66
# TrackEvent
_CATEGORY, _ARGUMENT, _TYPE, _NAME_IID, _TRACK_UUID, _COUNTER_VALUE, _FLOW = 3, 4, 9, 10, 11, 44, 47
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
# DebugAnnotation
_ARGUMENT_NAME, _INTEGER, _REAL, _STRING = 1, 4, 5, 17
# InternedData
_CATEGORIES, _NAMES, _ARGUMENT_NAMES, _STRINGS = 1, 2, 3, 29
_FUNCTIONS, _FRAMES, _CALLSTACKS, _MAPPINGS = 5, 6, 7, 19
_MAPPING = 1
"""The only mapping, without a name: the module of a function was not kept."""
_FIRST_OF_SEQUENCE, _LATER = 1, 2
# FtraceEventBundle, and the columns of its CompactSched
_FTRACE, _COMPACT, _NAME_TABLE = 1, 4, 5
_SWITCHES = {"time_ns": 1, "prev_state": 2, "next_tid": 3, "next_prio": 4, "next_comm": 6}
_WAKES = {"time_ns": 7, "tid": 8, "target_cpu": 9, "prio": 10, "comm": 11, "flags": 12}
_CHUNK = 100_000


class _Names:
    """Table that numbers names, from 1."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def numbers_of(self, names: pl.Series) -> NDArray[np.uint64]:
        for name in names.unique().sort().to_list():
            self.numbers.setdefault(name, len(self.numbers) + 1)
        return names.replace_strict(self.numbers, return_dtype=pl.UInt64).to_numpy()

    def number_of(self, name: str) -> int:
        return self.numbers.setdefault(name, len(self.numbers) + 1)


class Writer:
    """Collector of the tracks and packets of one trace, which writes them."""

    def __init__(self) -> None:
        kinds = (_CATEGORIES, _NAMES, _ARGUMENT_NAMES, _STRINGS, _FUNCTIONS)
        self.interned = {kind: _Names() for kind in kinds}
        self.stacks = _Names()
        self.tracks: dict[tuple[object, ...], int] = {}
        self.descriptors: list[bytes] = []
        self.packets: list[pl.DataFrame] = []

    def track(self, key: tuple[object, ...], *, parent: int = 0, **fields: bytes | str) -> int:
        """Return the number of a track; add its description when it is new."""
        if key not in self.tracks:
            number = self.tracks[key] = len(self.tracks) + 1
            body = number_field(1, number)
            if "name" in fields:
                body += text_field(2, str(fields["name"]))
            for field, kind in (("process", 3), ("thread", 4), ("counter", 8)):
                if field in fields:
                    body += message_field(kind, fields[field])  # type: ignore[arg-type]
            if parent:
                body += number_field(5, parent)
            self.descriptors.append(
                message_field(1, number_field(_SEQUENCE, 1) + message_field(_TRACK, body))
            )
        return self.tracks[key]

    def process(self, host: str, vpid: int, name: str | None) -> int:
        """Return the number of a process's track."""
        return self.track(
            ("process", host, vpid),
            process=number_field(1, vpid) + text_field(6, f"{name or 'process'} ({host})"),
        )

    def events(
        self,
        frame: pl.DataFrame,
        kind: int,
        *,
        order: int,
        flows: Sequence[str] = (),
        category: str = "",
        arguments: Sequence[str] = (),
    ) -> None:
        """Add packets: ``time_ns``, ``track``, ``name`` (except for ends), ``value`` of counters.

        Parameters
        ----------
        order
            Position among events of the same time.
        flows, arguments
            Columns with numbers of flows, and those that become arguments with the same names;
            nulls are left out.
        """
        if frame.is_empty():
            return
        columns = [name for name in arguments if name in frame.columns]
        # Packets with the same arguments and number of flows share one layout.
        filled = (*columns, *flows)
        present = [pl.col(name).is_not_null() for name in filled] or [pl.lit(value=True)]
        marked = frame.with_columns(_has=pl.concat_list(present))
        for (has,), part in marked.group_by("_has", maintain_order=True):
            rows = part.height
            event = [
                _constant(number_field(_TYPE, kind), rows),
                _varints(_TRACK_UUID, part["track"], 5),
            ]
            if category:
                number = self.interned[_CATEGORIES].number_of(category)
                event.append(_constant(number_field(_CATEGORY, number), rows))
            if "name" in part.columns:
                names = pl.Series(self.interned[_NAMES].numbers_of(part["name"]))
                event.append(_varints(_NAME_IID, names, 5))
            for name in compress(columns, has):
                event += _wrapped(_ARGUMENT, self._argument(name, part[name]))
            linked = compress(flows, has[len(columns) :])
            event += [_fixed(_FLOW, part[name].cast(pl.UInt64)) for name in linked]
            if kind == COUNTER:
                event.append(_fixed(_COUNTER_VALUE, part["value"].cast(pl.Float64)))
            self._add(part["time_ns"], order, _TRACK_EVENT, event)

    def _add(self, times: pl.Series, order: int, field: int, body: Sequence[Bytes]) -> None:
        packet = [
            _varints(_TIMESTAMP, times, 10),
            _constant(number_field(_SEQUENCE, 1) + number_field(_FLAGS, _LATER), times.len()),
            *_wrapped(field, body),
        ]
        whole = pl.Series(np.hstack(_wrapped(1, packet)))
        self.packets.append(
            pl.DataFrame(
                {
                    "time_ns": times,
                    "order": pl.Series([order], dtype=pl.Int8).new_from_index(0, times.len()),
                    "packet": whole.arr.to_list().cast(pl.Binary),
                }
            )
        )

    def _argument(self, name: str, values: pl.Series) -> list[Bytes]:
        number = self.interned[_ARGUMENT_NAMES].number_of(name)
        head = _constant(number_field(_ARGUMENT_NAME, number), values.len())
        if values.dtype.is_float():
            return [head, _fixed(_REAL, values.cast(pl.Float64))]
        if values.dtype.is_integer():
            return [head, _varints(_INTEGER, values.cast(pl.Int64).reinterpret(signed=False), 10)]
        texts = self.interned[_STRINGS].numbers_of(values.cast(pl.String))
        return [head, _varints(_STRING, pl.Series(texts), 5)]

    def sched(self, cpu: int, switches: pl.DataFrame, wakes: pl.DataFrame) -> None:
        """Add the switches and wake-ups of a CPU, from which viewers draw CPUs and threads.

        Parameters
        ----------
        switches
            Events ``sched_switch``, in the order of time.
        wakes
            Events ``sched_waking``, in the order of time, with the kernel's ``flags`` of each
            event.
        """
        names = pl.concat([switches["next_comm"], wakes["comm"]]).unique(maintain_order=True)
        numbers = {comm: at for at, comm in enumerate(names.to_list())}
        body = b""
        for frame, fields, name in ((switches, _SWITCHES, "next_comm"), (wakes, _WAKES, "comm")):
            # Each time is stored as the distance from the previous one.
            since = pl.col("time_ns").diff().fill_null(pl.col("time_ns"))
            number = pl.col(name).replace_strict(numbers, return_dtype=pl.Int64)
            rows = frame.with_columns(since, number)
            body += b"".join(_packed(field, rows[column]) for column, field in fields.items())
        body += b"".join(text_field(_NAME_TABLE, comm) for comm in numbers)
        begins = [events["time_ns"][0] for events in (switches, wakes) if events.height]
        if begins:
            packet = number_field(_TIMESTAMP, min(begins)) + number_field(_SEQUENCE, 1)
            packet += message_field(_FTRACE, number_field(1, cpu) + message_field(_COMPACT, body))
            row = {"time_ns": [min(begins)], "order": [0], "packet": [message_field(1, packet)]}
            schema = {"time_ns": pl.Int64, "order": pl.Int8, "packet": pl.Binary}
            self.packets.append(pl.DataFrame(row, schema=schema))

    def samples(self, frame: pl.DataFrame) -> None:
        """Add samples of call stacks: ``time_ns``, ``vpid``, ``vtid``, ``path``."""
        stack = pl.Series(self.stacks.numbers_of(frame["path"]))
        numbers = {2: frame["vpid"], 3: frame["vtid"], 4: stack}
        body = [_varints(field, values, 5) for field, values in numbers.items()]
        self._add(frame["time_ns"], 1, _PERF_SAMPLE, body)

    def _interned(self) -> bytes:
        functions = self.interned[_FUNCTIONS]
        stacks = b"".join(
            message_field(
                _CALLSTACKS,
                number_field(1, number)
                + b"".join(
                    number_field(2, functions.number_of(function))
                    for function in reversed(path.split("\n"))
                ),
            )
            for path, number in self.stacks.numbers.items()
        )
        # A frame has the number of its function's name; all fields of a frame are required.
        frames = b"".join(
            message_field(
                _FRAMES,
                number_field(1, number) + number_field(2, number)
                + number_field(3, _MAPPING) + number_field(4, 0),
            )
            for number in functions.numbers.values()
        )  # fmt: skip
        names = b"".join(
            message_field(kind, number_field(1, number) + text_field(2, name))
            for kind, interned in self.interned.items()
            for name, number in interned.numbers.items()
        )
        return names + message_field(_MAPPINGS, number_field(1, _MAPPING)) + frames + stacks

    def write(self, path: Path) -> None:
        """Write the trace to a file.

        Raises
        ------
        UsageError, RunFailedError
            The file cannot be written; the second where the disk is full.
        """
        first = number_field(_SEQUENCE, 1) + number_field(_FLAGS, _FIRST_OF_SEQUENCE)
        with writing(path), replaced_whole(path) as temporary, temporary.open("wb") as file:
            file.write(message_field(1, first + message_field(_INTERNED, self._interned())))
            file.writelines(self.descriptors)
            if self.packets:
                line = pl.concat(self.packets).sort("time_ns", "order", maintain_order=True)
                for part in line.iter_slices(_CHUNK):
                    file.write(b"".join(part["packet"].to_list()))


def _constant(data: bytes, rows: int) -> Bytes:
    return np.broadcast_to(np.frombuffer(data, dtype=np.uint8), (rows, len(data)))


def _varints(field: int, values: pl.Series, width: int) -> Bytes:
    """Return varints of `width` bytes each, whatever their value."""
    numbers = values.cast(pl.UInt64).to_numpy()
    key = varint(field << 3)
    out = np.empty((len(numbers), len(key) + width), dtype=np.uint8)
    out[:, : len(key)] = np.frombuffer(key, dtype=np.uint8)
    for place in range(width):
        more = 0x80 if place < width - 1 else 0
        out[:, len(key) + place] = (numbers >> np.uint64(7 * place)) & np.uint64(0x7F) | np.uint64(
            more
        )
    return out


def _packed(field: int, values: pl.Series) -> bytes:
    """Return a repeated number field: varints one after the other."""
    numbers = values.cast(pl.Int64).to_numpy().view(np.uint64)
    limits = np.uint64(1) << (np.arange(1, 10, dtype=np.uint64) * np.uint64(7))
    size = 1 + np.searchsorted(limits, numbers, side="right")
    begin = np.cumsum(size) - size
    out = np.empty(int(size.sum()), dtype=np.uint8)
    for place in range(int(size.max(initial=0))):
        longer = size > place
        low = (numbers[longer] >> np.uint64(7 * place)) & np.uint64(0x7F)
        more = np.where(size[longer] - 1 > place, 0x80, 0).astype(np.uint64)
        out[begin[longer] + place] = low | more
    return message_field(field, out.tobytes())


def _fixed(field: int, values: pl.Series) -> Bytes:
    """Return a field of numbers of 8 bytes each."""
    numbers = np.ascontiguousarray(values.to_numpy()).view(np.uint8).reshape(-1, 8)
    return np.hstack([_constant(varint(field << 3 | 1), len(numbers)), numbers])


def _wrapped(field: int, columns: Sequence[Bytes]) -> list[Bytes]:
    """Return a message of these columns, with its key and length before them."""
    head = varint(field << 3 | 2) + varint(sum(column.shape[1] for column in columns))
    return [_constant(head, len(columns[0])), *columns]
