"""Find factors and repetitions of recordings without a manifest, by folder names or from a file.

The name of a folder below the opened path gives factors if it is ``key=value``, or several such
pairs with commas, such as ``rmw=cyclonedds,rate=100``. If no name does, and every recording
lies in one of several folders, such as ``base/`` and ``new/``, the folder is the factor. If
folders give nothing, sessions are runs of one cell if their names differ only in numbers or times
and the same nodes published the same topics through the same middleware; others stay separate.

``factors=FILE.csv`` has one row per recording. The first column identifies the recording: its
path (from the file's folder, the working directory or an opened folder) or its name. Each further
column is a factor; an empty cell is a factor that this recording does not have. A column
``repetition`` (whole numbers) gives the runs that belong to one block.
"""

import csv
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import polars as pl

from roslens.analysis.runs import BARE, FOLDER, GivenFactors, unique_names
from roslens.collectors.resolving import find_runs, find_sessions
from roslens.recording import Recording, UsageError
from roslens.recording.files import text_path
from roslens.recording.layout import find_traces
from roslens.recording.manifest import NO_FACTORS, Level

_REPETITION = "repetition"
_NUMBERS = re.compile(r"\d+([-_.:T]\d+)*")
"""Numbers in the names of sessions, such as times, and of nodes that number themselves."""
_NAMED_FACTOR = re.compile(r"([A-Za-z_]\w*)=(.+)")


def factors_in_names(
    recordings: Sequence[Recording], opened: Iterable[Path]
) -> list[GivenFactors] | None:
    """Read factors of recordings without a manifest from folder names; None if no name gives any.

    Parameters
    ----------
    recordings
        The recordings at or below `opened`.
    opened
        The paths that were given; their own names give no factors.

    Raises
    ------
    UsageError
        The name of a folder gives a factor a reserved name.
    """
    bare = {
        recording.path: _folders_below(recording.path, opened)
        for recording in recordings
        if not recording.has_manifest
    }
    named = {path: factors_in(parts) for path, parts in bare.items()}
    for path, factors in named.items():
        _check_names(path, factors)
    if not any(named.values()):
        folders = {path: parts[0] for path, parts in bare.items() if len(parts) > 1}
        if len(folders) < len(bare) or len(set(folders.values())) < 2:
            return None
        named = {path: {FOLDER: name} for path, name in folders.items()}
    return [
        GivenFactors()
        if recording.has_manifest
        else GivenFactors(named[recording.path] or {BARE: "/".join(bare[recording.path])})
        for recording in recordings
    ]


def factors_by_system(recordings: Sequence[Recording]) -> list[GivenFactors] | None:
    """Group recordings by system; None if there is only one, or if any has a manifest.

    Parameters
    ----------
    recordings
        Collected recordings; one without tables matches no other.
    """
    if len(recordings) == 1 or any(recording.has_manifest for recording in recordings):
        return None
    systems = [_system(recording) for recording in recordings]
    names = unique_names([recording.path for recording in recordings])
    if len(set(systems)) == 1 and systems[0] is not None:
        return [GivenFactors()] * len(recordings)
    firsts: dict[tuple[object, ...] | None, str] = {}
    for name, system in zip(names, systems, strict=True):
        firsts.setdefault(system, name)
    return [
        GivenFactors({BARE: name if system is None else firsts[system]})
        for name, system in zip(names, systems, strict=True)
    ]


def _system(recording: Recording) -> tuple[object, ...] | None:
    """Return features that recordings of one system share; None if there is no evidence."""
    columns = {"nodes": ("namespace", "name"), "publishers": ("topic",), "processes": ("rmw",)}
    features: list[object] = [_NUMBERS.sub("#", recording.name)]
    for table, names in columns.items():
        file = recording.tables / f"{table}.parquet"
        if not file.is_file():
            return None
        rows = pl.read_parquet(text_path(file), columns=list(names), glob=False).drop_nulls()
        features.append(frozenset(_NUMBERS.sub("#", "/".join(row)) for row in rows.iter_rows()))
    return tuple(features) if features[1] else None


def factors_in(names: Iterable[str]) -> dict[str, Level]:
    """Return the factors in folder names, except a repetition."""
    matches = (_NAMED_FACTOR.fullmatch(part) for name in names for part in name.split(","))
    return {
        match[1]: _level(match[2])
        for match in matches
        if match is not None and match[1] != _REPETITION
    }


def _check_names(where: Path, names: Iterable[str]) -> None:
    if reserved := next((name for name in names if name in NO_FACTORS), None):
        raise UsageError(
            f"{where}: no factor can be named {reserved!r}, which metrics have a column for; "
            "rename it"
        )


def _folders_below(path: Path, opened: Iterable[Path]) -> tuple[str, ...]:
    place = path.resolve()
    tops = [top.resolve() for top in opened]
    parts = [place.relative_to(top).parts for top in tops if place.is_relative_to(top)]
    return min(parts, key=len, default=())


@dataclass(frozen=True)
class FactorRow:
    """One row of a factors file.

    Attributes
    ----------
    recording
        The recording's path or name, as in the file.
    line
        The line number, from 1.
    """

    recording: str
    line: int
    factors: GivenFactors


