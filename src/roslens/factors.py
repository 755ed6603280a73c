"""``factors=FILE.csv``: what a manifest would have told of recordings that have none.

One row per recording. The first column names it: its path (from the file's folder, the working
directory or a folder that was opened), or its name. Each further column is a factor; an empty
cell is a factor that this recording does not have. A column ``repetition`` (whole numbers) tells
which runs belong to one block.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from roslens.analysis.runs import GivenFactors
from roslens.collectors.resolving import find_runs
from roslens.recording import Recording, UsageError
from roslens.recording.layout import find_traces
from roslens.recording.manifest import Level

_REPETITION = "repetition"


@dataclass(frozen=True)
class FactorRow:
    """One row of a factors file.

    Attributes
    ----------
    recording
        As the file names it.
    line
        Where it stands, from 1.
    """

    recording: str
    line: int
    given: GivenFactors


@dataclass(frozen=True)
class Factors:
    """A factors file."""

    path: Path
    rows: tuple[FactorRow, ...]

    @classmethod
    def read(cls, path: Path) -> Factors:
        """Read a factors file.

        Raises
        ------
        UsageError
            It cannot be read, a row has too many or too few cells, names nothing or what another
            row names, or a repetition is no whole number.
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
                f"{path}: expected a header of distinct names: the recording, then one per factor"
            )
        rows = tuple(_row(path, line, header, cells) for line, cells in lines)
        names = [row.recording for row in rows]
        twice = next((row for i, row in enumerate(rows) if row.recording in names[:i]), None)
        if twice is not None:
            raise UsageError(f"{path}, line {twice.line}: {twice.recording} has a row already")
        return cls(path, rows)

    def recordings(self, path: Path) -> list[Recording]:
        """The recordings at `path`; in a folder of bare traces, those that rows name.

        Raises
        ------
        UsageError
            There is none, or a trace in the folder belongs to no row.
        """
        found = find_runs(path)
        if any(recording.has_manifest for recording in found):
            return found
        top = path.resolve()
        named = {place for row in self.rows for place in self._places(row, [path])}
        below = sorted(p for p in named if top in p.parents and p.is_dir() and find_traces(p))
        if not below:
            return found
        for trace in find_traces(path):
            whole = trace.resolve()
            if not any(p == whole or p in whole.parents for p in below):
                raise UsageError(
                    f"{self.path}: no row for the trace {trace}; add one, or open only the others"
                )
        return [Recording.at(place) for place in below]

    def of(self, recordings: Sequence[Recording], opened: Iterable[Path]) -> list[GivenFactors]:
        """What the file says of each recording, in their order; nothing of what a manifest tells.

        Raises
        ------
        UsageError
            A recording without a manifest has no row or several, or a row contradicts a manifest.
        """
        return [self._of(recording, list(opened)) for recording in recordings]

    def of_file(self, file: Path, opened: Iterable[Path]) -> GivenFactors:
        """What it says of a result file, or a folder of such, of another tool.

        Raises
        ------
        UsageError
            That has no row or several.
        """
        row = self._row_of(file, file.name, list(opened))
        if row is None:
            raise UsageError(self._no_row(f"the file {file.name}"))
        return row.given

    def _row_of(self, path: Path, name: str, opened: Sequence[Path]) -> FactorRow | None:
        place = path.resolve()
        fitting = [row for row in self.rows if place in self._places(row, opened)]
        fitting = fitting or [row for row in self.rows if row.recording == name]
        if len(fitting) > 1:
            lines = " and ".join(str(row.line) for row in fitting)
            raise UsageError(f"{self.path}: lines {lines} both name {path}")
        return fitting[0] if fitting else None

    def _no_row(self, what: str) -> str:
        names = ", ".join(row.recording for row in self.rows[:5]) or "none"
        return f"{self.path}: no row for {what}; it has rows for {names}"

    def _of(self, recording: Recording, opened: Sequence[Path]) -> GivenFactors:
        row = self._row_of(recording.path, recording.name, opened)
        if row is None:
            if recording.manifest is not None:
                return GivenFactors()
            raise UsageError(self._no_row(f"the recording {recording.name}"))
        known = recording.manifest.factors if recording.manifest is not None else {}
        for name, level in row.given.factors.items():
            if name in known and known[name] != level:
                raise UsageError(
                    f"{self.path}, line {row.line}: {name} is {level!r}, but the manifest of "
                    f"{recording.name} says {known[name]!r}; the manifest holds, leave it out"
                )
        return row.given

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
    """A number or a truth value where the text is one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
