"""Build the first screen of a report: its answer in a sentence, one picture, and basic facts.

Also build sentences that several reports have in their answers: on the largest effect, on P99, and
on loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from math import inf, log
from typing import NamedTuple

from roslens.analysis.estimate import Estimate, cell_label, not_none
from roslens.analysis.figures.drawing import Drawing
from roslens.analysis.figures.plot import Plot
from roslens.analysis.measures.loss import undeclared_gaps
from roslens.analysis.measures.samples import RunSamples
from roslens.analysis.reports.given import Tables
from roslens.analysis.reports.numbers import (
    counted,
    seen,
    shown_unit,
    significant,
    value_and_interval,
)
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.runs import Run
from roslens.analysis.statistics.factorial import BY_BLOCK, FactorEffect
from roslens.collectors import times
from roslens.recording.text import shown_lines, some_of

_MOST_TOLD = 5


@dataclass(frozen=True)
class Front:
    """The first screen of a report.

    Attributes
    ----------
    sentences
        The sentences, the answer first.
    picture
        The figure that shows the answer; None if there is nothing to draw.
    facts
        What was recorded, by name; unknown facts are left out.
    loud
        Names of facts that must not be overlooked.
    around
        What happened around the moment of a trigger.
    """

    sentences: Sequence[str]
    picture: Plot | None
    facts: Mapping[str, str]
    loud: frozenset[str] = frozenset()
    around: Sequence[Drawing | ReportTable] = ()

    def _repr_html_(self) -> str:
        first, *more = self.sentences
        facts = "".join(
            f"<span{_LOUD if name in self.loud else ''}><b>{escape(name)}</b> {escape(text)}</span>"
            for name, text in self.facts.items()
        )
        return (
            f'<div class="roslens-front"><p class="roslens-answer">{escape(first)}</p>'
            + "".join(f"<p>{escape(text)}</p>" for text in more)
            + "".join(part._repr_html_() for part in self.around)
            + (self.picture._repr_html_() if self.picture else "")
            + (
                f'<p class="roslens-note">{escape(self.picture.left_out)}</p>'
                if self.picture and self.picture.left_out
                else ""
            )
            + f'<p class="roslens-facts">{facts}</p></div>'
        )

    def __repr__(self) -> str:
        facts = "; ".join(f"{name}: {text}" for name, text in self.facts.items())
        picture = [str(self.picture)] if self.picture else []
        lines = [*self.sentences, *map(str, self.around), *picture, facts]
        return shown_lines("\n".join(lines))


_LOUD = ' class="roslens-loud"'
_SHOWN = (("software", "ROS 2"), ("software", "RMW"), ("tracing", "tracer"), ("machine", "CPU"))
_DISTROS = {"4.1": "humble", "6.3": "iron", "8.2": "jazzy", "8.6": "kilted"}
"""Names of distributions by major and minor version of tracetools."""


def distros_of(runs: Sequence[Run], tracetools: Iterable[str]) -> list[str]:
    """Return the names of ROS 2 distributions, from manifests and versions of tracetools."""
    stated = {run.ros_distro for run in runs if run.ros_distro}
    derived = (_DISTROS.get(".".join(version.split(".")[:2])) for version in tracetools)
    return sorted(stated.union(filter(None, derived)))


def facts_of(tables: Tables, left_out: int) -> tuple[dict[str, str], frozenset[str]]:
    """Return what was recorded, in a few words each, and which facts must not be overlooked."""
    runs, losses = tables.runs, tables.tracer_loss
    if not runs:
        return {}, frozenset()
    undeclared = undeclared_gaps(tables.table("health"))
    # Bare traces have no manifest.
    processes = tables.table("processes").collect()
    facts: dict[str, str] = {}
    suites = sorted({f"{run.suite}/{run.campaign}" for run in runs if run.suite})
    bare = [run.name for run in runs if not run.suite]
    if suites:
        facts["suite"] = some_of(suites, 2)
    if bare:
        facts["recording"] = some_of(bare, 2)
    begun = {run.start_ns for run in runs if run.start_ns is not None} or set(
        processes["begin_ns"].drop_nulls()
    )
    dates = sorted(f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d}" for ns in begun)
    if dates:
        facts["recorded"] = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    facts["runs"] = f"{len(runs)}" + (f" ({left_out} left out)" if left_out else "")
    by_trace = {
        "ROS 2": distros_of(runs, processes["tracetools_version"].drop_nulls().unique()),
        "RMW": processes["rmw"].drop_nulls().unique().sort().to_list(),
    }
    for kind, name in _SHOWN:
        manifests = sorted(
            {value for run in runs if (value := run.environment.get(kind, {}).get(name))}
        )
        values = manifests or by_trace.get(name, [])
        if values:
            facts[name] = some_of(values, 2)
    discarded = sum(loss.discarded_events for loss in losses)
    packets = sum(loss.lost_packets for loss in losses)
    cut = sum(loss.truncated for loss in losses)
    lost = [f"{n:,} {noun}" for n, noun in ((discarded, "events"), (packets, "packets")) if n]
    lost += [f"{cut} streams cut off"] if cut else []
    lost += [f"events in {undeclared:,} places without saying so"] if undeclared else []
    facts["tracer lost"] = ", ".join(lost) or "nothing"
    loud = {"tracer lost"} if lost else set()
    disturbed = sum(bool(run.disturbances) for run in runs)
    if disturbed:
        facts["disturbed"] = f"{disturbed} of {len(runs)} runs"
        loud.add("disturbed")
    return facts, frozenset(loud)


def trigger_sentences(runs: Sequence[Run]) -> list[str]:
    """Return a sentence for each of the first times that a trigger hit."""
    hits = [(run, hit) for run in runs for hit in run.triggered]
    sentences = [
        f"Triggered{f' in {run.name}' if len(runs) > 1 else ''} at {utc(hit.at_ns)}: "
        f"{hit.trigger}{seen(hit)}."
        for run, hit in hits[:_MOST_TOLD]
    ]
    more = len(hits) - len(sentences)
    return [*sentences, *([f"Triggers hit {more} more times."] if more else [])]


def utc(time_ns: int) -> str:
    """Format a time as ``2026-11-23 14:03:21.123 UTC``."""
    return f"{times.utc(time_ns)[:-3]} UTC"


def with_interval(estimate: Estimate) -> str:
    """Return ``0.642 ms [0.610, 0.674]``, or the value alone if the interval is refused."""
    value, interval = value_and_interval(estimate)
    bounds = "" if estimate.low is None else f" {interval}"
    return f"{value} {shown_unit(estimate.unit)[1]}{bounds}"


def effect_sentence(
    found: Sequence[FactorEffect], what: str, at_p99: Sequence[FactorEffect] = ()
) -> str | None:
    """Return a sentence on the largest significant main effect; None if there is none.

    Parameters
    ----------
    what
        Name of the quantity that is larger or smaller, such as ``the median latency``.
    at_p99
        The effects on P99: the sentence says if they significantly point the other way.
    """
    sure = [e for e in found if len(e.factors) == 1 and _is_sure(e)]
    if not sure:
        return None
    e = max(sure, key=lambda effect: abs(log(not_none(effect.value))))
    ratio = not_none(e.value), not_none(e.low), not_none(e.high)
    more, less, how = larger_first(str(e.levels[0]), str(e.references[0]), ratio)
    replications = counted(e.replications, "repetition" if e.method == BY_BLOCK else "run")
    return (
        f"{what} with {e.factors[0]} {more} is {how.relation} with {less}: {how.numbers}, "
        f"from {replications}{_contrary(e, at_p99)}."
    )


def _is_sure(effect: FactorEffect) -> bool:
    """Return whether the interval of a ratio excludes 1, also after Holm's correction."""
    e = effect
    if e.scale != "ratio" or e.value is None or e.low is None or e.high is None:
        return False
    return (e.low > 1 or e.high < 1) and (e.p_holm is None or e.p_holm < 0.05)


