"""What the tool notebook shows, section by section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property

import polars as pl

from roslens.analysis.estimate import Estimate
from roslens.analysis.figures.plot import Plot
from roslens.analysis.reports.base import Part, Report, Section, count_of_runs
from roslens.analysis.reports.numbers import shown_unit, significant
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.analysis.reports.tables import estimates_table
from roslens.analysis.tool.estimates import COUNTS, Value, tool_estimates, values_of
from roslens.analysis.tool.figures import drawable, runs_plot
from roslens.analysis.tool.parameters import ToolParameters
from roslens.analysis.tool.runs import ToolFiles, ToolRun

_MOST_ROWS = 60
_MOST_RUNS = 30
_MOST_FACTS = 8
_MOST_LENGTH = 60


class ToolReport(Report[ToolParameters]):
    """The sections of a report on other tools' result files."""

    def __init__(self, results: ToolFiles, parameters: ToolParameters) -> None:
        super().__init__(None, parameters)
        self.results = results

    @cached_property
    def estimates(self) -> list[Estimate]:
        """All of them."""
        return tool_estimates(self.results.runs, self.parameters.level)

    @cached_property
    def values(self) -> list[tuple[ToolRun, Value]]:
        """Every figure of every run."""
        return [(one, value) for one in self.results.runs for value in values_of(one)]

    def sentences(self) -> list[str]:
        """What was read, and what in it was wrong."""
        runs = self.results.runs
        tools = ", ".join(sorted({one.result.tool for one in runs}))
        notes = {note for one in runs for note in one.result.notes}
        said = [
            f"{count_of_runs(len(runs))} of {tools}: {len(self.values):,} figures were read."
            if runs
            else "None of the files could be read."
        ]
        if notes:
            said.append(f"{len(notes)} kinds of figures were corrected or left out; see below.")
        if self.results.refused:
            said.append(f"{len(self.results.refused)} files are refused; see below.")
        return said

    def picture(self) -> Plot | None:
        """The estimates over runs."""
        return runs_plot(self.estimates) if any(map(drawable, self.estimates)) else None

    def read(self) -> Section:
        """The files, those that could not be read, and copies."""
        parts: list[Part] = []
        for name, reason in self.results.refused:
            parts.append(Sentence(f"{name} is refused: {reason}", loud=True))
        for name, other in self.results.copies:
            text = f"{name} says what {other} says: a copy is no further run, and is left out."
            parts.append(Sentence(text, loud=True))
        if self.results.alone:
            text = (
                "Each file is a cell of its own. Which files are runs of one cell, "
                "-p factors=FILE.csv tells: a row per file with its name and its factors."
            )
            parts.append(Sentence(text))
        shown = self.results.runs[:_MOST_RUNS]
        rows = [[one.run.name, one.result.tool, one.run.label, _facts(one)] for one in shown]
        hidden = len(self.results.runs) - len(shown)
        notes = [f"{hidden:,} more runs are in values.csv."] if hidden else []
        columns = ["run", "tool", "cell", "what the file says of the run"]
        parts.append(
            ReportTable(columns, rows, "Files that were read", notes, left=frozenset(columns))
        )
        return Section(*parts)

    def corrected(self) -> Section:
        """What in the files is wrong, or is not what it is called."""
        counts = Counter((one.result.tool, note) for one in self.results.runs
                         for note in one.result.notes)  # fmt: skip
        if not counts:
            return Section(Sentence("Nothing in these files had to be corrected or left out."))
        runs = Counter(one.result.tool for one in self.results.runs)
        rows = [[tool, note, f"{n} of {runs[tool]}"] for (tool, note), n in counts.items()]
        columns = ["tool", "what was corrected or left out, or cannot be had", "runs"]
        title = "What the files got wrong, and what they do not hold"
        return Section(ReportTable(columns, rows, title, left=frozenset(columns[:2])))

    def said(self) -> Section:
        """Every figure as the tool wrote it, in our units."""
        rows = [
            [one.run.name, v.entity or "(run)", v.metric, *_shown(v), f"{v.samples:,}"]
            for one, v in self.values[:_MOST_ROWS]
        ]
        hidden = len(self.values) - len(rows)
        table = ReportTable(
            ["run", "about", "figure", "value", "unit", "samples"],
            [["", *row[1:]] if i and rows[i - 1][0] == row[0] else row
             for i, row in enumerate(rows)],
            f"What the tools said, in {count_of_runs(len(self.results.runs))}",
            notes=[f"{hidden:,} more rows are in values.csv."] if hidden else [],
            left=frozenset({"run", "about", "figure", "unit"}),
        )  # fmt: skip
        return Section(table)

    def over_runs(self) -> Section:
        """The picture, and the estimates with their intervals or why there are none."""
        parts: list[Part] = []
        if any(e.runs == 1 and e.low is not None for e in self.estimates):
            text = (
                "An interval of one run holds for that run only: it says nothing about how much "
                "runs differ."
            )
            parts.append(Sentence(text, loud=True))
        if any(map(drawable, self.estimates)):
            parts.append(runs_plot(self.estimates))
        table = estimates_table(self.estimates, "Estimates over runs", most=2 * _MOST_ROWS)
        return Section(*parts, table)

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Every figure that the tools wrote."""
        return {"values.csv": self.frame()}

    def frame(self) -> pl.DataFrame:
        """Every figure of every run, one row each; the factors of the run are columns."""
        factors = dict.fromkeys(name for one in self.results.runs for name in one.run.cell)
        rows = [
            {
                "run": one.run.name,
                **{n: None if n not in one.run.cell else str(one.run.cell[n]) for n in factors},
                **v._asdict(),
            }
            for one, v in self.values
        ]
        return pl.DataFrame(rows, infer_schema_length=None)


def _facts(one: ToolRun) -> str:
    told = [f"{k}: {v}" for k, v in one.result.metadata.items() if v and len(v) < _MOST_LENGTH]
    more = f"; {len(told) - _MOST_FACTS} more" if len(told) > _MOST_FACTS else ""
    return "; ".join(told[:_MOST_FACTS]) + more or "-"


def _shown(value: Value) -> tuple[str, str]:
    if value.metric in COUNTS or value.metric.startswith("events_"):
        return f"{value.value:,.0f}", ""
    factor, unit = shown_unit(value.unit)
    return significant(value.value * factor), unit
