"""Define the parameters and the sections of the calibration notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import polars as pl
from matplotlib.axes import Axes
from pydantic import Field

from roslens.analysis.calibration import designs, intervals, losses, verdicts, zoo
from roslens.analysis.calibration.results import Result, Section, from_csv, results_frame, within
from roslens.analysis.calibration.series import autoregressive, generator
from roslens.analysis.calibration.verdicts import pools, splits
from roslens.analysis.estimate import Estimate
from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.reports.base import Report
from roslens.analysis.reports.base import Section as Shown
from roslens.analysis.reports.given import Tables
from roslens.analysis.reports.parameters import ReportParameters, Texts
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.analysis.statistics.over_runs import student_t
from roslens.recording.arrays import Floats, np


class CalibrationParameters(ReportParameters):
    """Parameters of the calibration notebook.

    Attributes
    ----------
    recordings
        Recordings whose pieces are compared with each other; if none, only stored results.
    results
        The file that `nox -s calibrate` wrote.
    simulations
        0 for the stored results; otherwise the number of new simulations per cell, which take a few
        minutes from about 1,000 on.
    """

    recordings: Texts = Field(default_factory=list)
    results: str = "data/calibration/results.csv"
    simulations: int = Field(0, ge=0, le=100_000)


MEANINGS = {
    "coverage": "fraction of nominal 95 % intervals that hold the truth",
    "block by block": "fraction of nominal 95 % intervals that hold the truth",
    "exit 1": "fraction of invocations of compare that end with exit 1, a regression",
    "false alarms": "fraction of experiments without a leak whose verdict is climbs",
    "wrong": "fraction of experiments whose verdict is not true of the shape",
    "power there": "fraction of experiments with a leak of the minimum detectable slope whose "
    "verdict is climbs",
}


class CalibrationReport(Report[CalibrationParameters]):
    """The sections of a calibration report.

    Parameters
    ----------
    recorded
        Recordings to split; None if there are none.
    """

    def __init__(self, recorded: Tables | None, parameters: CalibrationParameters) -> None:
        super().__init__(None, parameters)
        self.recorded = recorded

    @cached_property
    def results(self) -> list[Result]:
        """Results, stored or simulated now, and those of splits of the given recordings."""
        count = self.parameters.simulations
        if count:
            results = [r for simulate in SECTIONS.values() for r in simulate(count).results]
        else:
            results = from_csv(Path(self.parameters.results))
        return results + list(self._splits().results if self.recorded is not None else ())

    def _splits(self) -> Section:
        assert self.recorded is not None
        tables = self.recorded.table("messages"), self.recorded.table("callback_instances")
        series = list(pools(*tables, self.recorded.runs).values())
        if not series:
            return Section("splits", "")
        return splits(series, self.parameters.simulations or 1000, "the recordings given")

    def overview(self) -> Shown:
        """Show every bar and whether it holds."""
        rows: list[list[str]] = []
        marked: set[int] = set()
        for (title, what), group in _grouped([r for r in self.results if r.holds is not None]):
            fractions = [r.fraction for r in group]
            missed = sum(r.holds is False for r in group)
            if missed:
                marked.add(len(rows))
            bars = " or ".join(dict.fromkeys(within(r.low, r.high) for r in group))
            spread = f"{min(fractions):.3f} to {max(fractions):.3f}"
            rows.append([title, what, bars, spread, str(len(group)), str(missed)])
        table = ReportTable(
            ["what was simulated", "fraction", "bar", "found", "cells", "miss it"],
            rows,
            "Every bar, with the smallest and largest fraction found.",
            notes=["A cell misses its bar if it lies more than two Monte Carlo errors outside."],
            marked=frozenset(marked),
            left=frozenset({"what was simulated", "fraction", "bar"}),
        )
        (sentence,) = self.sentences()
        missed = any(r.holds is False for r in self.results)
        return Shown(Sentence(sentence, loud=missed), table)

    def sentences(self) -> list[str]:
        """Say how many bars are held."""
        missed = sum(r.holds is False for r in self.results)
        held = sum(r.holds is True for r in self.results)
        counts = sorted({r.count for r in self.results if r.holds is not None})
        numbers = (
            "no"
            if not counts
            else f"{counts[0]:,}"
            if len(counts) == 1
            else f"{counts[0]:,} to {counts[-1]:,}"
        )
        return [f"{held} of {held + missed} cells hold their bar; {numbers} simulations each."]

    def origin(self) -> Mapping[str, str]:
        """Say where the simulations are from."""
        now, before = self.parameters.simulations, Path(self.parameters.results).name
        return {"simulated": "now" if now else f"before, read from {before}"}

    def picture(self) -> Plot | None:
        """Draw the coverage of the intervals."""
        chosen = [r for r in self.results if r.what == "coverage"]
        return fractions_plot(chosen) if chosen else None

    def examples(self) -> Shown:
        """Show why the run is the unit: intervals of experiments that contain the truth, or not."""
        return Shown(examples_plot())

    def fractions(self, *whats: str) -> Shown:
        """Draw the fractions of these names, by what was simulated."""
        chosen = [r for r in self.results if r.what in whats]
        if not chosen:
            return Shown(f"There are no results of {', '.join(whats)}.")
        return Shown(fractions_plot(chosen))

    @property
    def estimates(self) -> list[Estimate]:
        """Fractions that have a bar, with Monte Carlo intervals."""
        return [_estimate(r) for r in self.results if r.holds is not None]

    def files(self) -> Mapping[str, pl.DataFrame]:
        """Return a CSV file of all results."""
        return {"results.csv": results_frame(self.results)}


def _grouped(results: Sequence[Result]) -> list[tuple[tuple[str, str], list[Result]]]:
    groups: dict[tuple[str, str], list[Result]] = {}
    for r in results:
        groups.setdefault((r.section, r.what), []).append(r)
    return list(groups.items())


def _estimate(r: Result) -> Estimate:
    half = 1.96 * r.error
    return Estimate(
        metric=r.what.replace(" ", "_"),
        definition=f"{MEANINGS.get(r.what, r.what)}; {r.section}; bar: {within(r.low, r.high)}",
        better=None,
        cell={"section": r.section, **r.cell},
        value=r.fraction,
        low=max(0.0, r.fraction - half),
        high=min(1.0, r.fraction + half),
        level=0.95,
        unit="1",
        runs=r.count,
        samples=r.count,
        effective_samples=None,
        method="simulation; one run is one simulated experiment",
        verdict="holds" if r.holds else "misses",
    )


EXPERIMENTS = 50


@style.styled
def fractions_plot(results: Sequence[Result]) -> Plot:
    """Draw a dot per cell with two Monte Carlo errors, one row per kind, bars shaded."""
    kinds = dict(_grouped(results))
    figure = style.new_figure(0.9 + 0.45 * len(kinds))
    axes = figure.subplots()
    for y, group in enumerate(kinds.values()):
        _row(axes, y, group)
    labels = [style.wrapped(f"{title}, {what}", 46) for title, what in kinds]
    style.rows(axes, labels, "fraction of simulated experiments", 8)
    left = min(r.fraction - 3 * r.error for r in results)
    right = max(r.fraction + 3 * r.error for r in results)
    bars = [bar for r in results for bar in (r.low, r.high) if bar is not None]
    axes.set_xlim(max(0, min([left, *bars]) - 0.01), min(1.003, max([right, *bars]) + 0.01))
    missed = sum(r.holds is False for r in results)
    return Plot(
        figure,
        f"{len(results)} fractions of simulated experiments, each with two Monte Carlo errors to "
        f"either side; green: what it must lie within; {missed} miss it, drawn in red as squares. "
        "Grey: published as it is, without a bar.",
    )


def _row(axes: Axes, y: int, group: Sequence[Result]) -> None:
    bars = {(r.low, r.high) for r in group if r.holds is not None}
    for low, high in bars:
        begin, end = low if low is not None else 0.0, high if high is not None else 1.0
        axes.fill_betweenx([y - 0.4, y + 0.4], begin, end, color="#dcefe6", lw=0, zorder=0)
    places = y + np.linspace(-0.3, 0.3, len(group)) if len(group) > 1 else [float(y)]
    for place, r in zip(places, group, strict=True):
        colour = style.FAINT if r.holds is None else style.COLOURS[0] if r.holds else style.LOUD
        axes.plot(
            [r.fraction - 2 * r.error, r.fraction + 2 * r.error], [place] * 2, color=colour, lw=0.8
        )
        marker = "s" if r.holds is False else "o"
        axes.plot([r.fraction], [place], marker, color=colour, ms=3)


@style.styled
def examples_plot() -> Plot:
    """Draw intervals of fifty experiments of five runs, over pooled samples and over runs."""
    runs, samples, between, phi = 5, 200, 0.2, 0.5
    rng = generator("examples", between, phi)
    noise = autoregressive(rng, (EXPERIMENTS, runs, samples), phi)
    values = noise + between * rng.standard_normal((EXPERIMENTS, runs, 1))
    figure = style.new_figure(3.6)
    panels = figure.subplots(1, 2, sharey=True)
    titles = ("all samples, as if independent", "over runs")
    hits = []
    for axes, title, unit in zip(
        panels, titles, (values.reshape(EXPERIMENTS, -1), values.mean(-1)), strict=True
    ):
        hits.append(_intervals(axes, unit))
        axes.set_title(f"{title}\n{hits[-1]} of {EXPERIMENTS} hold the truth")
        axes.set_xlabel("experiment")
    panels[0].set_ylabel("mean, and its 95 % interval")
    return Plot(
        figure,
        f"{EXPERIMENTS} simulated experiments of {runs} runs of {samples} samples with "
        f"autocorrelation {phi:g}; runs differ by a standard deviation of {between:g} of that of "
        f"the samples; the truth is 0. Of intervals that hold what they claim about "
        f"{round(0.95 * EXPERIMENTS)} hold the truth. Orange: those that do not.",
    )


def _intervals(axes: Axes, experiments: Floats) -> int:
    hits = 0
    axes.axhline(0, color="#666666", lw=0.8)
    for place, values in enumerate(experiments):
        interval = student_t(values)
        if interval.value is None or interval.low is None or interval.high is None:
            continue
        holds = interval.low <= 0 <= interval.high
        hits += holds
        colour = style.COLOURS[0] if holds else style.LOUD
        axes.plot([place] * 2, [interval.low, interval.high], color=colour, lw=1.2)
        axes.plot([place], [interval.value], "o" if holds else "s", color=colour, ms=2.5)
    return hits


SECTIONS: Mapping[str, Callable[[int], Section]] = {
    "means": intervals.means,
    "skewed": intervals.skewed,
    "positive": intervals.positive_runs,
    "percentiles": intervals.percentiles,
    "spreads": intervals.spreads,
    "one_run": intervals.one_run,
    "ratios": intervals.ratios,
    "positive_ratios": intervals.positive_ratios,
    "losses": losses.loss,
    "factors": designs.factors,
    "comparisons": verdicts.comparisons,
    "unequal": verdicts.unequal,
    "leaks": verdicts.leaks,
    "injected_leaks": designs.injected_leaks,
    "shapes": zoo.shapes,
}
"""Functions by section name; each takes the number of simulations per cell."""
