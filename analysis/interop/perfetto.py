"""A recording as a Perfetto trace, for ui.perfetto.dev.

One track per thread and node with a slice per callback and per publish call; flows from each
publication to the callbacks that received it, and from a service request over its callback to the
response; counters of CPU and memory per process.

The format is protobuf (``protos/perfetto/trace/trace.proto``). All packets of one kind get one
layout, with numbers in varints of a fixed width (allowed, if longer than needed), so that they are
written column by column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from roslens.analysis.measures.callbacks import readable
from roslens.tracing.recording import RunFailedError
from roslens.tracing.recording.files import replaced_whole

_Bytes = npt.NDArray[np.uint8]

# TracePacket
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _INTERNED, _FLAGS, _TRACK = 8, 10, 11, 12, 13, 60
# TrackEvent
_TYPE, _NAME_IID, _TRACK_UUID, _COUNTER_VALUE, _FLOW = 9, 10, 11, 44, 47
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_FIRST_OF_SEQUENCE, _LATER = 1, 2
_CHUNK = 100_000


class _Names:
    """Numbers for names, from 1."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def of(self, names: pl.Series) -> npt.NDArray[np.uint64]:
        for name in names.unique().sort().to_list():
            self.numbers.setdefault(name, len(self.numbers) + 1)
        return names.replace_strict(self.numbers, return_dtype=pl.UInt64).to_numpy()


class _Writer:
    """Tracks and packets of one trace."""

    def __init__(self) -> None:
        self.names = _Names()
        self.tracks: dict[tuple[object, ...], int] = {}
        self.descriptors: list[bytes] = []
        self.packets: list[pl.DataFrame] = []

    def track(self, key: tuple[object, ...], *, parent: int = 0, **fields: bytes | str) -> int:
        """The number of a track, described when it is new."""
        if key not in self.tracks:
            number = self.tracks[key] = len(self.tracks) + 1
            body = _number(1, number)
            if "name" in fields:
                body += _text(2, str(fields["name"]))
            for field, kind in (("process", 3), ("thread", 4), ("counter", 8)):
                if field in fields:
                    body += _message(kind, fields[field])  # type: ignore[arg-type]
            if parent:
                body += _number(5, parent)
            self.descriptors.append(_message(1, _number(_SEQUENCE, 1) + _message(_TRACK, body)))
        return self.tracks[key]

    def process(self, host: str, vpid: int, name: str | None) -> int:
        return self.track(
            ("process", host, vpid),
            process=_number(1, vpid) + _text(6, f"{name or 'process'} ({host})"),
        )

    def events(self, frame: pl.DataFrame, kind: int, *, order: int, flows: int = 0) -> None:
        """Add packets: ``time_ns``, ``track``, ``name`` (not of ends), ``flow_0``, ``value``."""
        if frame.is_empty():
            return
        rows = frame.height
        event = [_constant(_number(_TYPE, kind), rows), _varints(_TRACK_UUID, frame["track"], 5)]
        if "name" in frame.columns:
            event.append(_varints(_NAME_IID, pl.Series(self.names.of(frame["name"])), 5))
        event += [_fixed(_FLOW, frame[f"flow_{k}"].cast(pl.UInt64)) for k in range(flows)]
        if kind == _COUNTER:
            event.append(_fixed(_COUNTER_VALUE, frame["value"].cast(pl.Float64)))
        packet = [
            _varints(_TIMESTAMP, frame["time_ns"], 10),
            _constant(_number(_SEQUENCE, 1) + _number(_FLAGS, _LATER), rows),
            *_wrapped(_TRACK_EVENT, event),
        ]
        whole = np.hstack(_wrapped(1, packet))
        rows_of = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(whole.shape[1]), rows, [None, pa.py_buffer(whole.tobytes())]
        )
        self.packets.append(
            pl.DataFrame(
                {
                    "time_ns": frame["time_ns"],
                    "order": pl.Series([order], dtype=pl.Int8).new_from_index(0, rows),
                    "packet": pl.Series(rows_of.cast(pa.binary())),
                }
            )
        )

    def write(self, path: Path) -> None:
        names = b"".join(
            _message(2, _number(1, number) + _text(2, name))
            for name, number in self.names.numbers.items()
        )
        first = _number(_SEQUENCE, 1) + _number(_FLAGS, _FIRST_OF_SEQUENCE)
        try:
            with replaced_whole(path) as temporary, temporary.open("wb") as file:
                file.write(_message(1, first + _message(_INTERNED, names)))
                file.writelines(self.descriptors)
                if self.packets:
                    line = pl.concat(self.packets).sort("time_ns", "order", maintain_order=True)
                    for part in line.iter_slices(_CHUNK):
                        file.write(b"".join(part["packet"].to_list()))
        except OSError as error:
            raise RunFailedError(f"{path}: cannot be written: {error.strerror}") from error


