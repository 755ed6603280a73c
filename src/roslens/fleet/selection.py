"""Access recordings selected from a catalog: their tables, files and addresses."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import polars as pl

from roslens.analysis.estimate import cell_label
from roslens.collectors.schema import TABLES
from roslens.fleet.trees import LocalTree, Tree
from roslens.recording import UsageError
from roslens.recording.errors import writing
from roslens.recording.files import link_or_copy, replaced_whole

if TYPE_CHECKING:
    from roslens.recordings import Recordings


class Selection:
    """Recordings selected from a catalog.

    Every table of the schema is an attribute: a lazy frame over all collected recordings, with the
    additional columns ``path``, ``run``, ``suite``, ``campaign`` and ``start`` (prefixed with
    ``recording_`` if the table has a column of that name).

    >>> nightly = rl.catalog("recordings").select(suite="two_process", since="30d")
    >>> nightly.messages.group_by("campaign").agg(pl.col("latency_ns").median()).collect()

    Attributes
    ----------
    rows
        The catalog rows of the recordings.
    """

    def __init__(self, tree: Tree, rows: pl.DataFrame) -> None:
        self.tree = tree
        self.rows = rows

    def __len__(self) -> int:
        return self.rows.height

    def __repr__(self) -> str:
        return f"{len(self):,} recordings, {int(self.rows['collected'].sum()):,} of them collected"

    def files(self, table: str) -> list[str]:
        """List the files of a table, one per collected recording, for any Parquet reader.

        >>> duckdb.read_parquet(nightly.files("messages"), filename=True)

        Raises
        ------
        UsageError
            There is no such table.
        """
        if table not in TABLES:
            raise UsageError(f"no table {table!r}; there are {', '.join(TABLES)}")
        collected = self.rows.filter("collected").select("tables", "stamp")
        readable = self.tree.readable
        return [readable(f"{at}/{table}.parquet", stamp) for at, stamp in collected.iter_rows()]

    def changes(
        self, metric: str = "latency_p99", *, threshold: float = 0.05, false_alarms: float = 0.01
    ) -> pl.DataFrame:
        """Detect changes of a metric from campaign to campaign, as ``roslens trend`` does.

        Parameters
        ----------
        metric
            A column of the catalog.
        threshold
            Largest relative change (0..1) that does not matter.
        false_alarms
            Probability (0..1) of an alarm although nothing has changed.

        Returns
        -------
        One row per change, and one per cell without changes: ``metric``, ``cell``, ``campaigns``
        (a count), ``verdict`` (of the change, or None), ``since`` (campaign), ``ratio``, ``low``,
        ``high`` (after / before; above 1 is worse), ``lasts``, ``refused`` (why no change
        can be found, or not yet).

        Raises
        ------
        UsageError
            The catalog has no such metric.
        """
        from roslens.analysis.verdicts.trend import find_trends  # noqa: PLC0415  (what judges)
        from roslens.fleet.series import series_of  # noqa: PLC0415

        trends = find_trends(series_of(self.rows, [metric])[0], threshold, false_alarms)
        rows = [
            (
                series.metric,
                cell_label(series.cell),
                len(series.nights),
                change and change.verdict,
                change and series.nights[change.index].campaign,
                *((e.value, e.low, e.high) if change and (e := change.effect) else (None,) * 3),
                change and change.lasts,
                series.refused,
            )
            for series in trends.series
            for change in series.changes or (None,)
        ]
        schema = {"metric": pl.String, "cell": pl.String, "campaigns": pl.Int64,
                  "verdict": pl.String, "since": pl.String, "ratio": pl.Float64,
                  "low": pl.Float64, "high": pl.Float64, "lasts": pl.Boolean,
                  "refused": pl.String}  # fmt: skip
        return pl.DataFrame(rows, schema=schema, orient="row")

    def table(self, name: str) -> pl.LazyFrame:
        """Return a table of all these recordings as a lazy frame.

        Raises
        ------
        UsageError
            There is no such table.
        """
        files = self.files(name)
        table = TABLES[name]
        added = ("path", "run", "suite", "campaign", "start")
        names = {old: f"recording_{old}" if old in table.schema else old for old in added}
        about = self.rows.filter("collected").select(
            pl.Series("_file", files, dtype=pl.String),
            *(pl.col(old).alias(new) for old, new in names.items()),
        )
        if not files:
            columns = about.drop("_file").schema | table.schema
            return pl.LazyFrame(schema=columns)
        # Tables of older collectors may lack a column.
        rows = pl.scan_parquet(
            files,
            schema=dict(table.schema),
            missing_columns="insert",
            extra_columns="ignore",
            include_file_paths="_file",
            glob=False,
        )
        return rows.join(about.lazy(), on="_file", how="left", maintain_order="left").select(
            *names.values(), *table.schema
        )

    def write_dataset(
        self, folder: str | os.PathLike[str], tables: Sequence[str] | None = None
    ) -> Written:
        """Update a folder in hive layout to hold the tables of exactly these recordings.

        ``<folder>/<table>/suite=S/campaign=C/recording=PATH/<stamp>.parquet``: files are
        hard-linked if the file system can, else copied. The stamp identifies the recording's
        tables, so that an update touches only what has changed.

        >>> rl.catalog("recordings").select(since="30d").write_dataset("nightly", ["messages"])
        >>> pl.scan_parquet("nightly/messages/**/*.parquet", hive_partitioning=True)
        >>> duckdb.sql("from read_parquet('nightly/messages/**/*.parquet', hive_partitioning=true)")

        Parameters
        ----------
        tables
            Names of tables; None: all tables.

        Raises
        ------
        UsageError
            There is no such table.
        UsageError, RunFailedError
            A file cannot be written; RunFailedError if the disk is full.
        """
        collected = self.rows.filter("collected")
        columns = collected.select("suite", "campaign", "path", "stamp").rows()
        files_by_table = {name: self.files(name) for name in (TABLES if tables is None else tables)}
        files = new = removed = 0
        for name, sources in files_by_table.items():
            root = Path(folder, name)
            wanted = dict(zip((_place(*row) for row in columns), sources, strict=True))
            with writing(root):
                for place in _own_files(root):
                    if place not in wanted:
                        _remove(root, place)
                        removed += 1
                for place, source in wanted.items():
                    if not (root / place).is_file():
                        _take(source, root / place)
                        new += 1
            files += len(wanted)
        return Written(files, new, removed)

    def __getattr__(self, name: str) -> pl.LazyFrame:
        if name in TABLES:
            return self.table(name)
        raise AttributeError(f"no table {name!r}; there are {', '.join(TABLES)}")

    @property
    def paths(self) -> list[str]:
        """Return the folders or addresses of the recordings."""
        return [self.tree.address(path) for path in self.rows["path"]]

    def open(self, *, collect: bool = True) -> Recordings:
        """Open these recordings for reports, as `rl.open` does.

        Raises
        ------
        UsageError
            There are no recordings, or they are not on this machine.
        """
        from roslens.recordings import open_recordings  # noqa: PLC0415

        if not isinstance(self.tree, LocalTree):
            raise UsageError(f"{self.tree.where}: copy the recordings here to open them")
        return open_recordings(self.paths, collect=collect)


_NONE = "__HIVE_DEFAULT_PARTITION__"
_OURS = re.compile(r"suite=[^/]*/campaign=[^/]*/recording=[^/]*/[0-9a-f]{16}\.parquet")


@dataclass(frozen=True)
class Written:
    """Counts of files in a dataset, new and removed by an update."""

    files: int
    new: int
    removed: int


def _place(suite: str | None, campaign: str | None, path: str, stamp: str) -> str:
    parts = {"suite": suite, "campaign": campaign, "recording": path}
    folders = [f"{k}={_NONE if v is None else quote(v, safe='')}" for k, v in parts.items()]
    mark = hashlib.sha256(stamp.encode()).hexdigest()[:16]
    return "/".join([*folders, f"{mark}.parquet"])


def _own_files(folder: Path) -> Iterator[str]:
    """List our files in a folder; other files there are left alone."""
    for path in sorted(folder.rglob("*.parquet")):
        name = path.relative_to(folder).as_posix()
        if _OURS.fullmatch(name):
            yield name


def _remove(root: Path, place: str) -> None:
    path = root / place
    path.unlink()
    for parent in path.parents:
        if parent == root or any(parent.iterdir()):
            return
        parent.rmdir()


def _take(source: str, target: Path) -> None:
    if "://" in source:
        import fsspec  # noqa: PLC0415  (optional)

        target.parent.mkdir(parents=True, exist_ok=True)
        with replaced_whole(target) as part:
            fsspec.filesystem(source.split("://", maxsplit=1)[0]).get_file(source, str(part))
        return
    link_or_copy(Path(source), target)
