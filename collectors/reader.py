"""Read CTF traces: the only way to events for the rest of roslens.

The work is done by the compiled module `roslens.collectors._native` (crates `collectors/ctf` and
`collectors/native`), without holding the interpreter's lock; frames arrive as Arrow, not copied.

Rows of a table are sorted by ``time_ns``, then by trace path, stream and position in the stream.
docs/ctf_reader.md lists the columns.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from roslens.collectors import _native
from roslens.recording import RunFailedError, UsageError
from roslens.recording.bags import refuse_bag
from roslens.recording.layout import NOT_SAMPLED, find_traces
from roslens.recording.text import shown

if TYPE_CHECKING:
    import polars as pl


LOG_LEVELS = (
    *("EMERG", "ALERT", "CRIT", "ERR", "WARNING", "NOTICE", "INFO"),
    *(
        f"DEBUG_{scope}"
        for scope in ("SYSTEM", "PROGRAM", "PROCESS", "MODULE", "UNIT", "FUNCTION", "LINE")
    ),
    "DEBUG",
)
"""Names of log levels by number, as LTTng's tools print them after ``TRACE_``."""


def log_level_name(level: int) -> str:
    """Return the name of a log level: ``TRACE_DEBUG_LINE`` for 13; the number if it has no name."""
    return f"TRACE_{LOG_LEVELS[level]}" if 0 <= level < len(LOG_LEVELS) else str(level)


@dataclass(frozen=True)
class Process:
    """A process that recorded events.

    Attributes
    ----------
    host
        Label of its host: h0, h1, ...
    vpid
            Process id within its own namespace.
        procname
            Name of its first recorded thread; None if that was not recorded.
    """

    host: str
    vpid: int
    procname: str | None