def write_perfetto(tables: Mapping[str, pl.DataFrame], path: Path) -> None:
    """Write a Perfetto trace of one run.

    Parameters
    ----------
    tables
        ``processes``, ``callback_instances``, ``publications``, ``messages``, ``service_calls``
        and, where they were recorded, ``resources`` and ``heap``.
    path
        File to write.

    Raises
    ------
    RunFailedError
        It cannot be written.
    """
    writer = _Writer()
    for host, vpid, name in tables["processes"].select("host", "vpid", "procname").iter_rows():
        writer.process(host, vpid, name)
    calls = _calls(tables)
    _callbacks(writer, tables, calls)
    _publications(writer, tables)
    _requests(writer, calls)
    if "resources" in tables:
        _counters(writer, tables["resources"])
    if "heap" in tables:
        _heap(writer, tables["heap"])
    writer.write(path)


_PLACE = ("host", "vpid", "vtid", "node")


def _on_tracks(writer: _Writer, frame: pl.DataFrame) -> pl.DataFrame:
    """Add the track of each row's thread and node."""
    places = frame.select(_PLACE).unique(maintain_order=True).sort(_PLACE, nulls_last=True)
    numbers = []
    for host, vpid, vtid, node in places.iter_rows():
        process = writer.process(host, vpid or 0, None)
        thread = _number(1, vpid or 0) + _number(2, vtid or 0)
        parent = writer.track(("thread", host, vpid, vtid), parent=process, thread=thread)
        name = f"{node or 'unknown node'} [{vtid}]"
        numbers.append(writer.track(("node", host, vpid, vtid, node), parent=parent, name=name))
    places = places.with_columns(pl.Series("track", numbers, dtype=pl.UInt64))
    return frame.join(places, on=_PLACE, how="left", nulls_equal=True, maintain_order="left")


def _callbacks(writer: _Writer, tables: Mapping[str, pl.DataFrame], calls: pl.DataFrame) -> None:
    number = "callback_instance_id"
    received = _pairs(tables["messages"]).select(number, "flow").drop_nulls()
    served = calls.select(number, "flow").drop_nulls()
    flows = pl.concat([received, served]).unique(number, keep="first", maintain_order=True)
    instances = tables["callback_instances"].join(
        flows, on=number, how="left", maintain_order="left"
    )
    # An execution without an end shows as a moment.
    slices = _on_tracks(writer, instances).with_columns(
        pl.format(
            "{} {}",
            pl.col("kind").fill_null("callback"),
            readable(pl.col("name")).fill_null("unknown"),
        ).alias("name"),
        pl.col("start_ns").alias("time_ns"),
        pl.col("flow").alias("flow_0"),
    )
    whole = pl.col("end_ns").is_not_null()
    linked = pl.col("flow_0").is_not_null()
    for kind, of_kind in ((_BEGIN, whole), (_INSTANT, ~whole)):
        writer.events(slices.filter(of_kind & linked), kind, order=1, flows=1)
        writer.events(slices.filter(of_kind & ~linked), kind, order=1)
    ends = slices.filter(whole).select("start_ns", pl.col("end_ns").alias("time_ns"), "track")
    # What ends goes before what begins, but for what has no length.
    short = pl.col("start_ns") == pl.col("time_ns")
    writer.events(ends.filter(~short), _END, order=0)
    writer.events(ends.filter(short), _END, order=4)


def _publications(writer: _Writer, tables: Mapping[str, pl.DataFrame]) -> None:
    pairs = _pairs(tables["messages"]).filter(pl.col("callback_instance_id").is_not_null())
    flows = pairs.group_by("message_id", maintain_order=True).agg("flow")
    last = pl.max_horizontal("publish_ns", "rcl_publish_ns", "rmw_publish_ns")
    sent = _on_tracks(writer, tables["publications"].filter(pl.col("publish_ns").is_not_null()))
    sent = sent.join(flows, on="message_id", how="left", maintain_order="left").with_columns(
        pl.format("publish {}", pl.col("topic").fill_null("unknown")).alias("name"),
        pl.col("publish_ns").alias("time_ns"),
        last.alias("last_ns"),
        pl.col("flow").list.len().fill_null(0).alias("flows"),
    )
    for count in sent["flows"].unique().sort().to_list():
        some = sent.filter(pl.col("flows") == count).with_columns(
            pl.col("flow").list.get(k, null_on_oob=True).alias(f"flow_{k}") for k in range(count)
        )
        writer.events(some, _BEGIN, order=2, flows=count)
    # Those of no length end after their begin, and before what begins next.
    writer.events(sent.select(pl.col("last_ns").alias("time_ns"), "track"), _END, order=3)


def _pairs(messages: pl.DataFrame) -> pl.DataFrame:
    """Messages with the number of their flow; flows of messages are odd."""
    return messages.filter(pl.col("message_id").is_not_null()).with_columns(
        (pl.int_range(pl.len(), dtype=pl.Int64) * 2 + 1).alias("flow")
    )


