"""``rl.open(path)``: lazy frames of every table over all the runs found."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from roslens.analysis.interop.tracetools_model import ros2_data_model, tracetools_frames
from roslens.analysis.measures.bag import BagBeside, join_bag
from roslens.analysis.measures.loss import TracerLoss, tracer_loss
from roslens.analysis.overview.runs_and_topics import runs_overview
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.analysis.runs import Run, runs_of
from roslens.collectors.bag import bag_beside, read_bag
from roslens.collectors.excerpt import excerpt_of
from roslens.collectors.resources import scan_samples
from roslens.collectors.results.irobot import find_irobot, read_irobot
from roslens.collectors.results.logged_messages import FILE_NAME as LOG_OF_MESSAGES
from roslens.collectors.results.logged_messages import SCHEMA as LOGGED_MESSAGE
from roslens.collectors.results.logged_messages import read_logged_messages
from roslens.collectors.results.tool_result import ToolResult
from roslens.collectors.schema import (
    ALLOCATION_SITES,
    RESOURCES,
    SAMPLED,
    SYSTEM,
    TABLES,
    THREADS,
    Table,
)
from roslens.collectors.views import Names, View, Window, check_window, matching
from roslens.collectors.work_log import WorkLog, read_work_log
from roslens.copies import without_copies
from roslens.factors import Factors
from roslens.tracing.opening import opened
from roslens.tracing.recording import Recording, UsageError, find_recordings
from roslens.tracing.recording.files import shipped, text_path
from roslens.tracing.recording.manifest import Level
from roslens.tracing.ros.cache import cache_folder

if TYPE_CHECKING:
    from roslens.explore.callbacks import Callbacks
    from roslens.explore.chains import Chains
    from roslens.explore.communication import Communication
    from roslens.explore.comparing import Comparison
    from roslens.explore.executors import Executors
    from roslens.explore.latency import Latency
    from roslens.explore.loss import Loss
    from roslens.explore.memory import Memory

# What nouns compute and draw with is imported when one is asked for.
# ruff: noqa: PLC0415

PathLike = str | os.PathLike[str]
_MOST_SHOWN = 20
Progress = Callable[[int, int, Recording], None]
"""Called before each recording is collected: how many are done, of how many, which is next."""


def open(  # noqa: A001  (reads well as rl.open)
    paths: PathLike | Iterable[PathLike],
    *,
    factors: PathLike | None = None,
    collect: bool = True,
    progress: Progress | None = None,
) -> Recordings:
    """Open recordings: their tables over all runs, made where they are missing.

    Parameters
    ----------
    paths
        A recording, a folder that holds some, an archive of one (``roslens pack`` wrote it, or
        tar.gz, tar.xz, tar.zst, zip; unpacked into the user's cache, once), or several of these.
        What does not exist relative to the working directory is looked for from its parents, then
        among the data that ship with roslens.
    factors
        A CSV file that tells factors and repetition of recordings without a manifest, by path
        or name (see `roslens.factors`). A folder of bare traces then is as many recordings as
        have a row.
    collect
        Make the tables where they are missing or out of date. Recordings in a place that cannot
        be written to are collected into the user's cache.

    Raises
    ------
    UsageError
        A path does not exist or holds no recording, a trace cannot be read, or the factors do
        not fit the recordings.
    """
    given = list(paths) if isinstance(paths, Iterable) and not isinstance(paths, str) else [paths]
    if not given or "" in given:
        raise UsageError("no recording given; give the folder of one")
    for path in (*given, factors or ""):
        if not isinstance(path, (str, os.PathLike)):
            raise UsageError(f"{path!r} is no path of a recording or of factors")
    told = Factors.read(resolve(factors)) if factors else None
    places = [opened(resolve(path)) for path in given]
    found: dict[Path, Recording] = {}
    for place in places:
        for recording in find_recordings(place) if told is None else told.recordings(place):
            found.setdefault(
                recording.path.resolve(), _writable(recording) if collect else recording
            )
    recordings, copies = without_copies(list(found.values()))
    runs = runs_of(recordings, None if told is None else told.of(recordings, places))
    if collect:
        _collect(recordings, progress)
    return Recordings(recordings, runs, copies=copies)


# For modules in which `open` would hide the built-in.
open_recordings = open


def resolve(path: PathLike) -> Path:
    """`path`, or where it is found from a parent of the working directory or as shipped data."""
    wanted = Path(path).expanduser()
    if wanted.is_absolute() or wanted.exists():
        return wanted
    here = Path.cwd()
    for base in (*here.parents, shipped()):
        if (base / wanted).exists():
            return base / wanted
    return wanted


def _writable(recording: Recording) -> Recording:
    if recording.is_excerpt:
        return recording
    parent = recording.output if recording.output.exists() else recording.path
    if os.access(parent, os.W_OK):
        return recording
    where = hashlib.sha256(os.fsencode(recording.path.resolve())).hexdigest()[:16]
    return Recording.at(recording.path, cache_folder() / where)


def _collect(recordings: Sequence[Recording], progress: Progress | None) -> None:
    from roslens.collectors.collection import collect  # loads the native reader

    for index, recording in enumerate(recordings):
        if progress is not None:
            progress(index, len(recordings), recording)
        collect(recording)


class Recordings:
    """Runs, what can be asked of them, and their tables.

    ``latency``, ``callbacks``, ``chains``, ``executors``, ``memory`` and ``loss`` give frames and
    pictures, ``compare`` and ``check`` verdicts; `view` and `only` choose a part.

    Every table of the schema is an attribute, a lazy frame over all runs: ``run`` (name of the
    run) and one column per factor come first (``factor_<name>`` where the table has a column of
    that name), null for a run without it. A run that lacks a table has no rows in it.
    ``help(rl.Recordings.messages)`` says what the columns of a table mean. ``len`` is the number
    of runs, and iteration gives each run by itself.

    >>> recordings = rl.open("data/samples")
    >>> recordings.messages.filter(pl.col("outcome") == "lost").collect()
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        runs: Sequence[Run],
        views: Sequence[View] = (),
        *,
        copies: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        self.recordings = list(recordings)
        self.runs = list(runs)
        self.views = tuple(views)
        self.copies = dict(copies or {})

    def only(self, *names: str) -> Recordings:
        """The runs of these names.

        Raises
        ------
        UsageError
            There is no run of a name.
        """
        known = {run.name: index for index, run in enumerate(self.runs)}
        unknown = sorted(set(names) - known.keys())
        if unknown:
            raise UsageError(f"no run {unknown[0]!r}; there are {', '.join(known)}")
        places = [known[name] for name in names]
        chosen = [self.recordings[i] for i in places], [self.runs[i] for i in places]
        return Recordings(*chosen, self.views)

    def with_runs(self, runs: Sequence[Run]) -> Recordings:
        """The same recordings told of in other words: one run for each, as in `runs`."""
        return Recordings(self.recordings, runs, self.views, copies=self.copies)

    def view(
        self,
        *,
        window: Window | None = None,
        window_ns: tuple[int | None, int | None] | None = None,
        warm_up: float = 0.0,
        processes: Names | None = None,
        nodes: Names | None = None,
        topics: Names | None = None,
    ) -> Recordings:
        """The same runs with part of each: every table is cut, lazily, when it is read.

        A row counts whole by the moment at which it begins (a message by its publication); states
        and intervals count if they touch the window. Objects are not cut by time, and `health`
        and `losses` not at all. A message counts if either end is among the nodes or processes.
        Tables without topics are not cut by topic, nor are timers' and services' callbacks.

        >>> recordings.view(warm_up=2, nodes="/camera*").messages.collect()

        Parameters
        ----------
        window
            From and to, in seconds after each run's first event; None for an open end.
        window_ns
            From and to, in ns since the epoch.
        warm_up
            Seconds to leave out at the begin of each run.
        processes
            Names, as in `processes`, or numbers as text; patterns with ``*`` and ``?``.
        nodes, topics
            Full names, or patterns.

        Raises
        ------
        UsageError
            A name fits nothing, a window ends before it begins or touches no run.
        """
        begin, end = window or (None, None)
        if warm_up:
            begin = max(warm_up, begin or 0.0)
        check_window(begin, end)
        check_window(*(window_ns or (None, None)))
        chosen, nodes_there = self._processes(processes)
        view = View(
            window_s=None if begin is None and end is None else (begin, end),
            window_ns=window_ns,
            processes=chosen,
            process_nodes=nodes_there,
            nodes=None if nodes is None else matching(nodes, self.names("node", "nodes"), "node"),
            topics=None
            if topics is None
            else matching(topics, self.names("topic", "publishers", "subscriptions"), "topic"),
        )
        views = [*self.views, view]
        seen = Recordings(self.recordings, self.runs, views, copies=self.copies)
        seen._check_windows()
        return seen

    def names(self, column: str, *tables: str) -> set[str]:
        """Each text that stands in a column of tables, such as ``topic`` of ``publishers``."""
        frames = [self.table(name).select(column).unique() for name in tables]
        return {name for frame in pl.collect_all(frames) for name in frame[column].drop_nulls()}

    def _processes(
        self, names: Names | None
    ) -> tuple[dict[str, frozenset[tuple[str, int]]] | None, dict[str, frozenset[str]] | None]:
        if names is None:
            return None, None
        there = self.table("processes").select("run", "host", "vpid", "procname").collect()
        found = matching(
            names, {*there["procname"].drop_nulls(), *map(str, there["vpid"])}, "process"
        )
        named = pl.col("procname").is_in(sorted(found)).fill_null(value=False)
        chosen = there.filter(named | pl.col("vpid").cast(pl.String).is_in(sorted(found)))
        own = self.table("nodes").select("run", "host", "vpid", "node").drop_nulls().collect()
        own = own.join(chosen, on=["run", "host", "vpid"], how="semi")
        processes: dict[str, set[tuple[str, int]]] = {}
        for run, host, vpid in chosen.select("run", "host", "vpid").iter_rows():
            processes.setdefault(run, set()).add((host, vpid))
        nodes: dict[str, set[str]] = {}
        for run, node in own.select("run", "node").iter_rows():
            nodes.setdefault(run, set()).add(node)
        return (
            {run: frozenset(x) for run, x in processes.items()},
            {run: frozenset(x) for run, x in nodes.items()},
        )

    @cached_property
    def _spans(self) -> dict[str, tuple[int, int]]:
        """First and last event of each run of which something was recorded."""
        whole = Recordings(self.recordings, self.runs) if self.views else self
        spans = (
            whole.table("processes")
            .group_by("run")
            .agg(pl.col("begin_ns").min(), pl.col("end_ns").max())
            .drop_nulls()
            .collect()
        )
        return {run: (begin, end) for run, begin, end in spans.iter_rows()}

    def _check_windows(self) -> None:
        windows = [view for view in self.views if view.has_window]
        if not windows or not self._spans:
            return
        for begin_ns, end_ns in self._spans.values():
            cut = [view.window_of(begin_ns) for view in windows]
            begin = max((b for b, _ in cut if b is not None), default=begin_ns)
            end = min((e for _, e in cut if e is not None), default=end_ns + 1)
            if begin <= end_ns and end > begin_ns and begin < end:
                return
        longest = max(end - begin for begin, end in self._spans.values())
        first = min(begin for begin, _ in self._spans.values())
        raise UsageError(
            f"the window touches no run: the longest takes {longest / 1e9:.3f} s, "
            f"the first begins at {first} ns"
        )

    def copies_told(self) -> list[str]:
        """A sentence for each recording of which others were copies."""
        return [
            f"{_count(len(places), 'recording')} left out as copies of {original}: "
            + ", ".join(map(str, places[:3]))
            + (f" and {len(places) - 3} more" if len(places) > 3 else "")
            for original, places in self.copies.items()
        ]

    def without_ros_events(self) -> str | None:
        """Why there is nothing of ROS 2 in any of the runs; None where there is."""
        findings = self.table("health").filter(pl.col("kind") == "no_ros_events").collect()
        if findings["run"].n_unique() < len(self.runs):
            return None
        why = next((run.failure for run in self.runs if run.failure), findings["what"][0])
        return f"nothing to report of {_count(len(self.runs), 'run')}: {why}"

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Recordings]:
        for recording, run in zip(self.recordings, self.runs, strict=True):
            yield Recordings([recording], [run], self.views)

    def __getattr__(self, name: str) -> pl.LazyFrame:
        # Tables are properties, see below.
        raise AttributeError(f"no table {name!r}; there are {', '.join(TABLES)} and resources")

    def table(self, name: str) -> pl.LazyFrame:
        """A table of all runs.

        Raises
        ------
        UsageError
            There is no such table.
        """
        if name not in TABLES:
            raise UsageError(f"no table {name!r}; there are {', '.join(TABLES)}")
        return self._all(TABLES[name], [r.tables / f"{name}.parquet" for r in self.recordings])

    def kernel_events(self, run: str, *, cut: bool = False) -> dict[str, pl.LazyFrame]:
        """The kernel's events of a run as they were recorded, by name; none without a kernel trace.

        Parameters
        ----------
        run
            Its name.
        cut
            Only those within the windows of views, which else do not apply.

        Raises
        ------
        UsageError
            There is no such run.
        """
        (recording,) = self.only(run).recordings
        paths = sorted((recording.events / "kernel").glob("*.parquet"))
        found = {path.stem: pl.scan_parquet(text_path(path), glob=False) for path in paths}
        for view in self.views if cut else ():
            begin, end = view.window_of(self._spans.get(run, (None, None))[0])
            since = pl.lit(value=True) if begin is None else pl.col("time_ns") >= begin
            until = pl.lit(value=True) if end is None else pl.col("time_ns") < end
            found = {name: frame.filter(since, until) for name, frame in found.items()}
        return found

    def to_tracetools_data_model(self) -> Any:
        """The one run's raw events as frames of tracetools_analysis' ``Ros2DataModel``.

        Returns
        -------
        Ros2DataModel or analysis.interop.tracetools_model.TracetoolsDataModel
            The class itself where tracetools_analysis can be imported, else an object with the
            same frames (pandas). Views do not apply.

        Raises
        ------
        UsageError
            These are several runs (addresses of one mean nothing in another), or it was not
            collected.
        """
        if len(self.recordings) != 1:
            raise UsageError(
                f"a tracetools data model is of one run, and these are {len(self.recordings)}: "
                "open one of them"
            )
        return ros2_data_model(tracetools_frames(self.raw_events(self.runs[0].name)))

    def raw_events(self, run: str) -> dict[str, pl.LazyFrame]:
        """All events of a run by name (``ros2:rmw_take``), as they were recorded.

        Raises
        ------
        UsageError
            There is no such run, or it was not collected.
        """
        (recording,) = self.only(run).recordings
        events = recording.events
        raw = {
            f"{path.parent.name}:{path.stem}": pl.scan_parquet(text_path(path), glob=False)
            for path in sorted(events.glob("*/*.parquet"))
        }
        if not raw:
            raise UsageError(f"{events}: no events; run 'roslens collect' first")
        return raw

    @cached_property
    def latency(self) -> Latency:
        """How late messages are: ``frame``, ``estimates``, ``ecdf``, ``heat``, ``over_time`` ..."""
        from roslens.explore.latency import Latency

        return Latency(self)

    @cached_property
    def callbacks(self) -> Callbacks:
        """How long callbacks took: ``frame``, ``summary``, ``estimates``, ``durations``, ..."""
        from roslens.explore.callbacks import Callbacks

        return Callbacks(self)

    @cached_property
    def chains(self) -> Chains:
        """From sensor to actuator: ``frame``, ``parts``, ``estimates``, ``waterfall``, ..."""
        from roslens.explore.chains import Chains

        return Chains(self)

    @cached_property
    def executors(self) -> Executors:
        """How executors spend their time: ``frame``, ``estimates``, ``pairs``, ``grid``, ..."""
        from roslens.explore.executors import Executors

        return Executors(self)

    @cached_property
    def memory(self) -> Memory:
        """What processes used, and whether it climbs: ``frame``, ``leaks``, ``over_time``, ..."""
        from roslens.explore.memory import Memory

        return Memory(self)

    @cached_property
    def loss(self) -> Loss:
        """What was lost, by the tracer and on the way: ``frame``, ``tracer``, ``estimates``, ..."""
        from roslens.explore.loss import Loss

        return Loss(self)

    @cached_property
    def communication(self) -> Communication:
        """Ways of communication compared: ``frame``, ``estimates``, ``periods``, ``backlog`` ..."""
        from roslens.explore.communication import Communication

        return Communication(self)

    def compare(
        self, new: Recordings | PathLike, *, metrics: Sequence[str] = (), threshold: float = 0.05
    ) -> Comparison:
        """These runs as the base, held against others: ``frame``, ``intervals``, ``sentences``.

        Parameters
        ----------
        new
            Recordings that are open, or the path of some or of a metrics.json.
        metrics
            By name, such as ``latency_p99``; none: latency, loss and CPU.
        threshold
            Relative changes up to this (0..1) are of no importance.

        Raises
        ------
        UsageError
            There is nothing to read, no such metric, or the threshold is not between 0 and 1.
        """
        from roslens.explore.comparing import compared

        other = new if isinstance(new, Recordings) else Path(new)
        return compared(self, other, metrics, threshold)

    def check(self, budgets: PathLike) -> pl.DataFrame:
        """Hold budgets (a YAML file, as of ``roslens check``) against these runs.

        Returns
        -------
        One row per budget and cell: ``verdict`` (within, exceeded, not_enough_evidence),
        ``budget``, ``cell``, ``value``, ``low``, ``high``, ``limit`` (in ``unit``), ``unit``,
        ``runs``, ``notes``.

        Raises
        ------
        UsageError
            The file cannot be read, or a unit does not fit its metric.
        """
        from roslens.explore.comparing import checked

        return checked(self, resolve(budgets))

    @property
    def resources(self) -> pl.LazyFrame:
        """What processes used while they ran, of the runs that were sampled."""
        return self._sampled(RESOURCES)

    @cached_property
    def logged_messages(self) -> pl.DataFrame:
        """What programs logged of their own messages (``native/messages.csv``), with ``run``."""
        frames = [pl.DataFrame(schema={"run": pl.String, **dict(LOGGED_MESSAGE)})]
        for recording, run in zip(self.recordings, self.runs, strict=True):
            path = recording.native / LOG_OF_MESSAGES
            if path.is_file() and (log := read_logged_messages(path)) is not None:
                frames.append(log.select(pl.lit(run.name).alias("run"), *LOGGED_MESSAGE))
        return pl.concat(frames)

    @cached_property
    def work_logs(self) -> dict[str, WorkLog]:
        """Requests or goals that workloads logged, by name of the run."""
        pairs = zip(self.recordings, self.runs, strict=True)
        logs = ((run.name, read_work_log(recording.native)) for recording, run in pairs)
        return {name: log for name, log in logs if log is not None}

    @property
    def threads(self) -> pl.LazyFrame:
        """What threads used while they ran, of the runs in which they were sampled."""
        return self._sampled(THREADS)

    @property
    def system(self) -> pl.LazyFrame:
        """What the machine did, of the runs in which it was sampled."""
        return self._sampled(SYSTEM)

    @property
    def allocation_sites(self) -> pl.LazyFrame:
        """What call paths held in memory, of the runs in which that was recorded."""
        return self._sampled(ALLOCATION_SITES)

    @cached_property
    def tool_results(self) -> dict[str, ToolResult | UsageError]:
        """What benchmark tools wrote about runs beside their traces, by name of the run.

        An error where that cannot be read: it says nothing against the trace.
        """
        found: dict[str, ToolResult | UsageError] = {}
        for recording, run in zip(self.recordings, self.runs, strict=True):
            folder = find_irobot(recording.path)
            if folder is not None:
                try:
                    found[run.name] = read_irobot(folder)
                except UsageError as error:
                    found[run.name] = error
        return found

    def bag(self, path: PathLike | None = None) -> BagBeside:
        """The bag that was recorded beside the one run, joined with what the trace knows of it.

        ``messages`` has each message of the bag with its type, size [B], ``header.stamp``, and the
        callbacks that got it with the age of the data [ns]; ``topics`` what the recorder missed.
        Printed, it is one line.

        Parameters
        ----------
        path
            The bag's file or folder; none: what lies in the run's folder.

        Raises
        ------
        UsageError
            These are several runs, there is no bag, or it cannot be read.
        """
        if len(self.recordings) != 1:
            raise UsageError(
                f"a bag belongs to one run, and these are {len(self.recordings)}: take one of them"
            )
        folder = self.recordings[0].path
        place = bag_beside(folder) if path is None else resolve(path)
        if place is None:
            raise UsageError(f"{folder}: no bag lies there; give the path of one")
        return join_bag(place.name, read_bag(place), self)

    def bags(self, path: PathLike = "") -> dict[str, BagBeside | UsageError]:
        """The bags of runs, by name of the run; an error where the one beside it is no good.

        Parameters
        ----------
        path
            Of the one run's bag; empty: what lies in the runs' folders.

        Raises
        ------
        UsageError
            As `bag`, of a path that was given.
        """
        if path:
            return {self.runs[0].name: self.bag(path)}
        found: dict[str, BagBeside | UsageError] = {}
        for run in self:
            name, folder = run.runs[0].name, run.recordings[0].path
            if bag_beside(folder) is not None:
                try:
                    found[name] = run.bag()
                except UsageError as error:
                    found[name] = error
        return found

    @property
    def without_resources(self) -> list[Run]:
        """Runs of which CPU and memory were not recorded."""
        pairs = zip(self.recordings, self.runs, strict=True)
        return [run for recording, run in pairs if "resources" not in recording.samples]

    @cached_property
    def tracer_loss(self) -> list[TracerLoss]:
        """What the tracer dropped in each run."""
        return tracer_loss(self.table("losses"), self.runs)

    def _sampled(self, table: Table) -> pl.LazyFrame:
        return self._all(table, [r.samples.get(table.name) for r in self.recordings])

    def _all(self, table: Table, files: Sequence[Path | None]) -> pl.LazyFrame:
        factors = self._factors(table)
        origins = self._spans if any(view.has_window for view in self.views) else {}
        frames = [
            self._cut(
                scan_samples(table, file)
                if table in SAMPLED  # small, and written by whoever recorded it
                else pl.scan_parquet(text_path(file), glob=False),
                table,
                run,
                origins,
            ).select(
                pl.lit(run.name).alias("run"),
                *(_level(run, *factor) for factor in factors),
                *(pl.col(column.name) for column in table.columns),
            )
            for run, file in zip(self.runs, files, strict=True)
            if file is not None and file.is_file()
        ]
        if not frames:
            none = [pl.lit(None, dtype=kind).alias(column) for _, column, kind in factors]
            run = pl.lit(None, dtype=pl.String).alias("run")
            return table.empty().lazy().select(run, *none, pl.all())
        return pl.concat(frames)

    def _cut(
        self,
        frame: pl.LazyFrame,
        table: Table,
        run: Run,
        spans: Mapping[str, tuple[int, int]],
    ) -> pl.LazyFrame:
        origin = spans[run.name][0] if run.name in spans else None
        filters = [x for view in self.views for x in view.filters(table, run.name, origin)]
        return frame.filter(*filters) if filters else frame

    def _factors(self, table: Table) -> list[tuple[str, str, pl.DataType]]:
        """Name, column and type of each factor beside the columns of `table`."""
        taken = {"run", *(column.name for column in table.columns)}
        levels: dict[str, list[Level]] = {}
        for run in self.runs:
            for name, level in run.cell.items():
                levels.setdefault(name, []).append(level)
        return [
            (name, f"factor_{name}" if name in taken else name, _common_type(found))
            for name, found in levels.items()
        ]

    def _told(self) -> Iterator[tuple[str, bool]]:
        """What was recorded, in lines, and whether each is a warning."""
        events = int(self.table("processes").select(pl.col("events").sum()).collect().item() or 0)
        lost = [loss for loss in self.tracer_loss if loss.any]
        cells = len({run.label for run in self.runs})
        found = f"{_count(len(self.runs), 'run')} in {_count(cells, 'cell')}, {events:,} events"
        if self.views:
            found += f" (part of each: {_count(len(self.views), 'view')})"
        yield found, False
        named = ", ".join(f"{x.run.name} ({x.text})" for x in lost[:5])
        loss = f"THE TRACER LOST EVENTS in {_count(len(lost), 'run')}: {named}"
        yield (loss, True) if lost else ("the tracer lost nothing", False)
        if self._spans and not self.views:
            seconds = sorted((end - begin) / 1e9 for begin, end in self._spans.values())
            apart = f"{seconds[0]:.1f} to " if len(seconds) > 1 else ""
            yield f"recorded for {apart}{seconds[-1]:.1f} s{' each' * bool(apart)}", False
        topics = self.names("topic", "publishers", "subscriptions")
        for what, there in (("topics", topics), ("nodes", self.names("node", "nodes"))):
            if there:
                more = f" and {len(there) - 5} more" if len(there) > 5 else ""
                yield f"{what}: {', '.join(sorted(there)[:5])}{more}", False
        for text in self.copies_told():
            yield text, False
        parts = [about["text"] for r in self.recordings if (about := excerpt_of(r)) is not None]
        for text in parts[:5]:
            yield f"only part of {text}", True
        if len(parts) > 5:
            yield f"and {len(parts) - 5} more are parts only", True
        problems = [run.name for run in self.runs if not run.complete]
        if problems:
            yield f"{len(problems)} not complete: {', '.join(problems[:5])}", True

    def __repr__(self) -> str:
        return "\n".join(text for text, _ in self._told())

    def _repr_html_(self) -> str:
        told = [Sentence(text, loud) for text, loud in self._told()]
        found = runs_overview(
            self.tracer_loss, self.table("processes"), self.table("messages"), self.table("health")
        )
        shown = ("run", "cell", "status", "seconds", "events", "discarded", "messages", "lost")
        rows = [
            [f"{x:,.1f}" if isinstance(x, float) else "-" if x is None else str(x) for x in row]
            for row in found.select(shown).head(_MOST_SHOWN).iter_rows()
        ]
        hidden = found.height - len(rows)
        table = ReportTable(
            shown,
            rows,
            "Runs: seconds recorded, events discarded by the tracer, messages that did not arrive",
            notes=[f"{hidden:,} more are not shown."] if hidden else [],
            left=frozenset(("run", "cell", "status")),
        )
        parts: list[Sentence | ReportTable] = [*told, table]
        return "\n".join(part._repr_html_() for part in parts)


def _meaning(table: Table) -> str:
    """What a table and its columns hold, for ``help``."""
    columns = (f"{c.name} [{c.unit}]" if c.unit else c.name for c in table.columns)
    lines = (f"{n}\n    {c.meaning}" for n, c in zip(columns, table.columns, strict=True))
    return f"A row is {table.row}.\n\n" + "\n".join(lines)


for _table in TABLES.values():
    # `callbacks` is what they did; which there are is `table("callbacks")`.
    if _table.name not in vars(Recordings):
        _frame = partial(Recordings.table, name=_table.name)
        setattr(Recordings, _table.name, property(_frame, doc=_meaning(_table)))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _level(run: Run, name: str, column: str, kind: pl.DataType) -> pl.Expr:
    level = run.cell.get(name)
    value = str(level) if kind == pl.String() and level is not None else level
    return pl.lit(value, dtype=kind).alias(column)


def _common_type(levels: Sequence[Level]) -> pl.DataType:
    if all(isinstance(level, bool) for level in levels):
        return pl.Boolean()
    if any(isinstance(level, (bool, str)) for level in levels):
        return pl.String()
    return pl.Int64() if all(isinstance(level, int) for level in levels) else pl.Float64()