def _contrary(effect: FactorEffect, at_p99: Sequence[FactorEffect]) -> str:
    key = (effect.factors, effect.levels, effect.references)
    for e in at_p99:
        if (e.factors, e.levels, e.references) == key and _is_sure(e):
            contrary = (not_none(e.value) - 1) * (not_none(effect.value) - 1) < 0
            return "; at P99 it is the other way round" if contrary else ""
    return ""


def p99_sentences(
    fast: tuple[str, Estimate], slow: tuple[str, Estimate], at_p99: Sequence[Estimate]
) -> list[str]:
    """Return a sentence if the P99 of two cells, each with its name, are in another order.

    It is the other order only if their intervals lie apart.
    """
    by_cell = {str(e.cell): e for e in at_p99 if e.value is not None}
    a, b = (by_cell.get(str(e.cell)) for _, e in (fast, slow))
    if not a or not b or not_none(a.value) <= not_none(b.value):
        return []
    sure = None not in (a.low, b.high) and not_none(a.low) > not_none(b.high)
    order = "it is the other way round" if sure else "they cannot be told apart"
    return [f"At P99 {order}: {with_interval(a)} ({fast[0]}) and {with_interval(b)} ({slow[0]})."]


class Ratio(NamedTuple):
    """A ratio above 1 in words."""

    relation: str
    numbers: str