def _calls(tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Service calls with their flow (even) and the execution that served them."""
    served = (
        tables["callback_instances"]
        .filter(pl.col("kind") == "service")
        .select(
            pl.col("name").alias("service"),
            pl.col("node").alias("server_node"),
            pl.col("start_ns").alias("callback_start_ns"),
            "callback_instance_id",
        )
        .unique(["service", "server_node", "callback_start_ns"], maintain_order=True)
    )
    return (
        tables["service_calls"]
        .with_columns((pl.int_range(pl.len(), dtype=pl.Int64) * 2 + 2).alias("flow"))
        .join(
            served,
            on=["service", "server_node", "callback_start_ns"],
            how="left",
            maintain_order="left",
        )
    )


def _requests(writer: _Writer, calls: pl.DataFrame) -> None:
    """Moments at the client: when the request was sent and the response taken."""
    known = calls.filter(pl.col("client_node").is_not_null())
    for what, column in (("request", "request_sent_ns"), ("response", "response_taken_ns")):
        moments = known.filter(pl.col(column).is_not_null())
        tracks = {
            node: writer.track(("client", node), name=f"{node} [services]")
            for node in moments["client_node"].unique().sort().to_list()
        }
        writer.events(
            moments.select(
                pl.col(column).alias("time_ns"),
                pl.col("client_node").replace_strict(tracks, return_dtype=pl.UInt64).alias("track"),
                pl.format("{} {}", pl.lit(what), pl.col("service").fill_null("unknown")).alias(
                    "name"
                ),
                pl.col("flow").alias("flow_0"),
            ),
            _INSTANT,
            order=1,
            flows=1,
        )


def _counters(writer: _Writer, resources: pl.DataFrame) -> None:
    who = ["host", "vpid"]
    used = resources.sort(*who, "time_ns").with_columns(
        (pl.col("cpu_time_ns").diff() / pl.col("time_ns").diff()).over(who).alias("CPU [cores]"),
        (pl.col("rss_bytes") / 2**20).alias("RSS [MiB]"),
        (pl.col("pss_bytes") / 2**20).alias("PSS [MiB]"),
        (pl.col("heap_bytes") / 2**20).alias("heap [MiB]"),
    )
    _counted(writer, used, ("CPU [cores]", "RSS [MiB]", "PSS [MiB]", "heap [MiB]"))


def _heap(writer: _Writer, heap: pl.DataFrame) -> None:
    """Live bytes as the allocator's events tell."""
    live = (pl.col("live_bytes") / 2**20).alias("traced heap [MiB]")
    name = pl.lit(None, dtype=pl.String).alias("process")
    _counted(writer, heap.select("host", "vpid", "time_ns", name, live), (live.meta.output_name(),))


def _counted(writer: _Writer, used: pl.DataFrame, counters: Sequence[str]) -> None:
    """Counters of each process; ``process`` is its name where it is not known yet."""
    who = ["host", "vpid"]
    for host, vpid, name in used.select(*who, "process").unique(who, maintain_order=True).rows():
        parent = writer.process(host, vpid, name)
        of_one = used.filter((pl.col("host") == host) & (pl.col("vpid") == vpid))
        for counter in counters:
            values = of_one.select("time_ns", pl.col(counter).alias("value")).filter(
                pl.col("value").is_not_null() & pl.col("value").is_finite()
            )
            if values.height:
                track = writer.track(
                    ("counter", host, vpid, counter), parent=parent, name=counter, counter=b""
                )
                values = values.with_columns(pl.lit(track, dtype=pl.UInt64).alias("track"))
                writer.events(values, _COUNTER, order=1)


# Protobuf: one value, then columns of values.


def _plain(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field: int, value: int) -> bytes:
    return _plain(field << 3) + _plain(value)


def _message(field: int, body: bytes) -> bytes:
    return _plain(field << 3 | 2) + _plain(len(body)) + body


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _constant(data: bytes, rows: int) -> _Bytes:
    return np.broadcast_to(np.frombuffer(data, dtype=np.uint8), (rows, len(data)))


def _varints(field: int, values: pl.Series, width: int) -> _Bytes:
    """Varints of `width` bytes each, whatever their value."""
    numbers = values.cast(pl.UInt64).to_numpy()
    key = _plain(field << 3)
    out = np.empty((len(numbers), len(key) + width), dtype=np.uint8)
    out[:, : len(key)] = np.frombuffer(key, dtype=np.uint8)
    for place in range(width):
        more = 0x80 if place < width - 1 else 0
        out[:, len(key) + place] = (numbers >> np.uint64(7 * place)) & np.uint64(0x7F) | np.uint64(
            more
        )
    return out


def _fixed(field: int, values: pl.Series) -> _Bytes:
    """Numbers of 8 bytes each."""
    numbers = np.ascontiguousarray(values.to_numpy()).view(np.uint8).reshape(-1, 8)
    return np.hstack([_constant(_plain(field << 3 | 1), len(numbers)), numbers])


def _wrapped(field: int, columns: Sequence[_Bytes] | Iterable[_Bytes]) -> list[_Bytes]:
    """A message of these columns: its key and length before them."""
    given = list(columns)
    head = _plain(field << 3 | 2) + _plain(sum(column.shape[1] for column in given))
    return [_constant(head, len(given[0])), *given]
