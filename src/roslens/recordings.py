"""``rl.open(path)``: lazy frames of every table over all the runs found."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import polars as pl

from roslens.analysis.interop.tracetools_model import ros2_data_model, tracetools_frames
from roslens.analysis.measures.loss import TracerLoss, tracer_loss
from roslens.analysis.runs import Run, runs_of
from roslens.collectors.excerpt import excerpt_of
from roslens.collectors.resources import scan_samples
from roslens.collectors.results.irobot import find_irobot, read_irobot
from roslens.collectors.results.logged_messages import FILE_NAME as LOG_OF_MESSAGES
from roslens.collectors.results.logged_messages import SCHEMA as LOGGED_MESSAGE
from roslens.collectors.results.logged_messages import read_logged_messages
from roslens.collectors.results.tool_result import ToolResult
from roslens.collectors.schema import RESOURCES, SYSTEM, TABLES, THREADS, Table
from roslens.collectors.views import Names, View, Window, check_window, matching
from roslens.collectors.work_log import WorkLog, read_work_log
from roslens.copies import without_copies
from roslens.factors import Factors
from roslens.tracing.recording import Recording, UsageError, find_recordings
from roslens.tracing.recording.files import shipped, text_path
from roslens.tracing.recording.manifest import Level
from roslens.tracing.ros.cache import cache_folder, private_folder
from roslens.tracing.unpacking import SUFFIXES, bare_name, unpack

PathLike = str | os.PathLike[str]
# Written beside a run by whoever recorded it, and small; our own tables are read where asked.
_SAMPLES = (RESOURCES, THREADS, SYSTEM)
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
        A recording, a folder that holds some, an archive that ``roslens pack`` wrote (unpacked
        into the user's cache, once), or several of these. What does not exist relative to the
        working directory is looked for from its parents, then among the data that ship with
        roslens.
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
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise UsageError("no recording given; give the folder of one")
    told = Factors.read(resolve(factors)) if factors else None
    places = [_unpacked(resolve(path)) for path in given]
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


def _unpacked(path: Path) -> Path:
    """`path`, or the folder into which the archive at `path` is unpacked."""
    if not (path.is_file() and path.name.endswith(SUFFIXES)):
        return path
    about = path.stat()
    mark = f"{path.resolve()} {about.st_size} {about.st_mtime_ns}"
    parent = cache_folder() / "unpacked"
    folder = parent / hashlib.sha256(os.fsencode(mark)).hexdigest()[:16] / bare_name(path)
    if not folder.is_dir():
        private_folder(parent)
        # In a place of its own first: another process may be at the same archive.
        with tempfile.TemporaryDirectory(dir=parent) as own:
            unpack(path, Path(own) / "content")
            folder.parent.mkdir(exist_ok=True)
            with suppress(OSError):
                (Path(own) / "content").rename(folder)
    return folder


def _writable(recording: Recording) -> Recording:
    if recording.is_excerpt:
        return recording
    parent = recording.output if recording.output.exists() else recording.path
    if os.access(parent, os.W_OK):
        return recording
    where = hashlib.sha256(os.fsencode(recording.path.resolve())).hexdigest()[:16]
    return Recording.at(recording.path, cache_folder() / where)


def _collect(recordings: Sequence[Recording], progress: Progress | None) -> None:
    from roslens.collectors.collection import collect  # noqa: PLC0415  (loads the native reader)

    for index, recording in enumerate(recordings):
        if progress is not None:
            progress(index, len(recordings), recording)
        collect(recording)


class Recordings:
    """Runs and their tables.

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
            nodes=None if nodes is None else matching(nodes, self._names("node", "nodes"), "node"),
            topics=None
            if topics is None
            else matching(topics, self._names("topic", "publishers", "subscriptions"), "topic"),
        )
        views = [*self.views, view]
        seen = Recordings(self.recordings, self.runs, views, copies=self.copies)
        seen._check_windows()
        return seen

    def _names(self, column: str, *tables: str) -> set[str]:
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
        events = self.recordings[0].events
        raw = {
            f"{path.parent.name}:{path.stem}": pl.scan_parquet(text_path(path), glob=False)
            for path in sorted(events.glob("*/*.parquet"))
        }
        if not raw:
            raise UsageError(f"{events}: no events; run 'roslens collect' first")
        return ros2_data_model(tracetools_frames(raw))

    @property
    def resources(self) -> pl.LazyFrame:
        """What processes used while they ran, of the runs that were sampled."""
        return self._all(RESOURCES, [r.resources for r in self.recordings])

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
        return self._all(THREADS, [r.threads for r in self.recordings])

    @property
    def system(self) -> pl.LazyFrame:
        """What the machine did, of the runs in which it was sampled."""
        return self._all(SYSTEM, [r.system for r in self.recordings])

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

    @property
    def without_resources(self) -> list[Run]:
        """Runs of which CPU and memory were not recorded."""
        pairs = zip(self.recordings, self.runs, strict=True)
        return [run for recording, run in pairs if not recording.resources.is_file()]

    @cached_property
    def tracer_loss(self) -> list[TracerLoss]:
        """What the tracer dropped in each run."""
        return tracer_loss(self.table("losses"), self.runs)

    def _all(self, table: Table, files: Sequence[Path]) -> pl.LazyFrame:
        factors = self._factors(table)
        origins = self._spans if any(view.has_window for view in self.views) else {}
        frames = [
            self._cut(
                scan_samples(table, file)
                if table in _SAMPLES
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
            if file.is_file()
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

    def __repr__(self) -> str:
        events = int(self.table("processes").select(pl.col("events").sum()).collect().item() or 0)
        lost = [loss for loss in self.tracer_loss if loss.any]
        cells = len({run.label for run in self.runs})
        problems = [run for run in self.runs if not run.complete]
        found = f"{_count(len(self.runs), 'run')} in {_count(cells, 'cell')}, {events:,} events"
        named = ", ".join(f"{x.run.name} ({x.discarded_events:,} discarded)" for x in lost[:5])
        loss = f"THE TRACER LOST EVENTS in {_count(len(lost), 'run')}: {named}"
        if self.views:
            found += f" (part of each: {_count(len(self.views), 'view')})"
        lines = [found, loss if lost else "the tracer lost nothing"]
        if self._spans and not self.views:
            seconds = sorted((end - begin) / 1e9 for begin, end in self._spans.values())
            apart = f"{seconds[0]:.1f} to " if len(seconds) > 1 else ""
            lines.append(f"recorded for {apart}{seconds[-1]:.1f} s{' each' * bool(apart)}")
        if topics := sorted(self._names("topic", "publishers", "subscriptions")):
            more = f" and {len(topics) - 5} more" if len(topics) > 5 else ""
            lines.append(f"topics: {', '.join(topics[:5])}{more}")
        lines += self.copies_told()
        parts = [about["text"] for r in self.recordings if (about := excerpt_of(r)) is not None]
        lines += [f"only part of {text}" for text in parts[:5]]
        if len(parts) > 5:
            lines.append(f"and {len(parts) - 5} more are parts only")
        if problems:
            lines.append(f"{len(problems)} not complete: {', '.join(r.name for r in problems[:5])}")
        return "\n".join(lines)


def _meaning(table: Table) -> str:
    """What a table and its columns hold, for ``help``."""
    columns = (f"{c.name} [{c.unit}]" if c.unit else c.name for c in table.columns)
    lines = (f"{n}\n    {c.meaning}" for n, c in zip(columns, table.columns, strict=True))
    return f"A row is {table.row}.\n\n" + "\n".join(lines)


for _table in TABLES.values():
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
