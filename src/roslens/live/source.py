"""Read the events of native tracers as they are written, interval by interval."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import polars as pl

from roslens.collectors.reader import open_trace
from roslens.collectors.ros2.events import INIT_EVENTS
from roslens.collectors.schema.tables import LOSSES
from roslens.recording import UsageError
from roslens.recording.errors import writing
from roslens.recording.layout import MANIFEST_NAME
from roslens.recording.manifest import read_manifest
from roslens.recording.scratch import scratch_folder
from roslens.tracing.native_tracer.growing import Growing, find_growing, is_of_this_boot

_MARGIN_NS = 50_000_000
"""The longest time that a thread may take to write an event."""
_FUTURE_NS = 60_000_000_000
"""Events further ahead than this are not from this clock."""


class Source:
    """Events of programs that record themselves; made by `following`.

    Attributes
    ----------
    until_ns
        The time up to which all events are known; None if nobody writes any more.
    """

    def __init__(self, path: Path, own: Path, keep_ns: int | None) -> None:
        self._path = path
        self._own = own
        self._keep_ns = keep_ns
        self._traces = {folder: Growing(folder) for folder in find_growing(path)}
        self._pending: dict[str, pl.DataFrame] = {}
        self._is_first = True
        self._needed_ns: int | None = None
        if not all(map(is_of_this_boot, self._traces)):
            raise UsageError(
                f"{path}: was written before this machine started, or on another one; of what has "
                "ended 'roslens report latency' tells"
            )
        self.until_ns: int | None = None

    @property
    def broken(self) -> list[str]:
        """List the files with content that no tracer writes."""
        return sorted(
            f"{folder.name}/{name}"
            for folder, growing in self._traces.items()
            for name in growing.broken
        )

    @property
    def flight(self) -> Path | None:
        """Return the folder from which snapshots are made; None if everything is recorded."""
        flights = [folder.parent for folder, growing in self._traces.items() if growing.is_flight]
        return flights[0] if flights else None

    def has_ended(self) -> bool:
        """Return whether the folder indicates that no more events can come."""
        if not any(trace.exists() for trace in self._traces):
            return True
        return self._status() not in (None, "running")

    @property
    def run(self) -> Path | None:
        """Return the folder of the run that is being recorded; None if there is no run."""
        return self._folder if self._status() == "running" else None

    @property
    def _folder(self) -> Path:
        return next(iter(self._traces)).parent.parent

    def _status(self) -> str | None:
        # The manifest of a run says that it is being recorded; any other file is not a run's.
        with suppress(UsageError):
            return read_manifest(self._folder / MANIFEST_NAME).status
        return None

    def read(self, *, all_of_it: bool = False) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
        """Read new events, up to a time that no thread is still writing about.

        Parameters
        ----------
        all_of_it
            Read up to the last event instead, because nobody writes any more.

        Returns
        -------
        tuple
            Events by name, as in `roslens.collectors.reader.Trace.read`, and rows of ``losses``.

        Raises
        ------
        RunFailedError
            There is no room for the copies of the files.
        """
        now = time.monotonic_ns()
        losses = [LOSSES.empty()]
        since = None
        if self._is_first:
            # A recording that ended a while ago also has last seconds to show.
            since = self._since(
                min(now, max(growing.last_ns() for growing in self._traces.values()))
            )
            losses.append(self._begin(since))
        more = True
        while more:
            more = False
            for place, (folder, growing) in enumerate(self._traces.items()):
                copy = self._own / f"{place}" / folder.name
                with writing(copy):
                    grown = growing.copy(copy, since)
                    if grown.any:
                        trace = open_trace(copy.parent)
                        self._add(trace.read(threads=1))
                        if grown.lost:
                            losses.append(trace.info(threads=1).losses)
                    shutil.rmtree(copy)
                more |= grown.more
        self._is_first = False
        wall = now + max(growing.clock_offset_ns for growing in self._traces.values())
        until = wall - _MARGIN_NS
        self.until_ns = None if all_of_it else until
        return self._split(wall + _FUTURE_NS if all_of_it else until, wall), pl.concat(losses)

    def read_again(
        self, needed_ns: int | None = None
    ) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
        """Read again, as a whole, all events within the kept time and since `needed_ns`."""
        self._needed_ns = needed_ns
        self._traces = {folder: Growing(folder) for folder in self._traces}
        self._pending, self._is_first = {}, True
        return self.read(all_of_it=self.until_ns is None)

    def _since(self, latest: int) -> int | None:
        """Return the time from which events are wanted, given the latest event; None for all."""
        if self._keep_ns is None:
            return None
        offset = max(growing.clock_offset_ns for growing in self._traces.values())
        needed = latest if self._needed_ns is None else self._needed_ns - offset
        return min(latest - self._keep_ns, needed)

    def _begin(self, since: int | None) -> pl.DataFrame:
        """Read the events that named objects before `since`, unless they are stored separately."""
        forgotten = []
        for folder, growing in self._traces.items():
            if since is None or growing.is_flight:
                continue
            trace = open_trace(folder)
            wanted = [f"ros2:{name}" for name in INIT_EVENTS]
            self._add(trace.read(wanted, threads=1))
            begin, _ = trace.span
            end = since + growing.clock_offset_ns
            if begin is not None and begin < end:
                row = {"host": trace.hosts[0], "kind": "lost_packets"}
                forgotten.append({**row, "begin_ns": begin, "end_ns": end})
        return LOSSES.conform(pl.DataFrame(forgotten, schema=LOSSES.schema))

    def _add(self, frames: Mapping[str, pl.DataFrame]) -> None:
        for name, frame in frames.items():
            before = self._pending.get(name)
            if before is None or before.is_empty():
                self._pending[name] = frame
            elif not frame.is_empty():
                self._pending[name] = pl.concat([before, frame], how="diagonal_relaxed")

    def _split(self, until: int, wall: int) -> dict[str, pl.DataFrame]:
        events = {}
        for name, frame in self._pending.items():
            events[name] = frame
            if frame.is_empty():
                continue
            ready = frame
            if not frame["time_ns"].is_sorted():
                ready = frame.sort("time_ns", maintain_order=True)
            now, ever = (
                ready["time_ns"].search_sorted(limit, side="right")
                for limit in (until, wall + _FUTURE_NS)
            )
            events[name] = ready.head(now)
            self._pending[name] = ready[now:ever]
        return events


@contextmanager
def following(path: Path, keep_ns: int | None) -> Iterator[Source]:
    """Follow the files that native tracers write at or below a folder.

    Parameters
    ----------
    path
        The folder of a recording in progress, or of a flight recorder.
    keep_ns
        How far back from now events are wanted, in ns; None: all events.

    Raises
    ------
    UsageError
        No native tracer writes there, or it wrote on another machine or before this one started.
    """
    with scratch_folder(Path(tempfile.gettempdir()), "roslens-live-") as scratch:
        yield Source(path, scratch, keep_ns)