def larger_first(
    level: str, reference: str, ratio: tuple[float, float, float]
) -> tuple[str, str, Ratio]:
    """Return the larger of two levels, the smaller, and their ratio in words.

    Parameters
    ----------
    ratio
        Ratio level / reference with its interval.

    >>> larger_first("a", "b", (0.5, 0.4, 0.625))
    ('b', 'a', Ratio(relation='2 times that', numbers='2.00 [1.60, 2.50]'))
    """
    value, low, high = ratio
    if 0 < value < 1:
        level, reference = reference, level
        value, low, high = 1 / value, 1 / high, 1 / low if low > 0 else inf
    times = f"{value:,.2g}" if value < 100 else f"{value:,.0f}"
    relation = f"{times} times that" if value >= 2 else f"{100 * (value - 1):.0f} % above that"
    shown = [f"{number:.2f}" if number < 100 else f"{number:,.0f}" for number in (value, low, high)]
    return level, reference, Ratio(relation, f"{shown[0]} [{shown[1]}, {shown[2]}]")


def loss_sentence(
    samples: Sequence[RunSamples],
    losses: Sequence[Estimate],
    labels: Mapping[str, str] | None = None,
) -> str:
    """Say how many messages did not arrive, how many are uncertain, and where most were lost.

    Uncertain messages are never said to have arrived.

    Parameters
    ----------
    samples
        Samples of the runs that count.
    losses
        The estimated fraction lost of each cell.
    labels
        Short labels of cells by `cell_label`; None: `cell_label` itself is used.
    """
    counts = [(s.lost, s.sent, s.unknown, s.outcomes.get("not_matched", 0)) for s in samples]
    sentence = (
        arrival_sentence(*map(sum, zip(*counts, strict=True))) if counts else arrival_sentence()
    )
    worst = _worst(losses) if any(s.sent for s in samples) else None
    if worst is not None and len(losses) > 1:
        label = cell_label(worst.cell)
        sentence = f"{sentence[:-1]}; most with {(labels or {}).get(label, label)}: {_part(worst)}."
    elif worst is not None and any(s.unknown for s in samples):
        sentence = f"{sentence[:-1]}; so {_part(worst)} were lost."
    return sentence


def arrival_sentence(missed: int = 0, known: int = 0, unknown: int = 0, early: int = 0) -> str:
    """Say how many messages did not arrive, and of how many that is not known.

    Parameters
    ----------
    missed, known
        Number of messages that did not arrive, and of those whose fate is known.
    unknown, early
        Number of messages of unknown fate, and of those from before their subscription took any.
    """
    was = "was" if early == 1 else "were"
    before = f"{early:,} {was} published before their subscription first took one of that publisher"
    if not known + unknown:
        all_before = before if early == 1 else f"all {before}"
        return f"Nothing can be said of loss: {all_before if early else 'no message was sent'}."
    if not known:
        whether = "it" if unknown == 1 else "they"
        return f"Of {counted(unknown, 'message')} nobody can say whether {whether} arrived."
    if missed:
        sentence = f"{missed:,} of {counted(known, 'message')} did not arrive"
    elif unknown:
        some = f"None of {known:,} messages is known to be lost"
        sentence = "1 message arrived" if known == 1 else some
    else:
        sentence = "The only message arrived" if known == 1 else f"All {known:,} messages arrived"
    if unknown:
        sentence += f"; of {unknown:,} more nobody can say"
    if early:
        sentence += f"; {before}, and {'counts' if early == 1 else 'count'} neither way"
    return sentence + "."


def _worst(losses: Sequence[Estimate]) -> Estimate | None:
    """Return the estimate of the cell where most may be lost; None if nothing may be lost."""

    def most(e: Estimate) -> float:
        if e.bounds is not None:
            return e.bounds[1]
        return -1.0 if e.value is None else e.value

    worst = max(losses, key=most, default=None)
    return None if worst is None or most(worst) <= 0 else worst


def _part(loss: Estimate) -> str:
    if loss.bounds is not None:
        low, high = loss.bounds
        return f"between {significant(100 * low, 3)} % and {significant(100 * high, 3)} %"
    if loss.low is None:
        return f"{significant(100 * not_none(loss.value), 3)} %"
    return f"{with_interval(loss)} ({loss.runs} runs may lack a kind of run that differs)"
