"""Write generated ros2 events as a CTF trace, with the writer for recorded kernel events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import polars as pl

from roslens.recording.arrays import Ints, NDArray, np
from roslens.tracing.ftrace.ctf import write_ctf
from roslens.tracing.ftrace.formats import format_of
from roslens.tracing.ftrace.raw import Clock, RawTrace, Records

CLOCK_OFFSET_NS = 1_760_000_000_000_000_000
HEAD = [("number", "<u2"), ("flags", "u1"), ("preempted", "u1"), ("thread", "<i4")]
_CPUS = 4
_PACKET_EVENTS = 10_000
_KINDS = {pl.UInt64: "<u8", pl.Int64: "<i8", pl.Int32: "<i4", pl.String: "S32"}
_CONTEXT = ("time_ns", "vpid", "vtid")


def write_trace(folder: Path, events: Mapping[str, pl.DataFrame], seed: str) -> None:
    """Write events by name as a trace into a new folder.

    Parameters
    ----------
    events
        Frames with time_ns, vpid, vtid and the fields; each thread belongs to one process.
    seed
        The text from which the trace's UUID is made.

    Raises
    ------
    FileExistsError
        The folder already exists.
    """
    rows = [_rows(number, frame) for number, frame in enumerate(events.values())]
    times = [frame["time_ns"].to_numpy() - CLOCK_OFFSET_NS for frame in events.values()]
    who = pl.concat(frame.select("vpid", "vtid") for frame in events.values()).unique()
    raw = RawTrace(
        {
            number: format_of(number, f"ros2:{name}", array.dtype)
            for number, (name, array) in enumerate(zip(events, rows, strict=True))
        },
        records={cpu: partial(_records, rows, times, cpu) for cpu in range(_CPUS)},
        tracer="lttng-ust",
        hostname="host",
        domain="ust",
        threads={thread: (process, thread, f"p{process}") for process, thread in who.rows()},
    )
    write_ctf(raw, folder, Clock(CLOCK_OFFSET_NS), uuid5(NAMESPACE_OID, seed))


def _rows(number: int, frame: pl.DataFrame) -> NDArray[np.void]:
    """Pack all events of a class into bytes, one row each."""
    kinds = [
        (name, _KINDS[type(kind)]) for name, kind in frame.schema.items() if name not in _CONTEXT
    ]
    array = np.zeros(frame.height, np.dtype(HEAD + kinds))
    array["number"], array["thread"] = number, frame["vtid"].to_numpy()
    for name, _ in kinds:
        array[name] = frame[name].to_numpy()
    return array


def _records(rows: list[NDArray[np.void]], times: list[Ints], cpu: int) -> Iterator[Records]:
    """Yield the events of one CPU in time order, packet by packet."""
    data = np.concatenate([array.view(np.uint8) for array in rows])
    size = np.repeat([array.dtype.itemsize for array in rows], [len(array) for array in rows])
    begin, time = np.cumsum(size) - size, np.concatenate(times)
    events = np.flatnonzero(np.concatenate([array["thread"] for array in rows]) % _CPUS == cpu)
    order = events[np.argsort(time[events], kind="stable")]
    for first in range(0, len(order), _PACKET_EVENTS):
        at = order[first : first + _PACKET_EVENTS]
        yield Records(data, begin[at], size[at], time[at])
