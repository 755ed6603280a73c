"""Keep a catalog of recordings in one Parquet file, which answers without opening recordings."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from roslens.fleet.cluster import Workers, each
from roslens.fleet.rows import ROW, Task, row_of, unread_row
from roslens.fleet.selection import Selection
from roslens.fleet.trees import LocalTree, Tree, open_tree
from roslens.recording import RoslensError, UsageError
from roslens.recording.arrays import need_numpy
from roslens.recording.errors import writing
from roslens.recording.files import text_path, write_atomically
from roslens.recording.manifest import Level
from roslens.tracing.ros.cache import cache_folder

NAME = "catalog.parquet"
Moment: TypeAlias = "str | datetime | timedelta"
Names: TypeAlias = "str | Sequence[str]"
_VERSION = "roslens.catalog", "5"


@dataclass(frozen=True)
class Changes:
    """Counts of recordings that an update found, renewed and removed."""

    recordings: int
    renewed: int
    removed: int


class Catalog:
    """Catalog of all recordings below a folder or address; made by `catalog`.

    Attributes
    ----------
    file
        The Parquet file, one row per recording, columns `roslens.fleet.rows.ROW`. Any Parquet
        reader can query it.
    """

    def __init__(self, tree: Tree, file: Path) -> None:
        need_numpy()
        self.tree = tree
        self.file = file

    @property
    def frame(self) -> pl.LazyFrame:
        """Return all rows as a lazy frame."""
        if not self.file.is_file():
            return pl.LazyFrame(schema=dict(ROW))
        return pl.scan_parquet(text_path(self.file), glob=False)

    def select(
        self,
        *,
        suite: Names | None = None,
        campaign: Names | None = None,
        run: Names | None = None,
        distro: Names | None = None,
        rmw: Names | None = None,
        status: Names | None = None,
        commit: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        factors: Mapping[str, Level] | None = None,
        where: pl.Expr | None = None,
    ) -> Selection:
        """Select recordings by reading only the catalog.

        Parameters
        ----------
        suite, campaign, run, distro, rmw, status
            A name, a pattern with ``*`` and ``?``, or several of these.
        commit
            Prefix of the git commit.
        since, until
            Start of the run: ``2026-11-01`` or a longer ISO time (UTC by default), a datetime, or
            an age (``30d``, ``12h``, a timedelta). `until` is excluded.
        factors
            Levels that the run must have.
        where
            Any condition on the catalog's columns.

        Raises
        ------
        UsageError
            A time is invalid.
        """
        frame = self.frame
        chosen = {"suite": suite, "campaign": campaign, "run": run}
        chosen |= {"distro": distro, "rmw": rmw, "status": status}
        conditions = [] if where is None else [where]
        if since is not None:
            conditions.append(pl.col("start") >= moment(since))
        if until is not None:
            conditions.append(pl.col("start") < moment(until))
        if commit is not None:
            conditions.append(pl.col("git_commit").str.starts_with(commit))
        rows = frame.filter(*conditions).collect() if conditions else frame.collect()
        for column, names in chosen.items():
            if names is not None:
                patterns = [names] if isinstance(names, str) else list(names)
                fits = [
                    value
                    for value in rows[column].unique().drop_nulls()
                    if any(fnmatchcase(value, pattern) for pattern in patterns)
                ]
                rows = rows.filter(pl.col(column).is_in(fits))
        if factors:
            texts = [
                text
                for text in rows["factors"].unique().drop_nulls()
                if factors.items() <= json.loads(text).items()
            ]
            rows = rows.filter(pl.col("factors").is_in(texts))
        return Selection(self.tree, rows)

    def update(
        self,
        *,
        collect: bool = False,
        workers: Workers | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Changes:
        """Examine new and changed recordings, and rewrite the file if anything has changed.

        Parameters
        ----------
        collect
            Whether to make the tables of recordings that have none; not for an address.
        workers
            The processes that examine recordings.
        progress
            Callback with the number of changed recordings done, and their total.

        Raises
        ------
        UsageError, RunFailedError
            No recording exists, or the file cannot be written; RunFailedError if the disk is full.
        """
        known_rows = {row["path"]: row for row in self._known_rows()}
        places = list(self.tree.places())
        if not places:
            raise UsageError(f"{self.tree.where}: no recording here or in a folder below")
        collect = collect and isinstance(self.tree, LocalTree)
        rows = [
            row
            for place in places
            if (row := known_rows.get(place.path)) is not None
            and row["stamp"] == place.stamp
            and (row["collected"] or row["problem"] or not collect)
        ]
        same = {row["path"] for row in rows}
        tree = self.tree.absolute()
        new = [Task(tree, place, collect) for place in places if place.path not in same]
        removed = len(known_rows.keys() - {place.path for place in places})
        chosen = Workers(1) if workers is None else workers
        roots = [tree.root] if isinstance(tree, LocalTree) else []
        for done, (number, outcome) in enumerate(each(row_of, new, chosen, roots), 1):
            rows.append(
                unread_row(new[number].place) | {"problem": str(outcome)}
                if isinstance(outcome, RoslensError)
                else outcome
            )
            if progress is not None:
                progress(done, len(new))
        if new or removed or not self.file.is_file():
            self._write(rows)
        return Changes(len(rows), len(new), removed)

    def _known_rows(self) -> list[dict[str, Any]]:
        try:
            if pl.read_parquet_metadata(text_path(self.file)).get(_VERSION[0]) != _VERSION[1]:
                return []
            frame = pl.read_parquet(text_path(self.file), glob=False)
        except (OSError, pl.exceptions.PolarsError):
            # With no catalog yet, or a damaged one, everything is examined again.
            return []
        return frame.to_dicts() if frame.schema == pl.Schema(ROW) else []

    def _write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        frame = pl.DataFrame(list(rows), schema=dict(ROW)).with_columns(
            pl.from_epoch("start_ns", "ns")
            .dt.cast_time_unit("us")
            .dt.replace_time_zone("UTC")
            .alias("start")
        )
        with writing(self.file):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            # In memory first: polars reports a full disk like a damaged file.
            content = io.BytesIO()
            frame.sort("path").write_parquet(content, metadata=dict([_VERSION]))
            write_atomically(self.file, content.getvalue())

    def __repr__(self) -> str:
        number = self.frame.select(pl.len()).collect().item()
        return f"catalog of {self.tree.where}: {number:,} recordings"


def catalog(
    where: str | os.PathLike[str],
    *,
    file: str | os.PathLike[str] | None = None,
    update: bool = True,
    collect: bool = False,
    workers: Workers | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Catalog:
    """Open the catalog of all recordings below a folder or address, as ``rl.catalog(...)``.

    Parameters
    ----------
    where
        A folder, or an address that fsspec can reach.
    file
        The file of the catalog; by default ``catalog.parquet`` in the folder, or in the user's
        cache for an address or a folder that is not writable.
    update
        Whether to look for new and changed recordings; else use the file as it is.
    collect, workers, progress
        As in `Catalog.update`.

    Raises
    ------
    UsageError
        The place does not exist, or contains no recording.
    """
    tree = open_tree(where)
    opened = Catalog(tree, Path(file) if file is not None else default_file(tree))
    if update:
        opened.update(collect=collect, workers=workers, progress=progress)
    return opened


def default_file(tree: Tree) -> Path:
    """Return the default place of a tree's catalog."""
    if isinstance(tree, LocalTree) and os.access(tree.root, os.W_OK):
        return tree.root / NAME
    where = str(tree.root.resolve()) if isinstance(tree, LocalTree) else tree.where
    key = hashlib.sha256(where.encode()).hexdigest()[:16]
    return cache_folder() / "catalogs" / f"{key}.parquet"


def moment(when: Moment) -> datetime:
    """Convert an ISO text, a datetime or an age to a time in UTC.

    Raises
    ------
    UsageError
        The value is none of these, or lies before the year 1.
    """
    try:
        if isinstance(when, str):
            units = {"d": "days", "h": "hours", "w": "weeks"}
            is_age = when[:-1].isdecimal() and when[-1] in units
            when = (
                timedelta(**{units[when[-1]]: int(when[:-1])})
                if is_age
                else datetime.fromisoformat(when)
            )
        if isinstance(when, timedelta):
            return datetime.now(UTC) - when
        return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{str(when)!r} is no time; give 2026-11-01, or 30d for so long ago"
        ) from error
