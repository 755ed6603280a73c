"""Run the pass over all events in order of time (crate ``collectors/model``), and its tables.

The pass is given the topics on which a process could publish.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from roslens.collectors import _native
from roslens.collectors.clocks import Clocks
from roslens.collectors.ros2.callbacks import callback_objects
from roslens.collectors.ros2.events import Events
from roslens.collectors.ros2.losses import is_kernel_loss, process_of_stream
from roslens.collectors.ros2.objects import Objects, find_objects
from roslens.collectors.ros2.processes import PID_NS
from roslens.collectors.ros2.services import halves
from roslens.collectors.ros2.types import NAME, TEXT
from roslens.collectors.schema.tables import LOSSES, TABLES
from roslens.collectors.topics import DISCOVERY, INTERNAL, ROSOUT
from roslens.recording.files import text_path

_CONTEXT = ("time_ns", "host", "vpid", "vtid", "cpu_id", PID_NS)
_STRETCH_NS = 2_000_000_000
Running: TypeAlias = tuple[tuple[str, int, int, int], int, int, bool]
"""An execution that has not ended: host, pid namespace, process and thread; start; the callback's
address; whether the message came within the process."""
EVENTS: Mapping[str, Sequence[str]] = _native.model_events()
"""The events of the pass, by name without the provider, and the columns that it reads."""


class Rows:
    """A table of the pass, made batch by batch on request."""

    def __init__(self, name: str, found: _native.Table, threads: int) -> None:
        self.name = name
        self._found = found
        self._threads = threads

    def frame(self, *columns: str) -> pl.DataFrame:
        """Return the given columns, or those of the table of this name, in memory."""
        return pl.DataFrame(self._found.select(list(columns or TABLES[self.name].schema)))

    def write(self, path: Path, about: Mapping[str, str]) -> int:
        """Write the columns of the table of this name; return the number of rows.

        `about` goes into the file's metadata.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        columns = list(TABLES[self.name].schema)
        return self._found.select(columns).write(path, self._threads, list(about.items()))


class Pass:
    """The pass: it takes events stretch by stretch, and makes the tables of all so far.

    Parameters
    ----------
    events
        The events, which give the processes and the names of recorded events.
    objects, callbacks
        Objects and callbacks of the recording, from `find_objects` and `callback_objects`.
    losses
        Events that the tracer dropped.
    synchronisation
        How the clocks of the hosts were synchronised, as the recording states.
    clocks
        Bounds of the errors between times on two hosts.
    threads
        Number of threads to read events and write tables; 0 for as many as polars has.
    memory
        With ``path``, only about ``rows`` rows of each kind stay in memory, and the others lie
        in that file; at least ``keys`` messages are kept that wait for a take.
    """

    def __init__(
        self,
        events: Events,
        objects: Objects,
        callbacks: pl.DataFrame,
        losses: pl.DataFrame,
        synchronisation: str | None = None,
        *,
        clocks: Clocks | None = None,
        threads: int = 0,
        **memory: Any,
    ) -> None:
        self._threads = threads or pl.thread_pool_size()
        given = {
            **objects.tables,
            "clients": objects.clients.with_columns(halves("gid")),
            "publisher_by_rmw": objects.publisher_by_rmw,
            "subscription_by_rmw": objects.subscription_by_rmw,
            "callbacks": callbacks,
        }
        self._pass = _native.Pass(
            {name: _without_categories(frame) for name, frame in given.items()},
            _about(events, objects, losses, clocks) | {"synchronisation": synchronisation},
            **memory,
        )

    def feed(self, batches: Mapping[str, pl.DataFrame | str]) -> None:
        """Process events, none earlier than those of previous calls.

        Parameters
        ----------
        batches
            Frames or paths of Parquet files, by name without the provider.
        """
        self._pass.feed(dict(batches), self._threads)

    def forget(self, since_ns: int) -> None:
        """Forget what began before a time, except activities of threads that have not ended."""
        self._pass.forget(since_ns)

    def running(self) -> list[Running]:
        """Return executions of callbacks that have not ended; the end of none can be missing."""
        return self._pass.running()

    def resume(self, running: Sequence[Running], until_ns: int) -> None:
        """Go on with what an earlier pass, which saw all events up to a time, saw begin.

        This comes before any event.
        """
        self._pass.resume(running, until_ns)

    def tables(self, *, last: bool = True) -> tuple[dict[str, Rows], Callable[[], dict[str, Any]]]:
        """Return tables of all events so far, and a function for counts; `last`: once only."""
        tables, counts = self._pass.tables(last)
        return {name: Rows(name, rows, self._threads) for name, rows in tables.items()}, counts


def executions(events: Events) -> pl.DataFrame:
    """Return executions of callbacks: callback (address), start_ns, end_ns, intra_process."""
    objects = find_objects(events)
    of_pass = Pass(events, objects, callback_objects(events, objects), LOSSES.empty())
    wanted = ("callback_start", "callback_end")
    for batches in batches_of(events):
        of_pass.feed({name: batches[name] for name in wanted if name in batches})
    rows, _ = of_pass.tables()
    frame = rows["callback_instances"].frame("start_ns", "end_ns", "intra_process")
    # Executions are numbered in order of time, and by thread at equal times.
    starts = events["callback_start"].sort("time_ns", "thread", maintain_order=True)
    return frame.hstack(starts.select("callback"))


