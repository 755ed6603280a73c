"""Find the events in the kernel's ring-buffer pages, and the times of these events.

A page begins with a time and its length in bytes, with flags for losses before it. Events
follow; the head of an event has 5 bits for its length or kind and 27 bits for the time since the
previous event (``Documentation/trace/ring-buffer-design.rst``, ``include/linux/ring_buffer.h``).
All pages are parsed at once, the n-th event of each page together.

No length is trusted: an event that exceeds its page ends the page, which counts as damaged.
"""

from __future__ import annotations

from dataclasses import dataclass

from roslens.recording.arrays import Bools, Bytes, Ints, np
from roslens.tracing.ftrace.formats import PageHeader

_PADDING, _EXTENDED, _ABSOLUTE = 29, 30, 31
_COMMIT = 0xFFFFF
_MISSED, _MISSED_STORED = 1 << 31, 1 << 30
_MOST_MISSED = 1 << 40
LATEST = 1 << 62
_KEPT_OF_ABSOLUTE = 0xF8 << 56 & 0x7FFF_FFFF_FFFF_FFFF
"""The bits of an absolute time above its 59 bits come from the page's time."""


@dataclass(frozen=True)
class PageEvents:
    """The events found in some pages.

    Attributes
    ----------
    page, begin, size, time
        For each event, in the order of the pages: its page, the offset of its first byte in all
        pages together, its size in bytes, its time.
    begins
        Time at the beginning of each page.
    missed
        Number of events lost before each page; -1 if the kernel did not state the number.
    damaged
        Whether a page contains something impossible.
    """

    page: Ints
    begin: Ints
    size: Ints
    time: Ints
    begins: Ints
    missed: Ints
    damaged: Bools


def find_events(data: Bytes, header: PageHeader) -> PageEvents:
    """Find the events in whole pages, given as bytes of a little-endian machine."""
    pages = _complete_pages(data, header)
    words = pages.view("<u4")
    begins = pages[:, :8].copy().view("<i8")[:, 0]
    commit = words[:, header.commit_offset // 4].astype(np.int64)
    first = header.data_offset // 4
    length = commit & _COMMIT
    damaged = (length > header.page_size - header.data_offset) | (begins < 0) | (begins > LATEST)
    ends = np.where(damaged, first, first + length // 4)
    missed = np.where(damaged, 0, find_missed(data, header))

    active = np.flatnonzero(ends > first)
    at = np.full(active.size, first, dtype=np.int64)
    now = begins[active].copy()
    parts: list[tuple[Ints, Ints, Ints, Ints]] = []
    while active.size:
        word = words[active, at].astype(np.int64)
        kind, delta = word & 31, word >> 5
        end = ends[active]
        # Words of the event after its head; the first one is a length or an extension of the time.
        second = words[active, np.minimum(at + 1, end - 1)].astype(np.int64)
        has_length = (kind == 0) | (kind == _PADDING)
        timed = (kind == _EXTENDED) | (kind == _ABSOLUTE)
        rest = np.where(has_length, (second + 3) // 4, np.where(timed, 1, kind))
        last = (kind == _PADDING) & (delta == 0)
        bad = ~last & ((at + 1 + rest > end) | (has_length & (second < 4)))
        long = (second << 27) + delta
        now = np.where(
            kind == _ABSOLUTE, long | (begins[active] & _KEPT_OF_ABSOLUTE),
            now + np.where(kind == _EXTENDED, long, delta),
        )  # fmt: skip
        bad |= (now < 0) | (now > LATEST)
        damaged[active[bad]] = True
        going = ~(last | bad)
        events = going & (kind < _PADDING)
        starts = at[events] + np.where(kind[events] == 0, 2, 1)
        parts.append(
            (active[events], starts * 4, (at[events] + 1 + rest[events] - starts) * 4, now[events])
        )
        at = (at + 1 + rest)[going]
        active, now = active[going], now[going]
        more = at < ends[active]
        active, at, now = active[more], at[more], now[more]
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return PageEvents(none, none, none, none, begins, missed, damaged)
    page, begin, size, time = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(page, kind="stable")
    page = page[order]
    return PageEvents(
        page, begin[order] + page * header.page_size, size[order], time[order], begins, missed,
        damaged,
    )  # fmt: skip


def find_missed(data: Bytes, header: PageHeader) -> Ints:
    """Return how many events were lost before each page; -1 if the page does not say."""
    pages = _complete_pages(data, header)
    commit = pages.view("<u4")[:, header.commit_offset // 4].astype(np.int64)
    length = commit & _COMMIT
    missed = np.where(commit & _MISSED != 0, -1, 0)
    for at in np.flatnonzero((missed < 0) & (commit & _MISSED_STORED != 0)).tolist():
        start = header.data_offset + int(length[at])
        # The number is stored behind the last event.
        number = int.from_bytes(pages[at, start : start + header.commit_size].tobytes(), "little")
        if start + header.commit_size <= header.page_size and 0 < number < _MOST_MISSED:
            missed[at] = number
    return missed


def _complete_pages(data: Bytes, header: PageHeader) -> Bytes:
    count = len(data) // header.page_size
    return data[: count * header.page_size].reshape(count, header.page_size)
