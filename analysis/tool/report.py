"""Define the parameters of the tool notebook, and build its sections."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated

import polars as pl
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from pydantic import BeforeValidator, Field

from roslens.analysis.estimate import Estimate, short_labels
from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.reports.base import Part, Report, Section, count_of_runs
from roslens.analysis.reports.numbers import shown_unit, significant
from roslens.analysis.reports.parameters import ReportParameters, Texts
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.analysis.reports.tables import estimates_table, without_repeats
from roslens.analysis.tool.estimates import COUNTS, Value, tool_estimates, values_of
from roslens.analysis.tool.runs import ToolFiles, ToolRun
from roslens.recording import UsageError


def _require_files(value: object) -> object:
    if not value:
        raise UsageError("no result file given; give files of a benchmark tool, or their folder")
    return value


class ToolParameters(ReportParameters):
    """Parameters of the tool notebook.

    Attributes
    ----------
    recordings
        Always empty: files of other tools are no recordings.
    files
        Result files of benchmark tools, or folders with such files.
    factors
        A CSV file with the factors of each file, by path or name; none: each file is a cell.
    """

    recordings: Texts = Field(default_factory=list, max_length=0)
    files: Annotated[Texts, BeforeValidator(_require_files)]


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
        """All estimates of the report."""
        return tool_estimates(self.results.runs, self.parameters.level)

    @cached_property
    def values(self) -> list[tuple[ToolRun, Value]]:
        """Every figure of every run."""
        return [
            (tool_run, value) for tool_run in self.results.runs for value in values_of(tool_run)
        ]

    def sentences(self) -> list[str]:
        """Summarise the files that were read, and their errors."""
        runs = self.results.runs
        tools = ", ".join(sorted({tool_run.result.tool for tool_run in runs}))
        notes = {note for tool_run in runs for note in tool_run.result.notes}
        sentences = [
            f"{count_of_runs(len(runs))} of {tools}: {len(self.values):,} figures were read."
            if runs
            else "None of the files could be read."
        ]
        if notes:
            sentences.append(
                f"{len(notes)} kinds of figures were corrected or left out; see below."
            )
        if self.results.refused:
            sentences.append(f"{len(self.results.refused)} files are refused; see below.")
        return sentences

    def origin(self) -> Mapping[str, str]:
        """Return the tools and the number of runs read."""
        tools = sorted({tool_run.result.tool for tool_run in self.results.runs})
        return {"files of": ", ".join(tools), "runs": f"{len(self.results.runs):,}"}

    def picture(self) -> Plot | None:
        """Plot the estimates over runs, as many as one can read at once."""
        return runs_plot(self.estimates, _PICTURED) if any(map(drawable, self.estimates)) else None

    def read(self) -> Section:
        """Report the files that were read, those that could not be read, and copies."""
        parts: list[Part] = []
        for name, reason in self.results.refused:
            parts.append(Sentence(f"{name} is refused: {reason}", loud=True))
        for name, original in self.results.copies:
            text = f"{name} says what {original} says: a copy is no further run, and is left out."
            parts.append(Sentence(text, loud=True))
        if self.results.alone:
            text = (
                "Each file is a cell of its own. Which files are runs of one cell, "
                "-p factors=FILE.csv gives them: a row per file with its name and its factors."
            )
            parts.append(text)
        shown = self.results.runs[:_MOST_RUNS]
        rows = [
            [tool_run.run.name, tool_run.result.tool, tool_run.run.label, _facts(tool_run)]
            for tool_run in shown
        ]
        hidden = len(self.results.runs) - len(shown)
        notes = [f"{hidden:,} more runs are in values.csv."] if hidden else []
        columns = ["run", "tool", "cell", "what the file says of the run"]
        parts.append(
            ReportTable(columns, rows, "Files that were read", notes, left=frozenset(columns))
        )
        return Section(*parts)

    def corrected(self) -> Section:
        """Report errors in the files, and figures with a misleading name."""
        counts = Counter((tool_run.result.tool, note) for tool_run in self.results.runs
                         for note in tool_run.result.notes)  # fmt: skip
        if not counts:
            return Section("Nothing in these files had to be corrected or left out.")
        runs = Counter(tool_run.result.tool for tool_run in self.results.runs)
        rows = [[tool, note, f"{n} of {runs[tool]}"] for (tool, note), n in counts.items()]
        columns = ["tool", "what was corrected or left out, or cannot be had", "runs"]
        title = "What the files got wrong, and what they do not hold"
        return Section(ReportTable(columns, rows, title, left=frozenset(columns[:2])))

    def said(self) -> Section:
        """Report every figure as the tool wrote it, in our units."""
        rows = [
            [
                tool_run.run.name,
                v.entity or "(run)",
                v.metric,
                *_value_and_unit(v),
                f"{v.samples:,}",
            ]
            for tool_run, v in self.values[:_MOST_ROWS]
        ]
        hidden = len(self.values) - len(rows)
        table = ReportTable(
            ["run", "about", "figure", "value", "unit", "samples"],
            without_repeats(rows),
            f"What the tools said, in {count_of_runs(len(self.results.runs))}",
            notes=[f"{hidden:,} more rows are in values.csv."] if hidden else [],
            left=frozenset({"run", "about", "figure", "unit"}),
        )  # fmt: skip
        return Section(table)

    def over_runs(self) -> Section:
        """Report the picture, and the estimates with their intervals, or why these are missing."""
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
        """Return the frame of every figure that the tools wrote."""
        return {"values.csv": self.frame()}

    def frame(self) -> pl.DataFrame:
        """Return every figure of every run, one row each; the factors of the run are columns."""
        factors = dict.fromkeys(
            name for tool_run in self.results.runs for name in tool_run.run.cell
        )
        rows = [
            {
                "run": tool_run.run.name,
                **{
                    n: None if n not in tool_run.run.cell else str(tool_run.run.cell[n])
                    for n in factors
                },
                **v._asdict(),
            }
            for tool_run, v in self.values
        ]
        return pl.DataFrame(rows, infer_schema_length=None)


def _facts(run: ToolRun) -> str:
    facts = [f"{k}: {v}" for k, v in run.result.metadata.items() if v and len(v) < _MOST_LENGTH]
    more = f"; {len(facts) - _MOST_FACTS} more" if len(facts) > _MOST_FACTS else ""
    return "; ".join(facts[:_MOST_FACTS]) + more or "-"


def _value_and_unit(value: Value) -> tuple[str, str]:
    if value.metric in COUNTS or value.metric.startswith("events_"):
        return f"{value.value:,.0f}", ""
    factor, unit = shown_unit(value.unit)
    return significant(value.value * factor), unit


_PICTURED = 12
"""Number of rows that can be read at once."""
_MOST_PANELS = 4
_MOST_DRAWN = 24
_FIRST = ("mean", "p99", "max", "loss", "cpu", "rss", "pss", "throughput")


def drawable(estimate: Estimate) -> bool:
    """Return whether an estimate has a value that can be drawn."""
    return estimate.value is not None and math.isfinite(estimate.value)


@style.styled
def runs_plot(estimates: Sequence[Estimate], most: int = _MOST_PANELS * _MOST_DRAWN) -> Plot:
    """Plot each run as a dot and each estimate with its interval, one panel per metric.

    Parameters
    ----------
    estimates
        Estimates from `roslens.analysis.tool.estimates.tool_estimates`; `_MOST_PANELS` metrics are
        drawn, the most important ones.
    most
        Greatest number of rows, in all panels together.

    Raises
    ------
    ValueError
        No estimate has a value.
    """
    panels: dict[str, list[Estimate]] = {}
    for estimate in estimates:
        if drawable(estimate):
            panels.setdefault(estimate.metric, []).append(estimate)
    chosen = sorted(panels, key=_place)[:_MOST_PANELS]
    if not chosen:
        raise ValueError("no estimate has a value: there is nothing to draw")
    shown: dict[str, list[Estimate]] = {}
    for metric in chosen:
        room = most - sum(map(len, shown.values()))
        if room > 0:
            shown[metric] = panels[metric][: min(room, _MOST_DRAWN)]
    heights = [len(members) + 1.6 for members in shown.values()]
    labels = {m: short_labels([e.cell for e in members]) for m, members in shown.items()}
    lines = max(
        style.wrapped(text, 48).count("\n") + 1 for texts in labels.values() for text in texts
    )
    figure = style.new_figure(0.7 + max(0.34, 0.16 * lines) * sum(heights))
    rows = figure.subplots(len(shown), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, (metric, members) in zip(rows, shown.items(), strict=True):
        _panel(axes, metric, members, labels[metric])
    handles = [
        Line2D([], [], ls="", marker="o", color=style.FAINT, ms=4, label="a run"),
        Line2D([], [], color=style.COLOURS[0], lw=2.2, marker="D", ms=5,
               label=f"estimate and {100 * estimates[0].level:g} % interval"),
        Line2D([], [], ls="", marker="D", color=style.COLOURS[0], mfc="white", ms=5,
               label="interval refused"),
    ]  # fmt: skip
    style.legend_above(figure, handles)
    hidden = sum(len(panels[metric]) for metric in panels) - sum(map(len, shown.values()))
    more = f"{hidden:,} more estimates are in the table." if hidden else ""
    text = "What the tools' files give, each axis from zero where that is near."
    return Plot(figure, text, left_out=more)


def _place(metric: str) -> tuple[int, str]:
    words = metric.split("_")
    return next((i for i, name in enumerate(_FIRST) if name in words), len(_FIRST)), metric


def _panel(axes: Axes, metric: str, members: Sequence[Estimate], labels: Sequence[str]) -> None:
    factor, unit = shown_unit(members[0].unit)
    for y, e in enumerate(members):
        assert e.value is not None
        values = [factor * v for v in e.per_run if math.isfinite(v)]
        axes.plot(values, [y] * len(values), "o", color=style.FAINT, ms=4, alpha=0.8)
        if e.low is not None and e.high is not None:
            axes.plot(
                [factor * e.low, factor * e.high], [y, y], "-", color=style.COLOURS[0], lw=2.2
            )
        face = "white" if e.refused else style.COLOURS[0]
        axes.plot([factor * e.value], [y], "D", color=style.COLOURS[0], mfc=face, ms=5)
    style.rows(axes, [style.wrapped(label, 48) for label in labels], f"[{unit}]", 8)
    low, high = axes.get_xlim()
    if 0 < low < 0.5 * high:
        axes.set_xlim(0, high)
    axes.set_title(metric.replace("_", " "))