@dataclass(frozen=True)
class TraceInfo:
    """Description of a trace's content.

    Attributes
    ----------
    events
        Number of events.
    events_by_name
            Number of events by name, for events that occurred.
        discarded_events
            Number of events that the tracer reports as dropped.
        begin_ns, end_ns
            Times of the first and last event, ns since the epoch; None without events.
        processes
            Processes, by host and number; empty if the context vpid was not recorded.
        hosts
            Labels of the hosts.
        log_levels
            Names of the log levels of the events that occurred, where they have one.
        warnings
            Sentences about what is missing or could not be read.
        loss_rows
            Rows of the table `losses`, unsorted.
    """

    events: int
    events_by_name: dict[str, int]
    discarded_events: int
    begin_ns: int | None
    end_ns: int | None
    processes: list[Process]
    hosts: list[str]
    log_levels: dict[str, str]
    warnings: list[str]
    loss_rows: list[dict[str, Any]] = field(repr=False, compare=False)

    @cached_property
    def losses(self) -> pl.DataFrame:
        """The table `losses`."""
        import polars as pl  # noqa: PLC0415  (a tenth of a second that writing events avoids)

        from roslens.collectors.schema import TABLES  # noqa: PLC0415

        table = TABLES["losses"]
        return table.conform(pl.DataFrame(self.loss_rows, schema=table.schema)).sort(
            "begin_ns", "trace", "stream", nulls_last=False, maintain_order=True
        )

    def joined(self, other: TraceInfo) -> TraceInfo:
        """Return the combined description of two sets of events of the same trace."""
        begins = [time for time in (self.begin_ns, other.begin_ns) if time is not None]
        ends = [time for time in (self.end_ns, other.end_ns) if time is not None]
        counts = {**self.events_by_name}
        for name, count in other.events_by_name.items():
            counts[name] = counts.get(name, 0) + count
        key = operator.attrgetter("host", "vpid")
        processes = {key(process): process for process in (*other.processes, *self.processes)}
        rows = [*self.loss_rows, *(row for row in other.loss_rows if row not in self.loss_rows)]
        return TraceInfo(
            events=self.events + other.events,
            events_by_name=counts,
            discarded_events=max(self.discarded_events, other.discarded_events),
            begin_ns=min(begins, default=None),
            end_ns=max(ends, default=None),
            processes=sorted(processes.values(), key=key),
            hosts=self.hosts,
            warnings=list(dict.fromkeys([*self.warnings, *other.warnings])),
            loss_rows=rows,
            log_levels=self.log_levels | other.log_levels,
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain data, as ``roslens info --json`` prints it."""
        about = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "loss_rows"}
        return about | {"processes": [asdict(process) for process in self.processes]}


class Trace:
    """All CTF traces below one folder, as one time line. Made by `open_trace`."""

    def __init__(self, root: Path, reader: _native.Reader, cpus: int | None = None) -> None:
        self.root = root
        self._reader = reader
        self._cpus = cpus
        self._info: TraceInfo | None = None

    @property
    def event_names(self) -> list[str]:
        """Names of all events that the metadata declare, sorted; not all need occur."""
        return self._reader.event_names

    @property
    def host_of(self) -> dict[str, str]:
        """Label of the host of each trace, by the trace's label."""
        return dict(self._reader.members)

    @property
    def log_levels(self) -> dict[str, str]:
        """Name of the log level of each declared event that has one."""
        return {name: log_level_name(level) for name, level in self._reader.log_levels.items()}

    @property
    def display_bases(self) -> dict[str, dict[str, tuple[int, int]]]:
        """By event and column: the base (2, 8 or 16) in which to show integers, and their bits.

        The metadata state them; columns that are missing here are decimal.
        """
        return self._reader.shown

    @property
    def hosts(self) -> list[str]:
        """Labels of the hosts, in the order of the traces."""
        return self._reader.hosts

    @property
    def span(self) -> tuple[int | None, int | None]:
        """First and last time stated by the headers of packets, in ns; None without any."""
        return self._reader.span

    @cached_property
    def first_event_ns(self) -> int | None:
        """Time of the first event, the origin of times such as ``+2s``; None without events.

        A packet begins before its first event, so packets are decoded until one has an event.
        """
        return min(self._times_in_first_part(self.windows(size=1 << 16)), default=None)

    @cached_property
    def last_event_ns(self) -> int | None:
        """Time of the last event; None without events. A packet ends after its last event."""
        return max(self._times_in_first_part(self.windows(size=1 << 16)[::-1]), default=None)

    def _times_in_first_part(self, parts: list[tuple[int | None, int | None]]) -> list[int]:
        """Return the first and last time of each kind of event in the first part with events."""
        for begin_ns, end_ns in parts:
            frames = self.read(begin_ns=begin_ns, end_ns=end_ns, fields=())
            kinds = [frame["time_ns"] for frame in frames.values() if frame.height]
            if kinds:
                return cast("list[int]", [ns for kind in kinds for ns in (kind.min(), kind.max())])
        return []

    def info(
        self, *, threads: int = 0, progress: Callable[[int, int], object] | None = None
    ) -> TraceInfo:
        """Count events, processes and losses; the contexts of all events are decoded once.

        Parameters
        ----------
        threads
            Number of threads; 0 for one per core.
        progress
            Called with the bytes done and the total, after every few MiB.

        Raises
        ------
        UsageError
            A stream file can no longer be read.
        """
        if self._info is None:
            with _errors(self.root):
                self._info = self._describe(self._reader.summary(threads, progress))
        return self._info

    @property
    def losses(self) -> pl.DataFrame:
        """The table `losses`: dropped events, and streams that are missing or cannot be read."""
        return self.info().losses

    def read(
        self,
        names: Iterable[str] | None = None,
        *,
        begin_ns: int | None = None,
        end_ns: int | None = None,
        fields: Iterable[str] | None = None,
        threads: int = 0,
    ) -> dict[str, pl.DataFrame]:
        """Decode events into memory.

        Packets outside the times are not read; events and fields that are not wanted are skipped.

        Parameters
        ----------
        names
            Event names wanted, such as ``ros2:rmw_take``; None for all declared ones.
            Undeclared names are left out of the result.
        begin_ns, end_ns
            Times of the first and last event wanted, both included.
        fields
            Columns wanted in addition to ``time_ns``; None for all. Columns that an event lacks
            are left out of its frame.
        threads
            Number of threads; 0 for one per core.

        Returns
        -------
        dict
            Frame by event name, for every declared event wanted; empty frames have their columns.

        Raises
        ------
        UsageError
            A stream file can no longer be read.
        """
        import polars as pl  # noqa: PLC0415

        with _errors(self.root):
            tables = self._reader.read((_list(names), begin_ns, end_ns, _list(fields), threads))
        return {name: pl.DataFrame(table) for name, table in tables.items()}

    def arrow(
        self,
        name: str,
        *,
        begin_ns: int | None = None,
        end_ns: int | None = None,
        fields: Iterable[str] | None = None,
        threads: int = 0,
    ) -> _native.Stream:
        """Return one kind of event as an Arrow stream, decoded while it is read, which works once.

        Consumers of the Arrow PyCapsule interface can read it: ``polars.DataFrame``, DuckDB through
        pyarrow, ``pyarrow.RecordBatchReader.from_stream``, ``pandas.DataFrame.from_arrow``. Memory
        is bounded by a few batches of at most 16,384 rows. Parameters as in `read`.

        Raises
        ------
        UsageError
            The trace declares no such event.
        """
        if name not in self.event_names:
            raise UsageError(f"{self.root}: no event '{name}' is declared in this trace")
        return self._reader.stream(([name], begin_ns, end_ns, _list(fields), threads))

    def stream(
        self,
        names: Iterable[str] | None = None,
        *,
        begin_ns: int | None = None,
        end_ns: int | None = None,
        fields: Iterable[str] | None = None,
        threads: int = 0,
    ) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield batches of several kinds of event as they are decoded; parameters as in `read`.

        Yields
        ------
        tuple
            Event name and batch. The batches of one event are in order of time.

        Raises
        ------
        UsageError
            A stream file can no longer be read, or its events are not in order of time.
        """
        import polars as pl  # noqa: PLC0415  (a tenth of a second that others avoid)

        with _errors(self.root):
            wanted = (_list(names), begin_ns, end_ns, _list(fields), threads)
            for name, batches in self._reader.stream(wanted):
                yield name, pl.DataFrame(batches)

    def windows(
        self, *, begin_ns: int | None = None, end_ns: int | None = None, size: int = 16 << 20
    ) -> list[tuple[int | None, int | None]]:
        """Cut the time into parts of about `size` bytes of trace.

        Returns
        -------
        list
            First and last time of each part, both included, for `read`; None for an open end.
        """
        return self._reader.windows(begin_ns, end_ns, size)

    def write_events(
        self,
        folder: Path,
        *,
        names: Iterable[str] | None = None,
        begin_ns: int | None = None,
        end_ns: int | None = None,
        fields: Iterable[str] | None = None,
        threads: int = 0,
        progress: Callable[[int, int], object] | None = None,
    ) -> TraceInfo:
        """Decode events to ``<folder>/<provider>/<event>.parquet``, in bounded memory.

        Files are zstd-compressed, sorted by ``time_ns`` with its statistics, in row groups of
        131,072 rows. An event without provider goes to its domain's folder (``kernel``, ``ust``,
        else ``trace``); characters other than letters, digits and ``_-.`` become ``_``. The
        recorded name is in the file's metadata as ``roslens.event``. Events that did not
        occur get no file. Each file appears under its name only when it is complete; existing files
        of other events in `folder` are left alone.

        Parameters
        ----------
        folder
            The output folder, created if missing.
        names, begin_ns, end_ns, fields
            As in `read`; the result then describes what was written.
        threads
            Number of threads; 0 for one per core.
        progress
            Called with the bytes done and the total, after every few MiB.

        Raises
        ------
        UsageError
            A stream file can no longer be read.
        RunFailedError
            A file cannot be written.
        """
        with _errors(self.root):
            wanted = (_list(names), begin_ns, end_ns, _list(fields), threads)
            written = self._reader.write(folder, wanted, progress)
        info = self._describe(written)
        if names is None and begin_ns is None and end_ns is None and fields is None:
            self._info = info
        return info

    def _describe(self, summary: dict[str, Any]) -> TraceInfo:
        missing = list(self._missing_last_streams())
        for row in summary["losses"]:
            if row["stream"] == NOT_SAMPLED:
                row |= {"kind": NOT_SAMPLED, "count": None}
        discarded = (
            row["count"] or 0 for row in summary["losses"] if row["kind"] == "discarded_events"
        )
        return TraceInfo(
            events=sum(summary["events_by_name"].values()),
            events_by_name=summary["events_by_name"],
            discarded_events=sum(discarded),
            begin_ns=summary["begin_ns"],
            end_ns=summary["end_ns"],
            processes=[Process(*process) for process in summary["processes"]],
            hosts=self._reader.hosts,
            warnings=_by_kind(
                [
                    *summary["warnings"],
                    *(
                        f"{row['trace']}/{row['stream']}: this stream is not there, though the "
                        f"machine had {self._cpus} CPUs"
                        for row in missing
                    ),
                ]
            ),
            loss_rows=[*summary["losses"], *missing],
            log_levels={
                name: level
                for name, level in self.log_levels.items()
                if name in summary["events_by_name"]
            },
        )

    def _missing_last_streams(self) -> Iterator[dict[str, Any]]:
        """Yield rows of `losses` for CPUs after the last with a file; LTTng writes one per CPU."""
        for trace, host in self.host_of.items() if self._cpus else ():
            folder = self.root / trace
            # Only LTTng writes an index.
            if not (folder / "index").is_dir():
                continue
            files = [path.name for path in folder.iterdir() if path.is_file()]
            streams = [match for match in map(_OF_CPU.fullmatch, files) if match]
            last = max((int(match[2]) for match in streams), default=0)
            for channel in sorted({match[1] for match in streams}):
                for cpu in range(last + 1, self._cpus or 0):
                    yield {
                        "host": host,
                        "trace": trace,
                        "stream": f"{channel}_{cpu}",
                        "cpu_id": cpu,
                        "kind": "missing_stream",
                        "count": None,
                        "begin_ns": None,
                        "end_ns": None,
                    }


_OF_CPU = re.compile(r"(.+)_(\d+)")
_NUMBER = re.compile(r"\d+")


def _by_kind(warnings: Iterable[str]) -> list[str]:
    """Keep one warning per kind; those of a kind differ in place (``PLACE: TEXT``) and numbers."""
    kinds: dict[str, list[str]] = {}
    for warning in warnings:
        text = warning.partition(": ")[2] or warning
        kinds.setdefault(_NUMBER.sub("#", text), []).append(warning)
    return [
        f"{first} (and {len(rest):,} more such)" if rest else first
        for first, *rest in kinds.values()
    ]


def open_trace(
    root: Path,
    *,
    clock_offsets: Mapping[str, int | Sequence[tuple[int, int]]] | None = None,
    cpus: int | None = None,
) -> Trace:
    """Find and open every CTF trace at or below `root`, as one time line.

    Reads all metadata and the headers of all packets; LTTng's index files help where headers are
    damaged. A packet that several snapshots of a session contain is read once.

    Parameters
    ----------
    root
        A folder such as ``ros2 trace`` writes, or `Recording.trace_root`.
    clock_offsets
        Nanoseconds to add to all times of a host, given by its name or label; or pairs of a
        time and the nanoseconds to add there, in order of time, interpolated linearly.
    cpus
        Number of CPUs of the machine, if LTTng recorded each of them into a file: nothing else
        shows that the last of these files are missing.

    Raises
    ------
    UsageError
        There is no trace, the metadata are unreadable (with line and column, or byte), no stream
        is readable, or a clock offset names an unknown host.
    """
    if not root.is_dir():
        refuse_bag(root)
        raise UsageError(
            f"{root}: not a folder; give a folder with a CTF trace, or an archive of one (for a "
            "result file of another tool: 'roslens report tool FILE')"
        )
    folders = find_traces(root)
    if not folders:
        refuse_bag(root)
        raise UsageError(
            f"{root}: no CTF trace here (no file named 'metadata' at or below it); give the "
            "folder that 'ros2 trace' or 'lttng' wrote"
        )
    traces = [(trace, shown(trace.relative_to(root).as_posix())) for trace in folders]
    added = {
        host: [(0, ns)] if isinstance(ns, int) else list(ns)
        for host, ns in (clock_offsets or {}).items()
    }
    with _errors(root):
        reader = _native.Reader(traces, added)
    return Trace(root, reader, cpus)


def _list(names: Iterable[str] | None) -> list[str] | None:
    return None if names is None else list(names)


@contextmanager
def _errors(root: Path) -> Iterator[None]:
    try:
        yield
    except _native.TraceError as error:
        text = str(error)
        raise UsageError(text if str(root) in text else f"{root}: {text}") from error
    except OSError as error:
        raise RunFailedError(str(error)) from error
