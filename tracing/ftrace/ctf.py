"""Write ring-buffer pages, or single events, as a CTF trace like LTTng's kernel tracer does.

Names, fields and the clock are the same, so that every reader of LTTng's kernel events can read
these. A packet holds the events of up to `_PAGES` pages; where the kernel lost events, an empty
packet in the gap states how many.
"""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO
from uuid import UUID, uuid4

from roslens.recording import UsageError
from roslens.recording.arrays import Bytes, Ints, np
from roslens.recording.layout import NOT_SAMPLED
from roslens.tracing.ftrace.formats import Format, PageHeader
from roslens.tracing.ftrace.pages import LATEST, find_events, find_missed
from roslens.tracing.ftrace.raw import Clock, RawTrace, Records
from roslens.tracing.ftrace.rows import Encoder, Rows, numbers_at
from roslens.tracing.ftrace.switches import (
    Accounted,
    Events,
    can_tell,
    runtime_accounted_elsewhere,
    with_sums,
    with_switches,
)
from roslens.tracing.ftrace.tsdl import metadata

_PAGES = 512
_HEAD = struct.Struct("<IIQQQQQI")
"""Magic, stream, begin, end, content and packet size in bits, discarded so far, CPU."""
_MAGIC = 0xC1FC1FC1


@dataclass
class Converted:
    """The result of writing a CTF trace.

    Attributes
    ----------
    lost
        How many events the kernel reports as lost.
    switches_missing
        Switches that the kernel neither recorded nor counted as lost: the thread that leaves a
        CPU is not the thread that last came to it.
    damaged_pages
        Pages that could not be read completely.
    missing
        All events that the written trace reports as missing: `lost` and `switches_missing`, and at
        least one for each damage.
    of_others
        Events of programs that are left out, because their threads are unwanted or unknown.
    by_name
        How many events of each name were written.
    notes
        Further notes for the user, one line each.
    """

    lost: int = 0
    switches_missing: int = 0
    damaged_pages: int = 0
    missing: int = 0
    foreign: int = 0
    by_name: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    @property
    def complaint(self) -> str | None:
        """Describe in one line what is wrong with the pages, or return None."""
        if not self.damaged_pages:
            return None
        return f"{self.damaged_pages} pages of the kernel's trace are damaged and not read whole"

    @property
    def events(self) -> int:
        """Return how many events were written."""
        return self.by_name.total()


def write_ctf(raw: RawTrace, folder: Path, clock: Clock, own: UUID | None = None) -> Converted:
    """Write pages or single events as a CTF trace into a new folder; on errors, leave no folder.

    `own` is the UUID of the trace; None: a new one.

    Raises
    ------
    OSError
        The trace cannot be written.
    """
    folder.mkdir(parents=True)
    done = Converted()
    try:
        if not can_tell(_switch_of(raw), raw.runtime):
            raw = replace(raw, runtime=None)
        accounted = (
            {}
            if raw.runtime is None
            else runtime_accounted_elsewhere(_all_events(raw), raw.runtime)
        )
        for cpu, pieces in sorted(raw.cpus.items()):
            with (folder / f"kernel_{cpu}").open("xb") as stream:
                _Stream(raw, cpu, stream, done, accounted).write(pieces)
        for cpu, records in sorted(raw.records.items()):
            with (folder / f"kernel_{cpu}").open("xb") as stream:
                _Stream(raw, cpu, stream, done).write_records(records())
        if len(raw.pauses):
            with (folder / NOT_SAMPLED).open("xb") as stream:
                # The number is one that no stream of events has.
                cpu = max([*raw.cpus, *raw.records], default=-1) + 1
                _Stream(raw, cpu, stream, Converted()).write_pauses()
        (folder / "metadata").write_text(metadata(raw, clock, own or uuid4()), encoding="utf-8")
    except BaseException:
        # No reader could use an incomplete trace.
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return done


def _all_events(raw: RawTrace) -> Iterator[Events]:
    if raw.header is not None:
        for pieces in raw.cpus.values():
            for block in blocks_of(pieces(), raw.header):
                events = find_events(block, raw.header)
                yield block, events.begin, events.size, events.time


def blocks_of(pieces: Iterator[bytes], header: PageHeader) -> Iterator[Bytes]:
    """Yield blocks of whole pages from pieces of any size; the last block may end mid-page."""
    size = _PAGES * header.page_size
    rest = b""
    for piece in pieces:
        rest += piece
        while len(rest) >= size:
            yield np.frombuffer(rest[:size], dtype=np.uint8)
            rest = rest[size:]
    if rest:
        yield np.frombuffer(rest, dtype=np.uint8)