@dataclass(frozen=True)
class Factors:
    """Factors file: its path and rows."""

    path: Path
    rows: tuple[FactorRow, ...]

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a factors file.

        Raises
        ------
        UsageError
            The file cannot be read, a factor has a reserved name, a row has too many or too few
            cells, names nothing or what another row names, or a repetition is no whole number.
        """
        try:
            with path.open(newline="", encoding="utf-8-sig") as stream:
                reader = csv.reader(stream)
                header = [name.strip() for name in next(reader, [])]
                lines = [(reader.line_num, row) for row in reader if any(map(str.strip, row))]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UsageError(f"{path}: cannot be read as CSV: {reason}") from error
        if len(header) < 2 or not all(header) or len(set(header)) < len(header):
            raise UsageError(
                f"{path}: expected a header, with commas between names: the recording, then factors"
            )
        _check_names(path, header[1:])
        rows = tuple(_row(path, line, header, cells) for line, cells in lines)
        names = [row.recording for row in rows]
        twice = next((row for i, row in enumerate(rows) if row.recording in names[:i]), None)
        if twice is not None:
            raise UsageError(f"{path}, line {twice.line}: {twice.recording} has a row already")
        return cls(path, rows)

    def recordings(self, path: Path) -> list[Recording]:
        """Return the recordings at `path`; in a folder of bare traces, those that rows name.

        Raises
        ------
        UsageError
            There is no recording, or a trace in the folder belongs to no row.
        """
        recordings = find_runs(path)
        if any(recording.has_manifest for recording in recordings):
            return recordings
        top = path.resolve()
        named = {place for row in self.rows for place in self._places(row, [path])}
        below = sorted(p for p in named if top in p.parents and p.is_dir() and find_traces(p))
        if not below:
            return recordings
        for trace in find_traces(path):
            whole = trace.resolve()
            if not any(p == whole or p in whole.parents for p in below):
                session = next(
                    session for session in find_sessions(path) if session in (trace, *trace.parents)
                )
                raise UsageError(
                    f"{self.path}: no row for the recording {session}; add one, or open only the "
                    "others"
                )
        return [Recording.at(place) for place in below]

    def factors_of_all(
        self, recordings: Sequence[Recording], opened: Iterable[Path]
    ) -> list[GivenFactors]:
        """Return the factors that the file gives for each recording, in order, not a manifest's.

        Raises
        ------
        UsageError
            A recording without a manifest has no row or several, or a row contradicts a manifest.
        """
        return [self._factors_of(recording, list(opened)) for recording in recordings]

    def of_file(self, file: Path, opened: Iterable[Path]) -> GivenFactors:
        """Return the factors of another tool's result file, or of a folder of such files.

        Raises
        ------
        UsageError
            The file has no row, or several.
        """
        row = self._row_of(file, file.name, list(opened))
        if row is None:
            raise UsageError(self._no_row(f"the file {file.name}"))
        return row.factors

    def _row_of(self, path: Path, name: str, opened: Sequence[Path]) -> FactorRow | None:
        place = path.resolve()
        fitting = [row for row in self.rows if place in self._places(row, opened)]
        fitting = fitting or [row for row in self.rows if row.recording == name]
        if len(fitting) > 1:
            lines = " and ".join(str(row.line) for row in fitting)
            raise UsageError(f"{self.path}: lines {lines} both name {path}")
        return fitting[0] if fitting else None

    def _no_row(self, subject: str) -> str:
        names = ", ".join(row.recording for row in self.rows[:5]) or "none"
        return f"{self.path}: no row for {subject}; it has rows for {names}"

    def _factors_of(self, recording: Recording, opened: Sequence[Path]) -> GivenFactors:
        row = self._row_of(recording.path, recording.name, opened)
        if row is None:
            if recording.manifest is not None:
                return GivenFactors()
            raise UsageError(self._no_row(f"the recording {recording.name}"))
        factors = recording.manifest.factors if recording.manifest is not None else {}
        for name, level in row.factors.factors.items():
            if name in factors and factors[name] != level:
                raise UsageError(
                    f"{self.path}, line {row.line}: {name} is {level!r}, but the manifest of "
                    f"{recording.name} says {factors[name]!r}; the manifest holds, leave it out"
                )
        return row.factors

    def _places(self, row: FactorRow, opened: Iterable[Path]) -> set[Path]:
        bases = (self.path.parent, Path.cwd(), *opened)
        return {(base / row.recording).resolve() for base in bases}


def _row(path: Path, line: int, header: Sequence[str], cells: Sequence[str]) -> FactorRow:
    where = f"{path}, line {line}"
    if len(cells) != len(header):
        raise UsageError(f"{where}: {len(cells)} cells under {len(header)} headings")
    texts = [cell.strip() for cell in cells]
    if not texts[0]:
        raise UsageError(f"{where}: the first cell names no recording")
    factors: dict[str, Level] = {}
    repetition: int | None = None
    for name, text in zip(header[1:], texts[1:], strict=True):
        if not text:
            continue
        level = _level(text)
        if name != _REPETITION:
            factors[name] = level
        elif isinstance(level, int) and not isinstance(level, bool):
            repetition = level
        else:
            raise UsageError(f"{where}: repetition {text!r} is no whole number")
    return FactorRow(texts[0].rstrip("/"), line, GivenFactors(factors, repetition))


def _level(text: str) -> Level:
    """Convert a text to a truth value, or to a number if the number's own text is the same.

    A version (1.10), a commit (12e4567) and a number with leading zeros (007) stay texts.
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if str(number) == text and math.isfinite(number):
            return number
    return text
