"""What the calibration notebook shows, section by section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import polars as pl

from roslens.analysis.calibration.figures import examples_plot, fractions_plot
from roslens.analysis.calibration.parameters import CalibrationParameters
from roslens.analysis.calibration.recorded import pools
from roslens.analysis.calibration.results import Result, Section, from_csv, results_frame
from roslens.analysis.calibration.sections import SECTIONS
from roslens.analysis.calibration.verdicts import splits
from roslens.analysis.estimate import Estimate
from roslens.analysis.figures.plot import Plot
from roslens.analysis.reports.base import Report
from roslens.analysis.reports.base import Section as Shown
from roslens.analysis.reports.given import Tables
from roslens.analysis.reports.table import ReportTable, Sentence

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
        Recordings to split; None: none.
    """

    def __init__(self, recorded: Tables | None, parameters: CalibrationParameters) -> None:
        super().__init__(None, parameters)
        self.recorded = recorded

    @cached_property
    def results(self) -> list[Result]:
        """Stored or simulated now, and the splits of the recordings given."""
        count = self.parameters.simulations
        if count:
            found = [r for simulate in SECTIONS.values() for r in simulate(count).results]
        else:
            found = from_csv(Path(self.parameters.results))
        return found + list(self._splits().results if self.recorded is not None else ())

    def _splits(self) -> Section:
        assert self.recorded is not None
        tables = self.recorded.table("messages"), self.recorded.table("callback_instances")
        series = list(pools(*tables, self.recorded.runs).values())
        if not series:
            return Section("splits", "")
        return splits(series, self.parameters.simulations or 1000, "the recordings given")

    def overview(self) -> Shown:
        """Every bar and whether it holds."""
        rows: list[list[str]] = []
        marked: set[int] = set()
        for (title, what), group in _grouped([r for r in self.results if r.holds is not None]):
            fractions = [r.fraction for r in group]
            missed = sum(r.holds is False for r in group)
            if missed:
                marked.add(len(rows))
            bars = " or ".join(dict.fromkeys(_bar(r) for r in group))
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
        """How many bars are held."""
        missed = sum(r.holds is False for r in self.results)
        held = sum(r.holds is True for r in self.results)
        counts = sorted({r.count for r in self.results if r.holds is not None})
        said = (
            "no"
            if not counts
            else f"{counts[0]:,}"
            if len(counts) == 1
            else f"{counts[0]:,} to {counts[-1]:,}"
        )
        return [f"{held} of {held + missed} cells hold their bar; {said} simulations each."]

    def picture(self) -> Plot | None:
        """Coverage of the intervals."""
        chosen = [r for r in self.results if r.what == "coverage"]
        return fractions_plot(chosen) if chosen else None

    def examples(self) -> Shown:
        """Why the run is the unit: intervals of experiments that hold the truth, or not."""
        return Shown(examples_plot())

    def fractions(self, *whats: str) -> Shown:
        """Fractions of these names, by what was simulated."""
        chosen = [r for r in self.results if r.what in whats]
        if not chosen:
            return Shown(Sentence(f"There are no results of {', '.join(whats)}."))
        return Shown(fractions_plot(chosen))

    @property
    def estimates(self) -> list[Estimate]:
        """Fractions that have a bar, with Monte Carlo intervals."""
        return [_estimate(r) for r in self.results if r.holds is not None]

    def files(self) -> Mapping[str, pl.DataFrame]:
        """All results."""
        return {"results.csv": results_frame(self.results)}


def _grouped(results: Sequence[Result]) -> list[tuple[tuple[str, str], list[Result]]]:
    groups: dict[tuple[str, str], list[Result]] = {}
    for r in results:
        groups.setdefault((r.section, r.what), []).append(r)
    return list(groups.items())


def _bar(r: Result) -> str:
    if r.low is None:
        return f"at most {r.high:g}"
    return f"at least {r.low:g}" if r.high is None else f"{r.low:g} to {r.high:g}"


def _estimate(r: Result) -> Estimate:
    half = 1.96 * r.error
    return Estimate(
        metric=r.what.replace(" ", "_"),
        definition=f"{MEANINGS.get(r.what, r.what)}; {r.section}; bar: {_bar(r)}",
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