class _Stream:
    """The writer of one CPU's stream."""

    def __init__(
        self,
        raw: RawTrace,
        cpu: int,
        stream: BinaryIO,
        done: Converted,
        accounted: Mapping[int, Accounted] | None = None,
    ) -> None:
        self._raw, self._cpu, self._stream, self._done = raw, cpu, stream, done
        self._others = accounted or {}
        self._encoder, self._switch = Encoder(raw), _switch_of(raw)
        self._lost = self._of_kernel = 0
        self._running: int | None = None
        self._last = 0
        self._untold = 0
        self._torn = False

    def write(self, pieces: Callable[[], Iterator[bytes]]) -> None:
        overrun = self._raw.overruns.get(self._cpu, 0)
        if overrun:
            # A full page has no room for the number of events lost before it.
            missed = [
                find_missed(block, self._header) for block in blocks_of(pieces(), self._header)
            ]
            self._untold = overrun - sum(int(counts[counts > 0].sum()) for counts in missed)
        for block in blocks_of(pieces(), self._header):
            if len(block) % self._header.page_size:
                self._done.damaged_pages += 1
            self._pages(block)
        left = max(0, overrun - self._of_kernel)
        if left or self._torn:
            self._of_kernel += left
            self._gap(left + self._torn, self._last)
        self._done.lost += self._of_kernel
        self._done.missing += self._lost

    def write_records(self, pieces: Iterator[Records]) -> None:
        for piece in pieces:
            if piece.lost:
                self._done.lost += piece.lost
                self._gap(piece.lost, int(piece.time[0]) if len(piece.time) else self._last)
            self._packet(piece.data, piece.begin, piece.size, piece.time)
        self._done.missing += self._lost

    def write_pauses(self) -> None:
        """Write each pause as a gap with an unknown number of missing events."""
        for begin, end in self._raw.pauses.tolist():
            self._head(begin, begin, 0)
            self._last = begin
            if end < LATEST:
                self._gap(1, end)

    @property
    def _header(self) -> PageHeader:
        if self._raw.header is None:
            raise UsageError("pages of ftrace without a description of their heads")
        return self._raw.header

    def _pages(self, data: Bytes) -> None:
        events = find_events(data, self._header)
        self._done.damaged_pages += int(events.damaged.sum())
        lossy: list[int] = np.flatnonzero(events.missed).tolist()
        missed = {at: self._count(int(events.missed[at])) for at in lossy}
        # Events behind the damage in a page are reported as missing before the next page.
        damaged: list[int] = np.flatnonzero(events.damaged).tolist()
        torn = {at + 1 for at in damaged}
        if self._torn:
            torn.add(0)
        self._torn = len(events.begins) in torn
        starts = sorted({0, *missed, *torn} - {len(events.begins)})
        edges = np.searchsorted(events.page, [*starts, len(events.begins)])
        for number, start in enumerate(starts):
            if start in torn:
                self._gap(1, int(events.begins[start]))
            if start in missed:
                self._of_kernel += missed[start]
                self._gap(missed[start], int(events.begins[start]))
            rows = np.arange(int(edges[number]), int(edges[number + 1]))
            rows = rows[self._raw.recorded(events.time[rows])]
            self._packet(data, events.begin[rows], events.size[rows], events.time[rows])

    def _count(self, reported: int) -> int:
        """Return how many events were lost before a page, or at least one if the page does not say.

        The first such gap gets all events that the kernel counted in total but reported in no page.
        """
        if reported > 0:
            return reported
        count, self._untold = max(1, self._untold), 0
        return count

    def _gap(self, count: int, until: int) -> None:
        """Write an empty packet, which states that `count` events are missing before a time."""
        self._lost += count
        self._running = None
        until = max(self._last, until) if until <= LATEST else self._last
        self._head(self._last, until, 0)
        self._last = until

    def _head(self, begin: int, end: int, size: int) -> None:
        bits = (_HEAD.size + size) * 8
        self._stream.write(_HEAD.pack(_MAGIC, 0, begin, end, bits, bits, self._lost, self._cpu))

    def _packet(self, data: Bytes, begin: Ints, size: Ints, time: Ints) -> None:
        if self._switch is not None and self._raw.runtime is not None:
            data, begin, size, time = with_switches(
                (data, begin, size, time), self._switch, self._raw.runtime, self._others,
                cpu=self._cpu, running=self._running, last=self._last,
            )  # fmt: skip
            data, begin, size, time = with_sums(
                (data, begin, size, time), self._switch, self._raw.runtime
            )
        rows = self._encoder.encode(data, begin, size, time)
        done = self._done
        done.foreign += rows.foreign
        done.by_name += rows.by_name
        if rows.wrong:
            # The wrong events may be anywhere among these.
            done.damaged_pages += 1
            self._gap(rows.wrong, int(rows.time[-1]) if len(rows.time) else self._last)
        begun = 0
        for stop, missing in [*self._gaps(data, rows), (len(rows.kind), 0)]:
            self._lost += missing
            done.switches_missing += missing
            times = rows.time[begun:stop][rows.kept[begun:stop]]
            if len(times):
                content = rows.content[rows.edges[begun] : rows.edges[stop]]
                self._head(int(times.min()), int(times.max()), len(content))
                self._stream.write(content.tobytes())
                self._last = int(times.max())
            begun = stop

    def _gaps(self, data: Bytes, rows: Rows) -> Iterator[tuple[int, int]]:
        """Yield where to end packets so that a missing switch lies in one, and how many it lacks.

        Packets end behind the previous switch, and behind the switch that reveals the missing one.
        """
        if self._switch is None:
            return
        at = np.flatnonzero(rows.kept & (rows.kind == self._switch.number))
        if not len(at):
            return
        where = {field.name: field.offset for field in self._switch.fields}
        left, came = (
            numbers_at(data, rows.begin[at] + where[name], "<i4")
            for name in ("prev_tid", "next_tid")
        )
        before = np.concatenate(([left[0] if self._running is None else self._running], came[:-1]))
        self._running = int(came[-1])
        for number in np.flatnonzero(before != left).tolist():
            yield (int(at[number - 1]) + 1 if number else 0), 0
            yield int(at[number]) + 1, 1


def _switch_of(raw: RawTrace) -> Format | None:
    """Return the format of the switch event, if all switches were recorded."""
    for event in raw.formats.values():
        tids = [
            field
            for field in event.fields
            if field.name in {"prev_tid", "next_tid"} and field.size == 4
        ]
        if event.name == "sched_switch" and len(tids) == 2:
            return event if raw.complete else None
    return None
