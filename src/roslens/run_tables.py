"""Provide tables over several runs, with factors as first columns, cut by views."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Self

import polars as pl

from roslens.analysis.estimate import not_none
from roslens.analysis.measures.loss import TracerLoss, tracer_loss
from roslens.analysis.runs import Run
from roslens.collectors.collected import check_files
from roslens.collectors.excerpt import excerpt_of
from roslens.collectors.resources import scan_samples
from roslens.collectors.schema import SAMPLED, TABLES, Table
from roslens.collectors.table_file import scan_table
from roslens.collectors.times import utc
from roslens.collectors.views import (
    Names,
    View,
    Window,
    check_window,
    common_window,
    instead_of,
    matching,
)
from roslens.recording import Recording, UsageError
from roslens.recording.files import text_path
from roslens.recording.manifest import Level
from roslens.widgets import FOLDER, RANGE

_EVERY = {**TABLES, **{table.name: table for table in SAMPLED}}

# With more than 512 runs, their scans share polars' threads: slower, but correct.
warnings.filterwarnings("ignore", "POLARS_MAX_BLOCKING_THREAD_COUNT reached")


class RunTables:
    """Every table of the schema over runs, cut by views; iteration yields each run by itself.

    A table is an attribute, a lazy frame: ``run`` (the run's name) and one column per factor come
    first (``factor_<name>`` if the table has a column of that name), null for a run without the
    factor. A run that lacks a table has no rows in it.
    """

    def __init__(
        self,
        recordings: Sequence[Recording],
        runs: Sequence[Run],
        views: Sequence[View] = (),
        *,
        copies: Mapping[str, Sequence[str]] | None = None,
        not_read: Sequence[str] = (),
    ) -> None:
        self.recordings = list(recordings)
        self.runs = list(runs)
        self.views = tuple(views)
        self.copies = dict(copies or {})
        self.not_read = tuple(not_read)
        # For many runs, describing a table takes longer than reading it.
        self._described: dict[str, pl.LazyFrame] = {}

    def only(self, *names: str) -> Self:
        """Return the runs with these names.

        Raises
        ------
        UsageError
            A name belongs to no run.
        """
        index_by_name = {run.name: index for index, run in enumerate(self.runs)}
        unknown = sorted(set(names) - index_by_name.keys())
        if unknown:
            raise UsageError(f"no run {unknown[0]!r}; there are {', '.join(index_by_name)}")
        places = [index_by_name[name] for name in names]
        chosen = [self.recordings[i] for i in places], [self.runs[i] for i in places]
        return type(self)(*chosen, self.views)

    @cached_property
    def counting(self) -> Self:
        """The runs that completed, which verdicts and reports use; all runs if none did."""
        complete = [run.name for run in self.runs if run.complete]
        return self.only(*complete) if 0 < len(complete) < len(self.runs) else self

    def with_runs(self, runs: Sequence[Run]) -> Self:
        """Return the same recordings with other descriptions: one run for each, as in `runs`."""
        return self._with(runs, self.views)

    def _with(self, runs: Sequence[Run], views: Sequence[View]) -> Self:
        return type(self)(self.recordings, runs, views, copies=self.copies, not_read=self.not_read)

    def view(
        self,
        *,
        window: Window | None = None,
        window_ns: tuple[int | None, int | None] | None = None,
        warm_up: float = 0.0,
        processes: Names | None = None,
        nodes: Names | None = None,
        topics: Names | None = None,
    ) -> Self:
        """Return the same runs, each cut to a part: every table is cut lazily, when it is read.

        A row counts whole by the time at which it begins (a message by its publication); states
        and intervals count if they touch the window. Objects are not cut by time, and `health`
        and `losses` are never cut. A message counts if either end is among the nodes or processes.
        Tables without topics are not cut by topic, nor are callbacks of timers and services.

        >>> recordings.view(warm_up=2, nodes="/camera*").messages.collect()

        Parameters
        ----------
        window
            Start and end, in seconds after each run's first event, or text as for `roslens events`
            (``11:30:16`` in UTC, ``+2.5s``); None for an open end.
        window_ns
            Start and end, in ns since the epoch.
        warm_up
            Seconds to leave out at the start of each run.
        processes
            Names, as in `processes`, or numbers as text; patterns with ``*`` and ``?``.
        nodes, topics
            Full names, or patterns.

        In ``roslens lab``, a call without arguments applies the range selected in the timeline.

        Raises
        ------
        UsageError
            A name matches nothing, a window ends before it begins or touches no run, or `warm_up`
            is not a valid time.
        """
        try:
            warm_up = float(warm_up)
        except (TypeError, ValueError):
            warm_up = -1.0
        if not warm_up >= 0:
            raise UsageError("warm_up: give a number of seconds, from 0 on")
        if not (window or window_ns or warm_up or processes or nodes or topics):
            return self._selected()
        begin, end = window or (None, None)
        check_window(begin, end)
        views = self.views
        if isinstance(begin, str):
            # Only each run's first event tells which of the two is later.
            views += (View(window_s=(warm_up, None)),) * bool(warm_up)
        elif warm_up:
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
        seen = self._with(self.runs, [*views, view])
        seen._check_windows()
        return seen

    def _selected(self) -> Self:
        """Return the timeline's selection in the lab that this runs in; else the same runs."""
        file = Path(os.environ.get(FOLDER, ""), RANGE)
        if FOLDER not in os.environ or not file.is_file():
            return self
        selected = json.loads(file.read_text(encoding="utf-8"))
        of_run = self.only(selected["run"])
        window = selected["window_ns"]
        return of_run.view(window_ns=(window[0], window[1])) if window else of_run

    def whole(self) -> Self:
        """Return the same runs without views."""
        return type(self)(self.recordings, self.runs) if self.views else self

    def names(self, column: str, *tables: str) -> set[str]:
        """Return each distinct text in a column of tables, such as ``topic`` of ``publishers``."""
        frames = [self.table(name).select(column).unique() for name in tables]
        return {name for frame in pl.collect_all(frames) for name in frame[column].drop_nulls()}

    def check_topics(self, topics: Sequence[str]) -> None:
        """Raise `UsageError` for a topic that is in no run; not if nothing names any topic."""
        existing = self.names("topic", "publishers", "subscriptions", "messages")
        for topic in topics:
            if existing and topic not in existing:
                raise UsageError(f"no topic is named {topic!r}; {instead_of(topic, existing)}")

    def _processes(
        self, names: Names | None
    ) -> tuple[dict[str, frozenset[tuple[str, int]]] | None, dict[str, frozenset[str]] | None]:
        if names is None:
            return None, None
        process_rows = self.table("processes").select("run", "host", "vpid", "procname").collect()
        matched = matching(
            names,
            {*process_rows["procname"].drop_nulls(), *map(str, process_rows["vpid"])},
            "process",
        )
        named = pl.col("procname").is_in(sorted(matched)).fill_null(value=False)
        chosen = process_rows.filter(named | pl.col("vpid").cast(pl.String).is_in(sorted(matched)))
        node_rows = self.table("nodes").select("run", "host", "vpid", "node").drop_nulls().collect()
        node_rows = node_rows.join(chosen, on=["run", "host", "vpid"], how="semi")
        processes = chosen.partition_by("run", as_dict=True).items()
        nodes = node_rows.partition_by("run", as_dict=True).items()
        return (
            {run: frozenset(rows.select("host", "vpid").rows()) for (run,), rows in processes},
            {run: frozenset(rows["node"]) for (run,), rows in nodes},
        )

    @cached_property
    def _spans(self) -> dict[str, tuple[int, int]]:
        """Return the first and last event of each run that has any."""
        spans = (
            self.whole()
            .table("processes")
            .group_by("run")
            .agg(pl.col("begin_ns").min(), pl.col("end_ns").max())
            .drop_nulls()
            .collect()
        )
        return {run: (begin, end) for run, begin, end in spans.iter_rows()}

    @property
    def first_events(self) -> Mapping[str, int]:
        """Return the zero of all times into a run: its first event, in ns since the epoch.

        Views do not change it; a run without events is not in it.
        """
        return {run: begin for run, (begin, _) in self._spans.items()}

    def _window(self, run: str) -> tuple[int | None, int | None]:
        """Return the common window of all views of a run, in ns since the epoch."""
        origin, _ = self._spans.get(run, (None, None))
        return common_window([view.window_of(origin) for view in self.views])

    def _check_windows(self) -> None:
        windows = [view for view in self.views if view.has_window]
        if not windows or not self._spans:
            return
        for first, last in self._spans.values():
            cut = [view.window_of(first) for view in windows]
            begin, end = common_window([(first, last + 1), *cut])
            if not_none(begin) < not_none(end):
                return
        longest = max(end - begin for begin, end in self._spans.values())
        first = min(begin for begin, _ in self._spans.values())
        raise UsageError(
            f"the window touches no run: the longest takes {longest / 1e9:.3f} s, "
            f"the first begins at {utc(first)} UTC"
        )

    def __len__(self) -> int:
        return len(self.runs)

    def __iter__(self) -> Iterator[Self]:
        for recording, run in zip(self.recordings, self.runs, strict=True):
            yield type(self)([recording], [run], self.views)

    def __getattr__(self, name: str) -> pl.LazyFrame:
        # Tables are properties, see below.
        raise AttributeError(_no_table(name))

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table of all runs; for a sampled table, of the runs that have it.

        Raises
        ------
        UsageError
            There is no such table, or a recording has gone.
        """
        if name not in _EVERY:
            raise UsageError(_no_table(name))
        if name not in self._described:
            # A run without rows would look like one in which nothing happened and nothing was lost.
            for recording in self.recordings:
                if not recording.path.exists():
                    raise UsageError(f"{recording.path}: gone since it was opened")
            files = [
                r.tables / f"{name}.parquet" if name in TABLES else r.samples.get(name)
                for r in self.recordings
            ]
            self._described[name] = self._all_rows(_EVERY[name], files)
        return self._described[name]

    def raw_events(self, run: str) -> dict[str, pl.LazyFrame]:
        """Return all events of a run by name (``ros2:rmw_take``), as they were recorded.

        Raises
        ------
        UsageError
            There is no such run, it was not collected, or its event files were changed.
        """
        (recording,) = self.only(run).recordings
        frames = _scanned(recording, recording.events)
        if not frames:
            raise UsageError(f"{recording.events}: no events; run 'roslens collect' first")
        return {f"{path.parent.name}:{path.stem}": frame for path, frame in frames.items()}

    def kernel_events(self, run: str, *, cut: bool = False) -> dict[str, pl.LazyFrame]:
        """Return the recorded kernel events of a run by name; empty without a kernel trace.

        Parameters
        ----------
        run
            The run's name.
        cut
            Whether to keep only events within the windows of views, which else do not apply.

        Raises
        ------
        UsageError
            There is no such run, or its event files were changed.
        """
        (recording,) = self.only(run).recordings
        scanned = _scanned(recording, recording.events / "kernel")
        frames = {path.stem: frame for path, frame in scanned.items()}
        begin, end = self._window(run) if cut else (None, None)
        since = pl.lit(value=True) if begin is None else pl.col("time_ns") >= begin
        until = pl.lit(value=True) if end is None else pl.col("time_ns") < end
        return {name: frame.filter(since, until) for name, frame in frames.items()}

    @property
    def recorded_processes(self) -> pl.LazyFrame:
        """Return the table ``processes``, with begin and end cut to views and excerpts."""
        processes = self.table("processes")
        windows = {}
        for recording, run in zip(self.recordings, self.runs, strict=True):
            part = excerpt_of(recording) or {"start_ns": None, "end_ns": None}
            # The last moment of an excerpt is included.
            end = None if part["end_ns"] is None else part["end_ns"] + 1
            windows[run.name] = common_window([self._window(run.name), (part["start_ns"], end)])
        if not any(bound is not None for window in windows.values() for bound in window):
            return processes

        def cut(end: int) -> pl.Expr:
            bound_by_run = {name: window[end] for name, window in windows.items()}
            return pl.col("run").replace_strict(bound_by_run, return_dtype=pl.Int64)

        return processes.with_columns(
            pl.max_horizontal("begin_ns", cut(0)), pl.min_horizontal("end_ns", cut(1))
        ).filter(pl.col("begin_ns") < pl.col("end_ns"))

    @property
    def touching_executions(self) -> pl.LazyFrame:
        """Return the table ``callback_instances``, with executions that began before the views."""
        views = [replace(view, touching=True) for view in self.views]
        return self._with(self.runs, views).table("callback_instances")

    @property
    def missing_columns(self) -> list[tuple[str, str, str]]:
        """Return run, table and column of each column that older versions did not write (null)."""
        return [
            (run.name, table.name, column.name)
            for recording, run in zip(self.recordings, self.runs, strict=True)
            for table in TABLES.values()
            if (path := recording.tables / f"{table.name}.parquet").is_file()
            for schema in [pl.read_parquet_schema(text_path(path))]
            for column in table.columns
            if column.name not in schema
        ]

    @property
    def without_resources(self) -> list[Run]:
        """Return the runs without recorded CPU and memory."""
        pairs = zip(self.recordings, self.runs, strict=True)
        return [run for recording, run in pairs if "resources" not in recording.samples]

    @cached_property
    def tracer_loss(self) -> list[TracerLoss]:
        """Return what the tracer dropped in each run."""
        return tracer_loss(self.table("losses"), self.runs)

    def _all_rows(self, table: Table, files: Sequence[Path | None]) -> pl.LazyFrame:
        factors = self._factors(table)
        frames = [
            self._scan(table, file, run).select(
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

    def _scan(self, table: Table, file: Path, run: Run) -> pl.LazyFrame:
        # Sampled tables are small, and written by whoever recorded them.
        frame = scan_samples(table, file) if table in SAMPLED else scan_table(table, file)
        spans = self._spans if any(view.has_window for view in self.views) else {}
        origin, _ = spans.get(run.name, (None, None))
        filters = [
            condition for view in self.views for condition in view.filters(table, run.name, origin)
        ]
        return frame.filter(*filters) if filters else frame

    def _factors(self, table: Table) -> list[tuple[str, str, pl.DataType]]:
        """Return the name, column and type of each factor in addition to the columns of `table`."""
        taken = {"run", *(column.name for column in table.columns)}
        levels: dict[str, list[Level]] = {}
        for run in self.runs:
            for name, level in run.cell.items():
                levels.setdefault(name, []).append(level)
        return [
            (name, f"factor_{name}" if name in taken else name, _common_type(values))
            for name, values in levels.items()
        ]


def _scanned(recording: Recording, folder: Path) -> dict[Path, pl.LazyFrame]:
    """Scan the collected files at or below a folder, after checking that none was changed."""
    check_files(recording, folder)
    paths = sorted(folder.rglob("*.parquet"))
    return {path: pl.scan_parquet(text_path(path), glob=False) for path in paths}


def _meaning(table: Table) -> str:
    """Describe a table and its columns, for ``help``."""
    columns = (f"{c.name} [{c.unit}]" if c.unit else c.name for c in table.columns)
    lines = (f"{n}\n    {c.meaning}" for n, c in zip(columns, table.columns, strict=True))
    return f"A row is {table.row}.\n\n" + "\n".join(lines)


def _no_table(name: str) -> str:
    return f"no table {name!r}; there are {', '.join(_EVERY)}"


for _table in _EVERY.values():
    _frame = partial(RunTables.table, name=_table.name)
    setattr(RunTables, _table.name, property(_frame, doc=_meaning(_table)))


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
