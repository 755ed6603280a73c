"""Judge claims that one way of writing takes less than another, cell by cell, also about a disk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from roslens.analysis.estimate import Estimate, Metric, cell_label
from roslens.analysis.reports.numbers import significant, value_and_interval
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.reports.tables import statements_table
from roslens.analysis.statistics.multiplicity import holm
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS
from roslens.analysis.statistics.ratio import Effect, Spread, ratio_of_means
from roslens.analysis.verdicts.one_cell import LEVEL
from roslens.analysis.verdicts.statement import Statement
from roslens.studies.storage.live import LiveRun, Measure, overall
from roslens.studies.storage.statements import ALPHA, verdict_over_cells

RULE = (
    "Ratios of means over runs with Fieller's 95 % interval; a cell holds where the interval lies "
    "beyond 1 and p, by Holm over the cells of a claim, is at most 5 %."
)


@dataclass(frozen=True)
class Claim:
    """A claim that `new` takes less of something than `base`.

    Attributes
    ----------
    text
        The claim in words.
    value
        Returns the compared quantity of one run; None where it is not known.
    new, base
        The two compared levels, as the `level` of `judged` returns them.
    """

    text: str
    value: Measure
    new: str
    base: str


def judged(
    runs: Sequence[LiveRun],
    claims: Sequence[Claim],
    level: Callable[[LiveRun], str],
    cell: Callable[[LiveRun], tuple[str, str]],
) -> list[Statement]:
    """Judge each claim on each machine; its ratio is base / new, so `new` takes less above 1.

    Parameters
    ----------
    level
        Returns the level that a run belongs to.
    cell
        Returns the other properties of a run: size of messages, and everything else.
    """
    statements = []
    for machine in dict.fromkeys(live.machine for live in runs):
        members = [live for live in runs if live.machine == machine]
        for claim in claims:
            effects, answers = _compared(members, claim, level, cell)
            verdict, because = verdict_over_cells(answers.items())
            if effects:
                ratios = [effect.value for effect in effects]
                low, high = significant(min(ratios), 3), significant(max(ratios), 3)
                because += f"; {low} to {high} times" if low != high else f"; {low} times"
            statements.append(Statement(claim.text, verdict, because, machine))
    return statements


def _compared(
    runs: Sequence[LiveRun],
    claim: Claim,
    level: Callable[[LiveRun], str],
    cell: Callable[[LiveRun], tuple[str, str]],
) -> tuple[list[Effect], dict[tuple[str, str], str]]:
    """Return the ratios and the answers of the cells with enough runs of both levels."""
    values: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for live in runs:
        value = claim.value(live)
        if value is not None:
            values[cell(live)][level(live)].append(value)
    cells, untold, effects = [], [], []
    for key, by_level in values.items():
        base, new = by_level[claim.base], by_level[claim.new]
        if not base or not new:
            continue
        if min(len(base), len(new)) < MINIMUM_RUNS or sum(new) <= 0:
            untold.append(key)
        else:
            cells.append(key)
            effects.append(ratio_of_means(Spread.of(base), Spread.of(new), LEVEL))
    adjusted = holm([effect.p for effect in effects])
    answers = [
        "undecided" if p > ALPHA or e.low <= 1 <= e.high else "holds" if e.low > 1 else "false"
        for e, p in zip(effects, adjusted, strict=True)
    ]
    return effects, dict(zip(cells, answers, strict=True)) | dict.fromkeys(untold, "undecided")


def claims_table(found: Sequence[Statement], title: str, rule: str = RULE) -> ReportTable:
    """Return the claims with their answers."""
    columns = {"machine": "subject", "claim": "claim", "answer": "told", "cells": "because"}
    return statements_table(found, columns, title, [rule])


def cells_table(
    found: Sequence[Estimate],
    headings: dict[Metric, tuple[str, float]],
    title: str,
    note: str,
) -> ReportTable:
    """Return one row per cell, with two columns per metric: its value and its interval.

    Parameters
    ----------
    headings
        Heading of each metric, with the factor to its unit.
    """
    cells: dict[str, dict[str, Estimate]] = {}
    for e in found:
        cells.setdefault(cell_label(e.cell), {})[e.metric] = e
    level = f"{100 * found[0].level:g} % interval"
    rows = [
        [
            label,
            *(
                text
                for metric, (_, factor) in headings.items()
                for text in (
                    value_and_interval(by_metric[metric.name], factor)
                    if metric.name in by_metric
                    else ("-", "-")
                )
            ),
        ]
        for label, by_metric in cells.items()
    ]
    return ReportTable(
        ["cell", *(text for heading, _ in headings.values() for text in (heading, level))],
        rows,
        title,
        notes=[note],
        left=frozenset({"cell"}),
    )


FSYNC = "+fsync"


def _per_byte(live: LiveRun) -> float:
    return 1 / overall(live.storage.batches)


def disk_claims(runs: Sequence[LiveRun]) -> list[Statement]:
    """Judge what a disk and a sync cost; the claims were declared before data."""
    statements = []
    for sync, words in (("unsynced", "without a sync"), ("synced", "with a sync at close")):
        text = f"writing to a disk takes longer than to memory, {words}"
        members = [live for live in runs if _sync(live) == sync]
        statements += judged(members, [Claim(text, _per_byte, "memory", "disk")], _place, _cell)
    cost = Claim("a sync at close takes time on a disk", _per_byte, "unsynced", "synced")
    on_disk = [live for live in runs if _place(live) == "disk"]
    return statements + judged(on_disk, [cost], _sync, _cell)


def _sync(live: LiveRun) -> str:
    return "synced" if live.storage.facts.plugin_config.endswith(FSYNC) else "unsynced"


def _place(live: LiveRun) -> str:
    return "memory" if live.storage.facts.file_system in {"tmpfs", "ramfs"} else "disk"


def _cell(live: LiveRun) -> tuple[str, str]:
    facts = live.storage.facts
    return facts.messages, facts.plugin_config.removesuffix(FSYNC)
