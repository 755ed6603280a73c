"""Hold pages or single events as recorded by the kernel, and what is needed to read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roslens.recording.arrays import Bools, Bytes, Ints, np
from roslens.tracing.ftrace.formats import Format, PageHeader

Thread = tuple[int, int, str]
"""Process and thread ids in the program's own namespace, and the thread's name."""


@dataclass(frozen=True)
class Clock:
    """The clock of a trace: its offset to the epoch in ns, and the boot it counts from.

    `absolute`: whether the metadata declare the offset as relative to the epoch; babeltrace2
    assumes this of LTTng's clocks and refuses to join other clocks with them.
    """

    offset_ns: int = 0
    name: str = "monotonic"
    uuid: str | None = None
    absolute: bool = False


@dataclass(frozen=True)
class Records:
    """Events that are not in pages, ordered by time.

    Attributes
    ----------
    data
        The bytes of all events, each laid out as its format describes.
    begin, size, time
        For each event: offset of its first byte, size in bytes, time in ns.
    lost
        How many events were lost before these.
    """

    data: Bytes
    begin: Ints
    size: Ints
    time: Ints
    lost: int = 0


@dataclass(frozen=True)
class RawTrace:
    """Pages or single events as recorded by the kernel, and what is needed to read them.

    Attributes
    ----------
    cpus
        By CPU: a function that yields the bytes of its pages in pieces, always from the first one.
    header
        The layout of these pages.
    records
        By CPU: a function that yields events that are not in pages.
    tracer
        The name of the tracer that recorded the trace.
    overruns
        By CPU: how many events the kernel reports as lost, if it does.
    whole
        Whether all switches of every CPU were recorded, so that a missing one can be noticed.
    threads
        For events of programs: the wanted threads by their kernel ids; events of other threads are
        left out. None for events of the kernel.
    ignored
        Numbers of event types that are not written.
    runtime
        The event used to restore switches from idle; None: it was not recorded.
    pauses
        Begin and end of each pause, in order; events in pauses are ignored because some are
        missing.
    """

    formats: Mapping[int, Format]
    cpus: Mapping[int, Callable[[], Iterator[bytes]]] = field(default_factory=dict)
    header: PageHeader | None = None
    records: Mapping[int, Callable[[], Iterator[Records]]] = field(default_factory=dict)
    tracer: str = "ftrace"
    overruns: Mapping[int, int] = field(default_factory=dict)
    hostname: str | None = None
    release: str | None = None
    domain: str = "kernel"
    complete: bool = False
    threads: Mapping[int, Thread] | None = None
    ignored: frozenset[int] = frozenset()
    runtime: Format | None = None
    pauses: Ints = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))

    def recorded(self, time: Ints) -> Bools:
        """Return which of some times lie outside of all pauses."""
        outside: Bools
        outside = np.searchsorted(self.pauses.ravel(), time, side="right") % 2 == 0
        return outside


def pages_of(path: Path, offset: int = 0, size: int | None = None) -> Iterator[bytes]:
    """Yield the content of a part of a file in pieces."""
    left = path.stat().st_size - offset if size is None else size
    with path.open("rb") as stream:
        stream.seek(offset)
        while left > 0 and (piece := stream.read(min(left, 4 << 20))):
            left -= len(piece)
            yield piece