def batches_of(
    events: Events, files: Mapping[str, Path] | None = None
) -> Iterator[dict[str, pl.DataFrame | str]]:
    """Yield all events of the pass, in stretches of time.

    Parameters
    ----------
    files
        Files of the events by name with the provider, to avoid holding the events in memory.
    """
    names = [name for name in EVENTS if events.has(name)]
    if not events.overlapping:
        paths = {
            name.removeprefix("ros2:"): text_path(path) for name, path in (files or {}).items()
        }
        yield {name: paths.get(name) or _columns(events, name) for name in names}
        return
    # The choice between two sessions' records of an event depends on events of its name around it.
    begin, end = (events.processes[name].to_list() for name in ("begin_ns", "end_ns"))
    for first in range(min(begin), max(end) + 1, _STRETCH_NS):
        yield {name: events.within(name, first, first + _STRETCH_NS) for name in names}


def columns_of(name: str, there: Collection[str]) -> list[str]:
    """Return the columns of an event that the pass reads; none for an event it does not read."""
    wanted = (*_CONTEXT, *EVENTS[name]) if name in EVENTS else ()
    return list(dict.fromkeys(column for column in wanted if column in there))


def _columns(events: Events, name: str) -> pl.DataFrame:
    frame = events.scan(name)
    assert frame is not None
    return frame.select(columns_of(name, frame.collect_schema())).collect()


def _without_categories(frame: pl.DataFrame) -> pl.DataFrame:
    lists = [name for name, kind in frame.schema.items() if isinstance(kind, pl.List)]
    return frame.drop(lists).with_columns(pl.col(NAME).cast(TEXT)).rechunk()


def _about(
    events: Events, objects: Objects, losses: pl.DataFrame, clocks: Clocks | None
) -> dict[str, Any]:
    processes = events.processes
    gaps = losses.filter(~is_kernel_loss() & pl.col("host").is_not_null())
    # A host may have lost all of its events.
    hosts = pl.concat([processes["host"], gaps["host"]]).unique().sort().to_list()
    number = {host: place for place, host in enumerate(hosts)}
    since = [
        sorted(
            b.time_ns
            for b in events.found.boundaries
            if (b.host, b.pid_ns, b.vpid) == (host, namespace, vpid)
        )
        for host, namespace, vpid in processes.select("host", "pid_ns", "vpid").iter_rows()
    ]
    columns = ("host", "pid_ns", "vpid", "part", "end_ns")
    rows = zip(processes.select(columns).iter_rows(), since, strict=True)
    return {
        "hosts": hosts,
        "processes": [
            (number[host], namespace, vpid, times[part - 1] if part else -(2**63), end)
            for (host, namespace, vpid, part, end), times in rows
        ],
        # If rcl_publish was enabled, no topic is guessed.
        "guesses": []
        if events.declared("rcl_publish")
        else single_topic_processes(objects.publishers),
        "losses": [
            (number[host], *where, begin, end)
            for host, *where, begin, end in gaps.select(
                "host",
                process_of_stream(),
                "cpu_id",
                pl.col("begin_ns").fill_null(-(2**63)),
                pl.col("end_ns").fill_null(2**63 - 1),
            ).iter_rows()
        ],
        "clocks": [
            (number[host], number[peer], points)
            for host, peer, points in (clocks.bounds if clocks else ())
            if host in number and peer in number
        ],
        "declared": [name for name in EVENTS if events.declared(name)],
        "happened": [name for name in EVENTS if events.has(name)],
    }


def single_topic_processes(
    publishers: pl.DataFrame,
) -> list[tuple[int, int, str | None, int | None]]:
    """Return since when a process could publish on only one topic, which is then guessed.

    Each row is the process, the time, and from then on the topic and the publisher; None where
    there are several. rosout never goes through rclcpp; a process publishes on /parameter_events
    while its nodes start, so that topic counts only while there is no other.
    """
    # What a process can publish changes only when it makes a publisher.
    made: dict[int, tuple[dict[str, list[int]], dict[str, list[int]]]] = {}
    guesses = {}
    columns = publishers.select("proc", "created_ns", "topic", "publisher_id").sort("created_ns")
    for proc, since, topic, publisher in columns.iter_rows():
        if topic in (None, ROSOUT, DISCOVERY):
            continue
        internal, own = made.setdefault(proc, ({}, {}))
        (internal if topic in INTERNAL else own).setdefault(topic, []).append(publisher)
        topics = own or internal
        only, ids = next(iter(topics.items())) if len(topics) == 1 else (None, [])
        guesses[proc, since] = (only, ids[0] if len(ids) == 1 else None)
    return [(*key, *guess) for key, guess in guesses.items()]
