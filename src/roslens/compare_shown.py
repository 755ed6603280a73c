"""Show comparisons in a terminal: the table, the sentence above it, the chart in Markdown."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from roslens.analysis.estimate import Estimate, cell_label
from roslens.analysis.reports.numbers import counted, shown_unit, significant, value_and_interval
from roslens.analysis.reports.table import ReportTable, reference
from roslens.analysis.statistics.ratio import Effect
from roslens.analysis.verdicts.comparison import (
    Comparisons,
    Unmatched,
    label_of,
)
from roslens.analysis.verdicts.one_cell import Comparison
from roslens.printed import (
    MOST_ROWS,
    NO_BOUND,
    labels_of,
    more_rows,
    numbered,
    ratio_chart,
    shown_change,
)
from roslens.sides import without_ignored

_OF_LEVELS = {"regression": "worse", "improvement": "better"}
"""The words for verdicts in a comparison where neither side is the old one."""
_BARS = {"regression": "crit", "improvement": "active", "no_difference": "done"}
_MOST_BARS = 30
_WITHIN_REACH = 50
"""The largest number of runs that anybody would make."""
_MOST_CAUSES = 3
_NUMBER = re.compile(r"(?<![\w.,/:-])\d+(?:,\d{3})*(?:\.\d+)?(?![\w/:-])")
"""A number of a note that is no part of a name or version."""
_NOT_IN_PERCENT = ("from 0", "infinite", "from infinite")
_LEAST_CAUSE = 0.001
"""Least part, of the largest cause, that a note names."""


def comparison_table(found: Comparisons) -> ReportTable:
    """Build a table of verdicts, changes with intervals and both sides' values; reasons below.

    Of very many comparisons, only the first rows are shown, the largest changes at the top; a
    note counts the others. What only one side has is counted in a note.
    """
    caption = (
        f"{found.base.name} -> {found.new.name}"
        if found.by is None
        else f"{found.base.name}: levels of {found.by} against each other"
    )
    if not found.compared:
        notes = [*_only_in(found), *found.notes]
        return ReportTable([], [], caption, notes=notes)
    compared, hidden = _first_rows(found)
    by = found.by
    pairs = [[] if by is None else [str(c.cell[by])] for c in compared]
    labels, common = _labels(found, compared)
    each = [_all_notes(comparison) for comparison in compared]
    folded = _folded([note for notes in each for note in notes])
    notes = []
    rows = []
    for comparison, pair, label, own in zip(compared, pairs, labels, each, strict=True):
        base, unit = _value(comparison.base)
        numbers = dict.fromkeys(reference(folded[note], notes) for note in own)
        rows.append(
            [
                _verdict_word(comparison, found) + "".join(f" ({n})" for n in numbers),
                f"{comparison.metric} [{unit}]",
                *pair,
                label,
                _change(comparison),
                base,
                _value(comparison.new)[0],
                f"{comparison.base.runs}, {comparison.new.runs}",
            ]
        )
    ranges = any(folded[note] != note for notes_of_row in each for note in notes_of_row)
    of_each = ["--json has the numbers of each row."] if ranges else []
    of_pairs = ["new / base"] if by is not None else []
    return numbered(
        ReportTable(
            ["verdict", "metric", *of_pairs, "cell", "worse by [%]", "base", "new", "runs"],
            rows,
            caption,
            left=frozenset({"verdict", "metric", "new / base", "cell"}),
        ),
        notes,
        [*hidden, *_only_in(found), *found.notes, *common, *of_each],
    )


def _first_rows(comparisons: Comparisons) -> tuple[Sequence[Comparison], list[str]]:
    """Return the comparisons that a table shows, and a note on the rest."""
    if len(comparisons.compared) <= MOST_ROWS:
        return comparisons.compared, []
    ordered = comparisons.by_interest
    hidden = (_verdict_word(c, comparisons) for c in ordered[MOST_ROWS:])
    return ordered[:MOST_ROWS], more_rows(hidden, "--json and frame() have")


def _labels(
    found: Comparisons, of: Sequence[Comparison | Unmatched]
) -> tuple[list[str], list[str]]:
    """Return short labels of cells, without the level compared, and what all cells share."""
    every: list[Comparison | Unmatched] = [*found.compared, *found.unmatched]
    cells = [c.cell if found.by is None else without_ignored(c.cell, (found.by,)) for c in every]
    labels, common = labels_of(cells) if any(cells) or found.by is None else ([""] * len(cells), [])
    label_by_id = dict(zip(map(id, every), labels, strict=True))
    return [label_by_id[id(c)] for c in of], common


def _only_in(found: Comparisons) -> list[str]:
    """Count what only one side has, with the first of each as an example."""
    notes = []
    for side in ("base", "new") if found.by is None else (None,):
        of_side = [u for u in found.unmatched if side in (None, u.only_in)]
        if of_side:
            (label,), _ = _labels(found, of_side[:1])
            where = f"Only in {side.upper()}" if side else "Only at one of the levels"
            such = f"{of_side[0].metric}{' of ' * bool(label)}{label}"
            notes.append(f"{where}: {len(of_side):,}, such as {such}.")
    return notes


def _folded(notes: Sequence[str]) -> dict[str, str]:
    """Return each note with the range of its numbers over all notes that differ only in these.

    Notes with intervals, which say how much of a change each cause is, stay as they are.
    """
    alike: dict[str, list[str]] = {}
    for note in notes:
        alike.setdefault(note if "[" in note else _NUMBER.sub("#", note), []).append(note)
    return {note: _with_ranges(members) for members in alike.values() for note in members}


def _with_ranges(notes: Sequence[str]) -> str:
    if len(set(notes)) == 1:
        return notes[0]
    ranges = []
    for texts in zip(*map(_NUMBER.findall, notes), strict=True):
        ordered = sorted(set(texts), key=lambda text: float(text.replace(",", "")))
        ranges.append(ordered[0] if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}")
    remaining = iter(ranges)
    return _NUMBER.sub(lambda _: next(remaining), notes[0])


def chart(found: Comparisons) -> str:
    """Draw the changes that have an interval, as in a table; empty if none has."""
    bars = [
        (label_of(c), "" if c.confirmed is False else _BARS.get(c.verdict, ""), c.low, c.high)
        for c in found.by_interest
        if c.low is not None and c.high is not None
    ][:_MOST_BARS]
    if not bars:
        return ""
    limit = ("within the threshold", "done", 1 - found.threshold, 1 + found.threshold)
    return ratio_chart("changes with their intervals, above 1 is worse", [limit, *bars])


def _verdict_word(comparison: Comparison, comparisons: Comparisons) -> str:
    verdict: str = comparison.verdict
    if comparison.confirmed is False and verdict in _OF_LEVELS:
        return f"perhaps {_OF_LEVELS[verdict]}"
    return verdict if comparisons.by is None else _OF_LEVELS.get(verdict, verdict)


def summary(found: Comparisons) -> str:
    """Say what became worse or better, by how much and how sure; then count the verdicts."""
    of_verb = f"compare{'' if found.by is None else f' by {found.by}'}: "
    if not found.compared:
        return f"{of_verb}nothing was compared, as no metric was measured in a cell of both."
    groups: dict[str, list[Comparison]] = {}
    for c in found.by_interest:
        groups.setdefault(_verdict_word(c, found), []).append(c)
    changes = [
        _headline(word, members, found)
        for word, members in groups.items()
        if members[0].verdict in _OF_LEVELS
    ]
    words = {} if found.by is None else _OF_LEVELS
    doubted = Counter(words.get(c.doubted, c.doubted) for c in found.compared if c.doubted)
    counts = [f"{len(members)} {word}" for word, members in groups.items()]
    counts += [f"{count} {word} only with disturbed runs" for word, count in doubted.items()]
    counts += [f"{len(found.unmatched)} unmatched"] if found.unmatched else []
    cells = len({cell_label(c.cell) for c in found.compared})
    total = f"{counted(len(found.compared), 'comparison')} in {counted(cells, 'cell')}"
    parts = [*changes, f"{total}: {', '.join(counts)} (threshold {found.threshold:.3g})."]
    if "not_comparable" in groups:
        parts.append("OTHER MACHINES: see the notes; --across-machines compares them all the same.")
    return of_verb + " ".join(parts)


def _headline(word: str, members: Sequence[Comparison], found: Comparisons) -> str:
    """Say of each metric in how many cells it changed and by how much."""
    of_metric: dict[str, list[Comparison]] = {}
    for c in members:
        of_metric.setdefault(c.metric, []).append(c)
    texts = []
    for metric, changed in of_metric.items():
        count = sum(c.metric == metric for c in found.compared)
        if len(changed) == 1:
            levels = [] if found.by is None else [str(changed[0].cell[found.by])]
            where = ", ".join([*levels, *filter(None, _labels(found, changed)[0] * (count > 1))])
            where = where and f" ({where})"
            texts.append(f"{metric}{where} {_with_unit(changed[0])}")
            continue
        ratios = sorted(c.ratio for c in changed if c.ratio is not None and c.ratio <= NO_BOUND)
        ends = [f"{100 * (ratio - 1):+.1f}" for ratio in (ratios[:1] + ratios[-1:])]
        by_how_much = f", {' to '.join(ends)} %" if len(ratios) == len(changed) else ""
        of_all = counted(count, "cell" if found.by is None else "pair")
        texts.append(f"{metric} in {len(changed)} of {of_all}{by_how_much}")
    text = f"{word.upper() if word == 'regression' else word}: {'; '.join(texts)}"
    if members[0].confirmed is not False:
        return f"{text}."
    runs = min(min(c.base.runs, c.new.runs) for c in members)
    needed = max((c.runs_needed or _WITHIN_REACH + 1 for c in members), default=0)
    enough = f", about {needed} would probably do" if needed <= _WITHIN_REACH else ""
    return f"{text}; not sure with {counted(runs, 'run')} on each side{enough}."


def _value(estimate: Estimate) -> tuple[str, str]:
    return value_and_interval(estimate)[0], shown_unit(estimate.unit)[1]


def _change(comparison: Comparison) -> str:
    if comparison.ratio is None and comparison.verdict in _OF_LEVELS:
        return "from infinite" if comparison.base.value == math.inf else "infinite"
    if comparison.ratio is None or comparison.low is None or comparison.high is None:
        return "-"
    return shown_change(comparison.ratio, comparison.low, comparison.high)


def _with_unit(comparison: Comparison) -> str:
    change = _change(comparison)
    return change if change in _NOT_IN_PERCENT else f"{change} %"


def _bounded(low: float | None, high: float | None) -> bool:
    return low is not None and high is not None and low > 0 and high <= NO_BOUND


def _all_notes(comparison: Comparison) -> list[str]:
    notes = list(comparison.notes)
    undecided = comparison.verdict == "not_enough_evidence" or comparison.confirmed is False
    if (
        comparison.causes
        and comparison.difference is not None
        and comparison.confirmed is not False
    ):
        least = _LEAST_CAUSE * abs(comparison.causes[0][1].value)
        leading = [
            (name, e) for name, e in comparison.causes[:_MOST_CAUSES] if abs(e.value) >= least
        ]
        rest = sum(e.value for _, e in comparison.causes[len(leading) :])
        parts = [f"{_in_ms(effect)} {name}" for name, effect in leading]
        parts += [f"{_signed(rest)} the rest"] if rest and abs(rest) >= least else []
        notes.append(f"{_in_ms(comparison.difference)} ms: {'; '.join(parts)}")
    if comparison.runs_needed is not None and comparison.runs_needed <= _WITHIN_REACH:
        notes.append(f"about {comparison.runs_needed} runs on each side would probably do")
    elif (
        undecided
        and _bounded(comparison.low, comparison.high)
        and (shown := comparison.minimum_detectable) is not None
    ):
        notes.append(f"these runs can show a change from about {significant(100 * shown, 2)} % on")
    return notes


def _in_ms(effect: Effect) -> str:
    return f"{_signed(effect.value)} [{_signed(effect.low)}, {_signed(effect.high)}]"


def _signed(ns: float) -> str:
    """Format a duration in ns as signed ms."""
    return ("+" if ns >= 0 else "-") + significant(abs(ns) / 1e6, 3)
