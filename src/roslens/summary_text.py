"""Summarize a report: at the top of its page, and as ``summary.md`` for pull requests."""

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
    """Summary of a report: the answer, loss, verdicts, and figures.

    Attributes
    ----------
    answer
        The findings in sentences; empty for files of older versions.
    recorded
        What was recorded, by name; empty for files of older versions.
    runs
        The number of runs, and the tracer's loss.
    lossy
        Whether the tracer lost anything.
    verdicts
        The count of each verdict; empty if nothing was judged.
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
        """Read the summary of a notebook's metrics.json, given as a file or a folder.

        Raises
        ------
        UsageError
            The file cannot be read.
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
        """Return the section for the top of a page."""
        verdicts = [Sentence(f"Verdicts: {self.verdicts}.")] if self.verdicts else []
        table = [_first_rows(self.table)] if self.table.rows else []
        return Section(Sentence(f"{self.runs}.", loud=self.lossy), *verdicts, *table)

    def markdown(self) -> str:
        """Return the text for a pull request."""
        table = self.table
        lines = [f"**{escaped(self.answer[0])}**", ""] if self.answer else []
        lines += [line for text in self.answer[1:] for line in (escaped(text), "")]
        lines += [f"### {escaped(table.caption)}", "", f"{escaped(self.runs)}.", ""]
        if self.verdicts:
            lines += [f"Verdicts: {escaped(self.verdicts)}.", ""]
        lines += markdown_rows(table)
        lines += [""] + [f"{escaped(note)}  " for note in table.notes]
        return "\n".join(lines).rstrip() + "\n"


def _first_rows(table: ReportTable) -> ReportTable:
    """Keep the first rows of a long table, so that the text below it stays visible."""
    hidden = len(table.rows) - _MOST_ROWS
    if hidden <= 0:
        return table
    more = "1 more row is" if hidden == 1 else f"{hidden:,} more rows are"
    note = f"{more} in {SUMMARY_NAME}."
    return replace(table, rows=table.rows[:_MOST_ROWS], notes=[note, *table.notes])
