"""Pages or single events as the kernel gave them, and what is needed to read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from roslens.recording.arrays import Bools, Bytes, Ints, np
from roslens.tracing.ftrace.formats import Format, PageHeader

Thread = tuple[int, int, str]
"""Process and thread as they know themselves, and the thread's name."""


@dataclass(frozen=True)
class Clock:
    """The clock of the times: its offset to the epoch in ns, and which boot it counts from.

    `absolute`: whether the metadata say that the offset is one to the epoch; babeltrace2 takes
    LTTng's clocks for such and refuses to join others with them.
    """

    offset_ns: int = 0
    name: str = "monotonic"
    uuid: str | None = None
    absolute: bool = False


@dataclass(frozen=True)
class Records:
    """Events that are not in pages, in the order of time.

    Attributes
    ----------
    data
        The bytes of all, each as its format describes it.
    begin, size, time
        Of each: its first byte, its bytes, its time in ns.
    lost
        How many were lost before them.
    """

    data: Bytes
    begin: Ints
    size: Ints
    time: Ints
    lost: int = 0


@dataclass(frozen=True)
class RawTrace:
    """Pages or single events as the kernel gave them, and what is needed to read them.

    Attributes
    ----------
    cpus
        By CPU: what gives the bytes of its pages, in pieces, from the first one each time.
    header
        How these pages begin.
    records
        By CPU: what gives its events, where they are not in pages.
    tracer
        What recorded them.
    overruns
        By CPU: how many events the kernel says that it lost, where it said so.
    whole
        Whether all switches of every CPU were recorded, so that one that is missing shows.
    threads
        Of events of programs: by their numbers in the kernel the threads that are meant; events
        of others are left out. None for events of the kernel.
    ignored
        Numbers of events that are not written.
    runtime
        The event by which switches from idle are put back; None: it was not recorded.
    pauses
        Begin and end of each stretch, in order, of which no event counts: not all were recorded.
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
    whole: bool = False
    threads: Mapping[int, Thread] | None = None
    ignored: frozenset[int] = frozenset()
    runtime: Format | None = None
    pauses: Ints = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))

    def recorded(self, time: Ints) -> Bools:
        """Which of some times lie in no pause."""
        outside: Bools
        outside = np.searchsorted(self.pauses.ravel(), time, side="right") % 2 == 0
        return outside


def pages_of(path: Path, offset: int = 0, size: int | None = None) -> Iterator[bytes]:
    """The content of a part of a file, in pieces."""
    left = path.stat().st_size - offset if size is None else size
    with path.open("rb") as stream:
        stream.seek(offset)
        while left > 0 and (piece := stream.read(min(left, 4 << 20))):
            left -= len(piece)
            yield piece
