"""A CTF 1.8 trace of ros2 events, as LTTng-UST records them: metadata, packets, index files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from uuid import NAMESPACE_OID, UUID, uuid5

import numpy as np
import polars as pl
from numpy.typing import NDArray

CLOCK_OFFSET_NS = 1_760_000_000_000_000_000
COMMON = [("id", "<u2"), ("stamp", "<u4"), ("vpid", "<i4"), ("vtid", "<i4"), ("procname", "S17")]
HEAD = np.dtype(
    [
        ("magic", "<u4"),
        ("uuid", "V16"),
        ("stream_id", "<u4"),
        ("instance", "<u8"),
        ("begin", "<u8"),
        ("end", "<u8"),
        ("content_size", "<u8"),
        ("packet_size", "<u8"),
        ("sequence", "<u8"),
        ("discarded", "<u8"),
        ("cpu", "<u4"),
    ]
)
CHARACTER = "integer { size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; }"
NAME_BYTES = 32
_INDEX = np.dtype([(f"f{i}", ">u8") for i in range(9)])
_CPUS = 4
_PACKET_BYTES = 262_144
_SILENCE_NS = 2_000_000_000
_KINDS = {pl.UInt64: "u8", pl.Int64: "i8", pl.Int32: "i4", pl.String: "name"}
_CONTEXT = ("time_ns", "vpid", "vtid")
Classes = Mapping[str, Iterable[tuple[str, str]]]
"""Names of events, and the names and kinds of their fields."""


def metadata(uuid: UUID, classes: Classes) -> str:
    """The trace's TSDL, laid out as LTTng writes it; a class is numbered by its place."""
    types = {"u8": (64, 0, 16), "i8": (64, 1, 10), "i4": (32, 1, 10)}
    integer = "integer {{ size = {}; align = 8; signed = {}; encoding = none; base = {}; }}".format
    text = f"""/* CTF 1.8 */

typealias integer {{ size = 8; align = 8; signed = false; }} := uint8_t;
typealias integer {{ size = 16; align = 8; signed = false; }} := uint16_t;
typealias integer {{ size = 32; align = 8; signed = false; }} := uint32_t;
typealias integer {{ size = 64; align = 8; signed = false; }} := uint64_t;

trace {{
	major = 1;
	minor = 8;
	uuid = "{uuid}";
	byte_order = le;
	packet.header := struct {{
		uint32_t magic;
		uint8_t  uuid[16];
		uint32_t stream_id;
		uint64_t stream_instance_id;
	}};
}};

env {{
	domain = "ust";
	tracer_name = "lttng-ust";
	tracer_major = 2;
	tracer_minor = 13;
	hostname = "host";
}};

clock {{
	name = "monotonic";
	freq = 1000000000;
	offset = {CLOCK_OFFSET_NS};
}};

typealias integer {{ size = 32; align = 8; signed = false; map = clock.monotonic.value; }}
	:= stamp32_t;
typealias integer {{ size = 64; align = 8; signed = false; map = clock.monotonic.value; }}
	:= stamp64_t;

struct packet_context {{
	stamp64_t timestamp_begin;
	stamp64_t timestamp_end;
	uint64_t content_size;
	uint64_t packet_size;
	uint64_t packet_seq_num;
	uint64_t events_discarded;
	uint32_t cpu_id;
}};

struct event_header_large {{
	enum : uint16_t {{ compact = 0 ... 65534, extended = 65535 }} id;
	variant <id> {{
		struct {{ stamp32_t timestamp; }} compact;
		struct {{ uint32_t id; stamp64_t timestamp; }} extended;
	}} v;
}} align(8);

stream {{
	id = 0;
	event.header := struct event_header_large;
	packet.context := struct packet_context;
	event.context := struct {{
		{integer(32, 1, 10)} _vpid;
		{integer(32, 1, 10)} _vtid;
		{CHARACTER} _procname[17];
	}};
}};
"""

    def member(field: str, kind: str) -> str:
        if kind == "name":
            return f"\t\t{CHARACTER} _{field}[{NAME_BYTES}];\n"
        return f"\t\t{integer(*types[kind])} _{field};\n"

    for number, (name, fields) in enumerate(classes.items()):
        members = "".join(member(field, kind) for field, kind in fields)
        text += f"""
event {{
	name = "ros2:{name}";
	id = {number};
	stream_id = 0;
	loglevel = 13;
	fields := struct {{
{members}	}};
}};
"""
    return text


