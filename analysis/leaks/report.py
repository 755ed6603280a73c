"""Define the parameters and the sections of the leaks notebook."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

import polars as pl
from pydantic import Field

from roslens.analysis.estimate import (
    Estimate,
    Metric,
    cell_label,
    not_none,
    shared_levels,
    short_labels,
)
from roslens.analysis.figures.plot import Plot
from roslens.analysis.leaks import sites
from roslens.analysis.leaks.by_cell import how_to_record, leaks_of, memory_series
from roslens.analysis.leaks.figures import memory_plot, peak_plot, verdict_grid, verdict_text
from roslens.analysis.leaks.leak import SLOPE, Leak, refused
from roslens.analysis.leaks.series import Series
from roslens.analysis.leaks.statements import leak_statements
from roslens.analysis.reports.base import Part, Report, Section
from roslens.analysis.reports.front import with_interval
from roslens.analysis.reports.numbers import counted, significant
from roslens.analysis.reports.parameters import ReportParameters
from roslens.analysis.reports.study_of_executors import study_table
from roslens.analysis.reports.table import ReportTable, Sentence, reference
from roslens.analysis.reports.tables import estimates_table
from roslens.analysis.runs import cells_of
from roslens.analysis.statistics.over_runs import value_over_runs
from roslens.recording.arrays import np


class LeaksParameters(ReportParameters):
    """Parameters of the leaks notebook.

    Attributes
    ----------
    series
        The size of memory that is judged.
    margin
        Bytes per second within which a slope is as good as none.
    warm_up_s
        As in every notebook; 0 means 5 s, at most a tenth of the shortest run.
    cut_end_s
        Seconds left out at the end of what each run did.
    """

    series: Literal["rss", "pss", "heap"] = "rss"
    margin: float = Field(1024.0, gt=0, allow_inf_nan=False)
    cut_end_s: float = Field(0.0, ge=0, allow_inf_nan=False)


_ALLOCATIONS = "'roslens record --allocations -- COMMAND'"
_FEW = 4
"""Most cells that are drawn over time on the first screen."""


class LeaksReport(Report[LeaksParameters]):
    """The sections of a report on memory, each computed on demand."""

    # ------------------------------------------------------------ what is computed once

    @cached_property
    def series(self) -> dict[str, Series]:
        """Memory of each run that counts, without the last `cut_end_s` seconds of its work."""
        resources = self.tables.resources
        if self.parameters.series == "heap":
            resources = sites.with_traced_heap(resources, self.tables.table("heap"))
        by_run = memory_series(
            resources,
            self.tables.table("messages"),
            self.counting,
            self.parameters.series,
            self.tables.work_logs,
            losses=self.tables.table("losses"),
        )
        cut = self.parameters.cut_end_s
        return {
            name: run.part(0, float(run.seconds[-1]) - cut) if cut and run.seconds.size else run
            for name, run in by_run.items()
        }

    @cached_property
    def leaks(self) -> list[Leak]:
        """One leak per cell; without a run that counts, refused with what became of the runs."""
        judged = leaks_of(
            self.series,
            self.parameters.series,
            self.counting,
            level=self.level,
            margin=self.parameters.margin,
            warm_up_s=self.parameters.warm_up_s or None,
            metric=SLOPE,
        )
        return [*judged, *self._failed_cells()]

    @cached_property
    def _labels(self) -> list[str]:
        """Labels of the cells of `leaks`."""
        return short_labels([leak.per_second.cell for leak in self.leaks])

    @property
    def _climbing(self) -> list[tuple[str, Leak]]:
        """The cells in which memory climbs, with their labels."""
        of_cells = zip(self._labels, self.leaks, strict=True)
        return [(label, leak) for label, leak in of_cells if leak.verdict == "climbs"]

    def _failed_cells(self) -> list[Leak]:
        judged = set(cells_of(self.counting))
        refusals = []
        for label, members in cells_of(self.left_out).items():
            if label not in judged:
                reason = "no run of this cell is complete: " + "; ".join(
                    f"{run.name} {run.failure or self.reasons[run.name]}" for run in members
                )
                refusals.append(
                    refused(SLOPE, self.parameters.series, members[0].cell, self.level, reason)
                )
        return refusals

    @cached_property
    def baselines(self) -> list[Estimate]:
        """Memory at the start of the time looked at: median of its first twentieth, over runs."""
        metric = Metric(
            "memory_baseline",
            f"{self.parameters.series.upper()} of all recorded processes at the start of what is "
            "looked at (median of its first twentieth)",
            "byte",
        )
        estimates = []
        for leak in self.leaks:
            starts = [
                _start_of_window(run, *leak.looked_at_s) for run in self._runs_of(leak).values()
            ]
            values = [value for value in starts if value is not None]
            if values:
                cell = leak.per_second.cell
                estimates.append(
                    value_over_runs(
                        metric, cell, values, len(values), self.level, statistic="median"
                    )
                )
        return estimates

    def _runs_of(self, leak: Leak) -> dict[str, Series]:
        label = cell_label(leak.per_second.cell)
        names = [run.name for run in cells_of(self.counting).get(label, [])]
        return {name: self.series[name] for name in names if name in self.series}

    @property
    def estimates(self) -> list[Estimate]:
        """Both slopes of each cell, then the baselines, `kept` and `growing`."""
        slopes = [e for leak in self.leaks for e in (leak.per_second, leak.per_message)]
        return [*slopes, *self.baselines, *self.kept_estimates, *self.growing]

    @cached_property
    def kept_estimates(self) -> list[Estimate]:
        """Bytes that callbacks keep per execution."""
        allocations, instances = (
            self.tables.table(name) for name in ("callback_allocations", "callback_instances")
        )
        return sites.kept_by_callback(allocations, instances, self.counting, self.level)

    @cached_property
    def growing(self) -> list[Estimate]:
        """Growth of what functions hold, if call paths of allocations were recorded."""
        if not self.counting:
            return []
        begins = self.tables.resources.group_by("run").agg(pl.col("time_ns").min()).collect()
        return sites.growth_of_sites(
            self.tables.table("allocation_sites"),
            dict(begins.iter_rows()),
            self.leaks,
            self.counting,
            self.level,
        )

    # ------------------------------------------------------------ sections

    def sentences(self) -> list[str]:
        """Say where memory climbs and by how much, or which climb would have been found."""
        if not self.leaks:
            return ["There is no run to look at."]
        climbing = self._climbing
        unsure = sum(leak.verdict == "not_enough_evidence" for leak in self.leaks)
        cells = counted(len(self.leaks), "cell")
        sentences = []
        if climbing:
            label, leak = max(climbing, key=lambda pair: not_none(pair[1].per_second.value))
            most = f"{with_interval(leak.per_second)}"
            if leak.per_message.low is not None:
                most += f", {with_interval(leak.per_message)}"
            sentences.append(
                f"Memory climbs in {len(climbing)} of {cells}, most in {label}: {most}."
            )
            if there := [e for e in self.growing if e.cell.items() >= leak.per_second.cell.items()]:
                sentences.append(
                    f"There, the memory held by {_site(there[0])} grows most: "
                    f"{with_interval(there[0])}."
                )
            else:
                sentences.append(f"{_ALLOCATIONS} shows which functions hold it.")
        elif judged := [
            candidate for candidate in self.leaks if candidate.verdict != "not_enough_evidence"
        ]:
            limits = [candidate.per_second.minimum_detectable for candidate in judged]
            known_limits = [limit for limit in limits if limit is not None]
            text = f"Memory climbs in none of {counted(len(judged), 'cell')} that can be judged"
            if known_limits:
                # Less than the margin is not called a climb, however surely it differs from none.
                climb = significant(max(*known_limits, self.parameters.margin), 3)
                text += f"; a climb of {climb} B/s would have been found"
            sentences.append(f"{text}.")
        if unsure:
            sentences.append(f"Whether memory climbs is not known in {unsure} of {cells}.")
        return sentences

    def picture(self) -> Plot | None:
        """Draw memory over time for all cells if they are few, else the grid of verdicts.

        None where memory was recorded in no run that counts.
        """
        if not self.leaks:
            return None
        series = [self._runs_of(leak) for leak in self.leaks]
        if not any(series):
            return None
        if len(self.leaks) > _FEW:
            return verdict_grid(self.leaks)
        return memory_plot(self.leaks, series, self._labels, self.parameters.series)

    def loss(self) -> Section:
        """Show what the tracer lost, and the runs that enter no estimate."""
        return Section(*self.tracer_loss(), *self.runs_left_out(), *self._reasons_for_omission())

    def _reasons_for_omission(self) -> list[Part]:
        if not self.left_out:
            return []
        rows = [
            [run.name, run.label, run.failure or self.reasons[run.name]] for run in self.left_out
        ]
        return [
            ReportTable(
                ["run", "cell", "why"],
                rows,
                "Runs that are left out",
                left=frozenset({"run", "cell", "why"}),
            )
        ]

    def verdicts(self) -> Section:
        """Show all cells at a glance."""
        if not self.leaks:
            return Section(Sentence("There is no run to look at.", loud=True))
        if not any(self._runs_of(leak) for leak in self.leaks):
            return Section(*self.sentences(), self._not_recorded())
        climbing = [label for label, _ in self._climbing]
        parts: list[Part] = []
        if climbing:
            text = (
                f"Memory climbs in {len(climbing)} of {counted(len(self.leaks), 'cell')}: "
                + "; ".join(climbing[:5])
                + (" ..." if len(climbing) > 5 else "")
            )
            parts.append(Sentence(text, loud=True))
        else:
            parts += self.sentences()
        parts.append(
            f"A slope matters from {significant(self.parameters.margin, 3)} B/s on "
            f"({significant(self.parameters.margin * 3600 / 1e6, 3)} MB per hour); smaller "
            "ones (allocator and tracer settling) are no leak. Series: "
            f"{self.parameters.series.upper()}."
        )
        parts += self._perhaps_the_tracer()
        return Section(*parts, verdict_grid(self.leaks))

    def _not_recorded(self) -> Sentence:
        name = self.parameters.series
        text = f"{name.upper()} was not recorded in any run that counts{how_to_record(name)}."
        return Sentence(text, loud=True)

    def _perhaps_the_tracer(self) -> list[Part]:
        """Warn of cells that climb by no more than the tracer's buffers hold."""
        held = max((run.tracer_buffer_bytes or 0 for run in self.counting), default=0)
        small = [
            label
            for label, leak in self._climbing
            if not_none(leak.per_second.value) * (leak.looked_at_s[1] - leak.looked_at_s[0]) <= held
        ]
        if not small:
            return []
        text = (
            f"The tracer's buffers ({significant(held / 1e6, 3)} MB) count as memory of a process "
            "once it has written to all of them. No more than that was gained here, so this may be "
            f"the tracer: {'; '.join(small[:5])}. Record longer, or with smaller buffers."
        )
        return [Sentence(text, loud=True)]

    def over_time(self) -> Section:
        """Show the series with their slopes."""
        series = [self._runs_of(leak) for leak in self.leaks]
        if not any(series):
            return Section(self._not_recorded())
        return Section(memory_plot(self.leaks, series, self._labels, self.parameters.series))

    def slopes(self) -> Section:
        """Show slopes per second and per message, with the slopes that would have been found."""
        return Section(slopes_table(self.leaks, self.baselines))

    def statements(self) -> Section:
        """Check what the published study of executors said about memory."""
        statements = self.decided(leak_statements(self.leaks, self.baselines))
        if all(statement.verdict == "not_in_these_recordings" for statement in statements):
            return Section("What the study said of memory is of other workloads than these.")
        return Section(study_table(statements))

    def heap(self) -> Section:
        """Show which functions and callbacks keep what they allocate, if that was recorded."""
        parts: list[Part] = []
        if self.growing:
            parts.append(estimates_table(self.growing, sites.GROWTH.definition, prefix="site_"))
        if self.kept_estimates:
            parts.append(
                estimates_table(self.kept_estimates, sites.KEPT.definition, prefix="callback_")
            )
        if not parts:
            text = (
                f"Who allocates was not recorded; with {_ALLOCATIONS} this section says "
                "which functions hold what climbs, and with LTTng's allocator events "
                "(lttng_ust_libc) which callbacks keep what they allocate."
            )
            parts.append(text)
        return Section(*parts)

    def why_no_peak(self) -> Section:
        """Show why the peak of memory is refused."""
        return Section(peak_plot())

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Return the CSV file of the report, with one row per cell."""
        return {"leaks.csv": leaks_frame(self.leaks)}


def _site(estimate: Estimate) -> str:
    caller = estimate.cell["called_by"]
    by = "" if caller == "other" else f" in the {caller}"
    return f"{estimate.cell['function']}{by}"


def slopes_table(leaks: list[Leak], baselines: list[Estimate]) -> ReportTable:
    """Return a row per cell: verdict, both slopes with intervals, the least that would be found."""
    of_cell = {cell_label(e.cell): e for e in baselines}
    rows: list[list[str]] = []
    reasons: list[str] = []
    cells = [leak.per_second.cell for leak in leaks]
    common = shared_levels(cells)
    for label, leak in zip(short_labels(cells), leaks, strict=True):
        second, message = leak.per_second, leak.per_message
        base = of_cell.get(cell_label(second.cell))
        bend = leak.bend_s
        rows.append(
            [
                label,
                verdict_text(leak.verdict),
                str(second.runs),
                _value(second, reasons),
                _interval(second),
                significant(second.minimum_detectable, 3),
                _value(message, reasons),
                _interval(message),
                significant(message.minimum_detectable, 3),
                "-" if bend is None or bend.value is None else f"{bend.value:.0f}",
                "-" if base is None or base.value is None else significant(base.value / 1e6, 4),
            ]
        )
    return ReportTable(
        [
            *("cell", "verdict", "runs", "B/s", "interval", "least found"),
            *("B/message", "interval ", "least found ", "bend [s]", "baseline [MB]"),
        ],
        rows,
        "Slope of memory over time and over messages (requests, goals), mean over runs",
        notes=[
            *(f"({i}) refused: {reason}" for i, reason in enumerate(reasons, 1)),
            "Least found: the slope that is told from none in about 80 % of such experiments.",
            "Bend: where the slope changes; the slope is that after it.",
            *(
                f"{label}: {leak.why}."
                for label, leak in zip(short_labels(cells), leaks, strict=True)
                if leak.why is not None
            ),
            *([f"In all cells: {common}."] if common and len(cells) > 1 else []),
        ],
        marked=frozenset(i for i, leak in enumerate(leaks) if leak.verdict == "climbs"),
        left=frozenset({"cell", "verdict"}),
    )


def leaks_frame(leaks: list[Leak]) -> pl.DataFrame:
    """Return a row per cell: factors, verdict, slopes with intervals, bend and time looked at."""
    rows = []
    for leak in leaks:
        second, message, bend = leak.per_second, leak.per_message, leak.bend_s
        rows.append(
            {
                **{name: str(level) for name, level in second.cell.items()},
                "verdict": leak.verdict,
                "runs": second.runs,
                "slope_B_per_s": second.value,
                "low_B_per_s": second.low,
                "high_B_per_s": second.high,
                "minimum_detectable_B_per_s": second.minimum_detectable,
                "slope_B_per_message": message.value,
                "low_B_per_message": message.low,
                "high_B_per_message": message.high,
                "minimum_detectable_B_per_message": message.minimum_detectable,
                "bend_s": None if bend is None else bend.value,
                "from_s": leak.looked_at_s[0],
                "to_s": leak.looked_at_s[1],
                "refused": second.refused,
                "why": leak.why,
            }
        )
    names = list(dict.fromkeys(name for row in rows for name in row))
    return pl.DataFrame([{name: row.get(name) for name in names} for row in rows])


def _value(estimate: Estimate, reasons: list[str]) -> str:
    if estimate.refused:
        number = f"({reference(estimate.refused, reasons)})"
        return number if estimate.value is None else f"{significant(estimate.value, 4)} {number}"
    return significant(estimate.value, 5)


def _interval(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "refused"
    return f"[{significant(estimate.low, 5)}, {significant(estimate.high, 5)}]"


def _start_of_window(run: Series, begin: float, end: float) -> float | None:
    part = run.part(begin, end)
    if not part.values.size:
        return None
    return float(np.median(part.values[: max(1, part.values.size // 20)]))
