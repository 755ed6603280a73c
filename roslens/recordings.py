"""``rl.open(path)``: lazy frames of every table over all the runs found."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path

import platformdirs
import polars as pl

from analysis.loss import TracerLoss, tracer_loss
from analysis.runs import Run, runs_of
from collectors.schema import RESOURCES, TABLES, Table
from tracing.recording import Recording, UsageError, find_recordings
from tracing.recording.manifest import Level

PathLike = str | os.PathLike[str]
Progress = Callable[[int, int, Recording], None]
"""Called before each recording is collected: how many are done, of how many, which is next."""


def open_recordings(
    paths: PathLike | Iterable[PathLike],
    *,
    collect: bool = True,
    progress: Progress | None = None,
) -> Recordings:
    """Open recordings, as ``rl.open(...)``.

    Parameters
    ----------
    paths
        A recording, a folder that holds some, or several of these. What does not exist relative
        to the working directory is looked for from its parents, then among the data that ship
        with roslens.
    collect
        Make the tables where they are missing or out of date. Recordings in a place that cannot
        be written to are collected into the user's cache.

    Raises
    ------
    UsageError
        A path does not exist or holds no recording, or a trace cannot be read.
    """
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    if not given:
        raise UsageError("no recording given; give the folder of one")
    found: dict[Path, Recording] = {}
    for path in given:
        for recording in find_recordings(resolve(path)):
            found.setdefault(
                recording.path.resolve(), _writable(recording) if collect else recording
            )
    recordings = list(found.values())
    if collect:
        _collect(recordings, progress)
    return Recordings(recordings)


def resolve(path: PathLike) -> Path:
    """`path`, or where it is found from a parent of the working directory or as shipped data."""
    wanted = Path(path).expanduser()
    if wanted.is_absolute() or wanted.exists():
        return wanted
    here = Path.cwd()
    shipped = Path(__file__).resolve().parent
    for base in (*here.parents, shipped.parent, shipped):
        if (base / wanted).exists():
            return base / wanted
    return wanted


def _writable(recording: Recording) -> Recording:
    parent = recording.output if recording.output.exists() else recording.path
    if os.access(parent, os.W_OK):
        return recording
    where = hashlib.sha256(str(recording.path.resolve()).encode()).hexdigest()[:16]
    return Recording.at(recording.path, platformdirs.user_cache_path("roslens") / where)


def _collect(recordings: Sequence[Recording], progress: Progress | None) -> None:
    from collectors.collect import collect  # noqa: PLC0415  (loads the native reader)

    for index, recording in enumerate(recordings):
        if progress is not None:
            progress(index, len(recordings), recording)
        collect(recording)


class Recordings:
    """Runs and their tables.

    Every table of the schema is an attribute, a lazy frame over all runs: ``run`` (name of the
    run) and one column per factor come first (``factor_<name>`` where the table has a column of
    that name), null for a run without it. A run that lacks a table has no rows in it.

    >>> recordings = rl.open("data/samples")
    >>> recordings.messages.filter(pl.col("outcome") == "lost").collect()
    """

    def __init__(self, recordings: Sequence[Recording]) -> None:
        self.recordings = list(recordings)
        self.runs = runs_of(self.recordings)

    def __getattr__(self, name: str) -> pl.LazyFrame:
        if name in TABLES:
            return self.table(name)
        raise AttributeError(f"no table {name!r}; there are {', '.join(TABLES)} and resources")

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *TABLES]

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

    @property
    def resources(self) -> pl.LazyFrame:
        """What processes used while they ran, of the runs that were sampled."""
        return self._all(RESOURCES, [r.resources for r in self.recordings])

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
        frames = [
            pl.scan_parquet(file).select(
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
        lines = [found, loss if lost else "the tracer lost nothing"]
        if problems:
            lines.append(f"{len(problems)} not complete: {', '.join(r.name for r in problems[:5])}")
        return "\n".join(lines)


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