def write_stream(
    folder: Path, uuid: UUID, cpu: int, packets: Iterable[tuple[bytes, int, int]]
) -> None:
    """Write the packets of a CPU, content with first and last time, and LTTng's index 1.1."""
    name = f"ch0_{cpu}"
    entries = []
    with (folder / name).open("wb") as stream:
        for sequence, (content, begin, end) in enumerate(packets):
            size = HEAD.itemsize + len(content)
            head = np.zeros(1, HEAD)
            head["magic"], head["uuid"] = 0xC1FC1FC1, np.void(uuid.bytes)
            head["begin"], head["end"] = begin, end
            head["content_size"] = head["packet_size"] = size * 8
            head["sequence"], head["instance"], head["cpu"] = sequence, cpu, cpu
            entries.append((stream.tell(), size * 8, size * 8, begin, end, 0, 0, cpu, sequence))
            stream.write(head.tobytes())
            stream.write(content)
    (folder / "index").mkdir(exist_ok=True)
    with (folder / "index" / f"{name}.idx").open("wb") as index:
        index.write(np.array([0xC1F1DCC1, 1, 1, _INDEX.itemsize], ">u4").tobytes())
        index.write(np.array(entries, _INDEX).tobytes())


def write_trace(folder: Path, events: Mapping[str, pl.DataFrame], seed: str) -> None:
    """Write events by name as a trace into an empty folder.

    Parameters
    ----------
    events
        Frames with time_ns, vpid, vtid and the fields.
    seed
        What its UUID is made from.
    """
    uuid = uuid5(NAMESPACE_OID, seed)
    classes = {
        name: [(x, _KINDS[type(kind)]) for x, kind in frame.schema.items() if x not in _CONTEXT]
        for name, frame in events.items()
    }
    (folder / "metadata").write_text(metadata(uuid, classes), encoding="ascii")
    rows = [
        _rows(number, frame, classes[name]) for number, (name, frame) in enumerate(events.items())
    ]
    times = [frame["time_ns"].to_numpy() - CLOCK_OFFSET_NS for frame in events.values()]
    for cpu in range(_CPUS):
        chosen = [np.flatnonzero(x["vtid"] % _CPUS == cpu) for x in rows]
        own = [[x[at] for x, at in zip(of, chosen, strict=True)] for of in (rows, times)]
        if any(map(len, chosen)):
            write_stream(folder, uuid, cpu, _packets(*own))


def _rows(number: int, frame: pl.DataFrame, fields: Iterable[tuple[str, str]]) -> NDArray[np.void]:
    """The bytes of all events of a class, one row each."""
    kinds = [(x, f"S{NAME_BYTES}" if kind == "name" else f"<{kind}") for x, kind in fields]
    made = np.zeros(frame.height, np.dtype(COMMON + kinds))
    made["id"] = number
    made["stamp"] = (frame["time_ns"].to_numpy() - CLOCK_OFFSET_NS) & 0xFFFFFFFF
    made["procname"] = np.char.add(b"p", frame["vpid"].to_numpy().astype("S"))
    for name in ("vpid", "vtid", *(x for x, _ in fields)):
        made[name] = frame[name].to_numpy()
    return made


def _packets(
    rows: list[NDArray[np.void]], times: list[NDArray[np.int64]]
) -> Iterable[tuple[bytes, int, int]]:
    """Events of several classes one behind the other in the order of time, cut into packets."""
    time = np.concatenate(times)
    kind = np.repeat(np.arange(len(rows)), [len(x) for x in rows])
    place = np.concatenate([np.arange(len(x)) for x in rows])
    order = np.argsort(time, kind="stable")
    time, kind, place = time[order], kind[order], place[order]
    size = np.array([x.dtype.itemsize for x in rows])[kind]
    behind = np.cumsum(size)
    # The head of an event has the low half of its time: a long silence ends a packet.
    packet = behind // _PACKET_BYTES + np.cumsum(np.diff(time, prepend=time[:1]) > _SILENCE_NS)
    for one in np.unique(packet):
        own = slice(*np.searchsorted(packet, [one, one + 1]))
        at = behind[own] - size[own]
        content = np.empty(size[own].sum(), np.uint8)
        for number, found in enumerate(rows):
            here = kind[own] == number
            width = found.dtype.itemsize
            content[(at[here] - at[0])[:, None] + np.arange(width)] = (
                found[place[own][here]].view(np.uint8).reshape(-1, width)
            )
        yield content.tobytes(), int(time[own][0]), int(time[own][-1])
