"""What a report found, in short: on top of its page, and as ``summary.md`` for pull requests."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from roslens.analysis.estimate import cell_label
from roslens.analysis.metrics import read_metrics
from roslens.analysis.reports.base import Section
from roslens.analysis.reports.numbers import counted
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.printed import escaped, markdown_rows
from roslens.summary import summary_table

SUMMARY_NAME = "summary.md"
_MOST_ROWS = 16


@dataclass(frozen=True)
class Summary:
    """The answer, loss, verdicts, then the figures.

    Attributes
    ----------
    answer
        What was found, in sentences; none in the files of older versions.
    recorded
        What was recorded, by name; nothing in the files of older versions.
    runs
        How many, and what the tracer lost.
    lossy
        Whether it lost anything.
    verdicts
        How many of each; empty where nothing was judged.
    table
        The estimates, with reasons of refusals below.
    """

    answer: tuple[str, ...]
    recorded: Mapping[str, str]
    runs: str
    lossy: bool
    verdicts: str
    table: ReportTable

    @classmethod
    def read(cls, metrics: Path, notebook: str) -> Self:
        """Of a metrics.json, or the one in a folder, that the notebook of that name wrote.

        Raises
        ------
        UsageError
            It cannot be read.
        """
        table = summary_table(metrics, notebook)
        stored = read_metrics(metrics)
        runs, *notes = table.notes
        lossy = any(r["discarded_events"] or r["lost_packets"] for r in stored.recordings)
        # Several estimates of a cell may share one verdict: slopes per second and per message.
        judged = {(cell_label(e.cell), e.verdict) for e in stored.estimates if e.verdict}
        verdicts = Counter(verdict.replace("_", " ") for _, verdict in sorted(judged))
        listing = ", ".join(f"{name} in {counted(n, 'cell')}" for name, n in verdicts.items())
        return cls(
            tuple(stored.answer), stored.recorded, runs, lossy, listing, replace(table, notes=notes)
        )

    def section(self) -> Section:
        """For the top of a page."""
        verdicts = [Sentence(f"Verdicts: {self.verdicts}.")] if self.verdicts else []
        table = [_short(self.table)] if self.table.rows else []
        return Section(Sentence(f"{self.runs}.", loud=self.lossy), *verdicts, *table)

    def markdown(self) -> str:
        """For a pull request."""
        table = self.table
        lines = [f"**{escaped(self.answer[0])}**", ""] if self.answer else []
        lines += [line for text in self.answer[1:] for line in (escaped(text), "")]
        lines += [f"### {escaped(table.caption)}", "", f"{escaped(self.runs)}.", ""]
        if self.verdicts:
            lines += [f"Verdicts: {escaped(self.verdicts)}.", ""]
        lines += markdown_rows(table)
        lines += [""] + [f"{escaped(note)}  " for note in table.notes]
        return "\n".join(lines).rstrip() + "\n"


def _short(table: ReportTable) -> ReportTable:
    """The first rows, where there are so many that what follows would not be seen."""
    hidden = len(table.rows) - _MOST_ROWS
    if hidden <= 0:
        return table
    more = "1 more row is" if hidden == 1 else f"{hidden:,} more rows are"
    note = f"{more} in {SUMMARY_NAME}."
    return replace(table, rows=table.rows[:_MOST_ROWS], notes=[note, *table.notes])
