"""Tables of many recordings as one dataset in hive layout, which polars and DuckDB read directly.

``<folder>/<table>/suite=S/campaign=C/recording=PATH/<stamp>.parquet``: files are linked where the
file system can, else copied. The stamp is that of the recording's tables, so that an update touches
only what has changed.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from roslens.collectors.schema import TABLES
from roslens.recording import RunFailedError, UsageError
from roslens.recording.files import replaced_whole

if TYPE_CHECKING:
    import polars as pl

_NONE = "__HIVE_DEFAULT_PARTITION__"
_OURS = re.compile(r"suite=[^/]*/campaign=[^/]*/recording=[^/]*/[0-9a-f]{16}\.parquet")


@dataclass(frozen=True)
class Written:
    """What an update of a dataset did, in files."""

    files: int
    new: int
    removed: int


def write_dataset(
    collected: pl.DataFrame,
    files_of: Callable[[str], Sequence[str]],
    folder: Path,
    tables: Sequence[str] | None = None,
) -> Written:
    """Make a folder hold the tables of some recordings, and of no others.

    >>> rl.catalog("recordings").select(since="30d").write_dataset("nightly", ["messages"])
    >>> pl.scan_parquet("nightly/messages/**/*.parquet", hive_partitioning=True)
    >>> duckdb.sql("from read_parquet('nightly/messages/**/*.parquet', hive_partitioning=true)")

    Parameters
    ----------
    collected
        Rows of the catalog.
    files_of
        Where a table of theirs lies, by its name; in the order of `collected`.
    tables
        Their names; None for all.

    Raises
    ------
    UsageError
        There is no such table.
    RunFailedError
        A file cannot be written.
    """
    names = list(TABLES) if tables is None else list(tables)
    for name in names:
        if name not in TABLES:
            raise UsageError(f"no table {name!r}; there are {', '.join(TABLES)}")
    columns = collected.select("suite", "campaign", "path", "stamp").rows()
    files = new = removed = 0
    for name in names:
        wanted = dict(zip((_place(*row) for row in columns), files_of(name), strict=True))
        try:
            for place in _there(folder / name):
                if place not in wanted:
                    _remove(folder / name, place)
                    removed += 1
            for place, source in wanted.items():
                target = folder / name / place
                if not target.is_file():
                    _take(source, target)
                    new += 1
        except OSError as error:
            raise RunFailedError(
                f"{folder / name}: cannot be written: {error.strerror or error}"
            ) from error
        files += len(wanted)
    return Written(files, new, removed)


def _place(suite: str | None, campaign: str | None, path: str, stamp: str) -> str:
    parts = {"suite": suite, "campaign": campaign, "recording": path}
    folders = [f"{k}={_NONE if v is None else quote(v, safe='')}" for k, v in parts.items()]
    mark = hashlib.sha256(stamp.encode()).hexdigest()[:16]
    return "/".join([*folders, f"{mark}.parquet"])


def _there(folder: Path) -> Iterator[str]:
    """Files of ours; others that lie there are left alone."""
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
    target.parent.mkdir(parents=True, exist_ok=True)
    if "://" in source:
        import fsspec  # noqa: PLC0415  (optional)

        with replaced_whole(target) as part:
            fsspec.filesystem(source.split("://", maxsplit=1)[0]).get_file(source, str(part))
        return
    try:
        os.link(source, target)
    except OSError:
        # Another file system, or one without links.
        with replaced_whole(target) as part:
            shutil.copyfile(source, part)
