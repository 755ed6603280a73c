"""Check absolute budgets: a metric of a cell is within its limit, beyond it, or uncertain."""

from __future__ import annotations

import difflib
import json
import math
import re
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from roslens.analysis.estimate import Cell, Estimate, cell_label
from roslens.analysis.measures.loss import MAY_BIAS
from roslens.analysis.reports.numbers import counted
from roslens.analysis.statistics import fractions, positive
from roslens.analysis.statistics.ratio import MOST_RUNS, Spread
from roslens.analysis.statistics.student import POWER, t_quantile, t_two_sided
from roslens.analysis.verdicts.one_cell import always_infinite, spread_of, without_value
from roslens.analysis.verdicts.sides import (
    Side,
    disturbed_in_words,
    failed_runs,
    key_of,
    runs_without_messages,
    silent_in_words,
)
from roslens.analysis.verdicts.statement import Tested, Verdict, corrected
from roslens.recording import EXIT_NOT_ENOUGH_EVIDENCE, EXIT_OK, EXIT_VERDICT, UsageError
from roslens.recording.manifest import Level
from roslens.recording.text import some_of
from roslens.recording.yaml_file import read_yaml_file

SCHEMA_VERSION = 1
_KNOWN = re.compile(
    r"loss|time|cpu|startup_cpu|pss|rss|latency_(sent_|corrected_)?(mean|p\d+(\.\d+)?)|"
    r"service_latency_(mean|p\d+)|memory_slope(_rss|_pss|_heap)?(_per_message)?|"
    r"(response_time|callback_duration|period|timer_jitter)_(mean|max|worst|p\d+(\.\d+)?)|"
    r"chain_(rate|complete)|response_time_bound|executor_(busy|wait|callbacks|blocked|overhead|cpu)"
)
"""Metrics that recordings may lack: a budget for one then has no evidence, but is no mistake."""

MOST_BEYOND = 0.01
"""Largest part of further samples that may be beyond the limit of a maximum that is kept."""
_LARGEST = 1e200
_NAMED = 12
"""Most names that are listed if none is near."""

_TEXT = re.compile(
    r"\s*(?P<metric>[A-Za-z_][\w.]*)\s*(?P<sign><=|>=|<|>)\s*"
    r"(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(?P<unit>[%/\w]*)\s*"
)
_EXAMPLE = "write it as 'latency_p99 < 50 ms'"

_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2.0**10, "MiB": 2.0**20}


def _per(unit: str) -> Mapping[str, float]:
    return {f"{name}/{unit}": size for name, size in {**_BYTES, "byte": 1.0}.items()}


_UNITS: Mapping[str, Mapping[str, float]] = {
    "ns": {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9},
    "1": {"": 1, "1": 1, "%": 0.01},
    "Hz": {"Hz": 1, "kHz": 1e3, "1/s": 1},
    "core": {"": 1, "core": 1, "cores": 1, "%": 0.01},
    "byte": {"byte": 1, **_BYTES, "GiB": 2**30},
    **dict.fromkeys(("byte/s", "B/s"), _per("s")),
    **dict.fromkeys(("byte/message", "B/message"), _per("message")),
    "byte/entity": {"B/entity": 1, "byte/entity": 1, "B": 1, "byte": 1},
    "byte/slot": {"B/slot": 1, "byte/slot": 1, "B": 1, "byte": 1},
}
"""Names of accepted units by the unit of a metric, with the size of each in that unit."""


@dataclass(frozen=True)
class Budget:
    """A limit for a metric.

    Attributes
    ----------
    text
        The budget as the user wrote it.
    metric, number, unit
        Name of the metric, the limit and its unit; the unit is checked against the metric's.
    upper
        Whether the metric must stay below the limit (else above).
    where
        Levels that a cell must have for the budget to apply; may include ``topic``.
    """

    text: str
    metric: str
    number: float
    unit: str
    upper: bool
    where: Mapping[str, Level] = field(default_factory=dict)

    @property
    def topic(self) -> str | None:
        """The topic that the budget names, or None."""
        topic = self.where.get("topic")
        return None if topic is None else str(topic)

    def applies_to(self, cell: Cell) -> bool:
        """Return whether `cell` has all the levels, compared as they are or as text."""
        return all(n in cell and str(cell[n]) == str(v) for n, v in self.where.items())

    def limit_in(self, unit: str) -> float:
        """Return the limit in a metric's unit.

        Raises
        ------
        UsageError
            The unit does not fit, or the limit of a fraction is not between 0 and 1.
        """
        sizes = _UNITS.get(unit, {unit: 1})
        if self.unit not in sizes:
            names = ", ".join(name or "(none)" for name in sizes)
            raise UsageError(
                f"budget '{self.text}': {self.metric} cannot be measured in "
                f"{self.unit or 'nothing'}; give one of: {names}"
            )
        limit = self.number * sizes[self.unit]
        if unit == "1" and not 0 <= limit <= 1:
            raise UsageError(
                f"budget '{self.text}': {self.metric} is a fraction: give a limit between 0 and 1, "
                "or between 0 % and 100 %"
            )
        return limit


@dataclass(frozen=True, kw_only=True)
class Check(Tested):
    """The check of one budget against one estimate.

    Attributes
    ----------
    estimate
        The estimate; None if the metric was not measured.
    limit
        The limit in the estimate's unit.
    """

    budget: Budget
    estimate: Estimate | None
    limit: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the check as plain data."""
        return {
            "budget": self.budget.text,
            "where": dict(self.budget.where),
            "limit": self.limit,
            "verdict": self.verdict,
            "confirmed": self.confirmed,
            "p": self.p,
            "p_holm": self.p_holm,
            "runs_needed": self.runs_needed,
            "notes": list(self.notes),
            "estimate": None if self.estimate is None else self.estimate.to_json(),
        }


@dataclass(frozen=True)
class Checks:
    """All checks of one invocation."""

    checks: Sequence[Check]
    notes: Sequence[str] = ()

    @property
    def exit_code(self) -> int:
        """1 if a budget is exceeded after Holm's correction, else 3 if unsure, else 0."""
        if any(c.verdict == "exceeded" and c.confirmed for c in self.checks):
            return EXIT_VERDICT
        if all(c.verdict == "within" for c in self.checks):
            return EXIT_OK
        return EXIT_NOT_ENOUGH_EVIDENCE

    def json_text(self, **more: Any) -> str:
        """Return the checks as JSON text, with the plain data of `more` added."""
        data = {
            **more,
            "schema_version": SCHEMA_VERSION,
            "checks": [c.to_json() for c in self.checks],
            "notes": list(self.notes),
            "exit_code": self.exit_code,
        }
        return json.dumps(data, indent=1, allow_nan=False) + "\n"


def read_budgets(path: Path) -> list[Budget]:
    """Read a YAML file with ``budgets``: a list of texts, or of mappings with ``budget`` and more.

    Raises
    ------
    UsageError
        The file cannot be read, or something in it is not understood.
    """
    data = read_yaml_file(path)
    entries = data.get("budgets") if isinstance(data, dict) else None
    if not isinstance(entries, list) or not entries or set(data) != {"budgets"}:
        raise UsageError(f"{path}: give a list named 'budgets' and nothing else; {_EXAMPLE}")
    budgets = []
    for number, entry in enumerate(entries, 1):
        try:
            budgets.append(parse_budget(entry))
        except UsageError as error:
            raise UsageError(f"{path}: budget {number}: {error}") from error
    return budgets


def parse_budget(entry: object) -> Budget:
    """Parse ``latency_p99 < 50 ms``, or a mapping of ``budget`` to that, ``topic`` and ``where``.

    Raises
    ------
    UsageError
        The entry is neither.
    """
    given = {"budget": entry} if isinstance(entry, str) else entry
    if not isinstance(given, dict) or not isinstance(given.get("budget"), str):
        raise UsageError(f"{entry!r} is no budget; {_EXAMPLE}")
    unknown = set(given) - {"budget", "topic", "where"}
    if unknown:
        raise UsageError(f"unknown key {min(map(str, unknown))!r}; there are budget, topic, where")
    text = " ".join(given["budget"].split())
    match = _TEXT.fullmatch(text)
    number = float(match["number"]) if match else math.nan
    if match is None or not abs(number) < _LARGEST:
        raise UsageError(f"'{text}' is no budget; {_EXAMPLE}")
    percentile = re.search(r"_p(\d+(?:\.\d+)?)$", match["metric"])
    if percentile and not 0 < float(percentile[1]) < 100:
        raise UsageError(
            f"'{text}': there is no percentile P{percentile[1]}; give one above 0 and below 100"
        )
    where = given.get("where") or {}
    if not isinstance(where, dict) or any(
        not isinstance(name, str) or not isinstance(level, (str, int, float, bool))
        for name, level in where.items()
    ):
        raise UsageError(f"'{text}': where is a mapping of factors to levels")
    topic = given.get("topic")
    if topic is not None:
        where = {**where, "topic": str(topic)}
    upper = match["sign"].startswith("<")
    return Budget(text, match["metric"], number, match["unit"], upper, where)


def check_budgets(budgets: Sequence[Budget], side: Side) -> Checks:
    """Check each budget against every cell that it applies to.

    A budget without a topic is about the runs' own cells. If its metric has none of those (runs
    without a work topic have cells per topic, response times one per service), it is about all. A
    cell without an estimate, whether its runs failed or had no value, is not enough evidence.

    Raises
    ------
    UsageError
        A unit does not fit its metric, or a budget is about nothing in the recordings.
    """
    checks: list[Check] = []
    own_cells = [dict(cell) for cell in side.cells]
    for budget in budgets:
        of_metric = [e for e in side.estimates if e.metric == budget.metric]
        matching = [e for e in of_metric if budget.applies_to(e.cell)]
        if budget.topic is None:
            matching = [e for e in matching if dict(e.cell) in own_cells] or matching
            matching += _of_cells_without(matching, of_metric, budget, side)
        if not of_metric and _KNOWN.fullmatch(budget.metric):
            note = "it was not measured in these recordings"
            checks.append(Check(budget=budget, estimate=None, notes=(note,)))
        elif not matching:
            raise UsageError(f"budget '{budget.text}': {_what_is_missing(budget, of_metric, side)}")
        checks += [unless_silent(check(budget, estimate), side, estimate) for estimate in matching]
    notes = []
    if side.discarded_events:
        notes.append(f"the tracer lost {side.discarded_events:,} events: {MAY_BIAS}")
    notes += disturbed_in_words(side)
    if side.left_out:
        notes.append(
            f"{side.left_out} of {side.runs} runs failed or cannot be read, and are left out"
        )
    return Checks(corrected(checks, "checks"), notes)


def _of_cells_without(
    matching: Sequence[Estimate], of_metric: Sequence[Estimate], budget: Budget, side: Side
) -> list[Estimate]:
    """Return a refused estimate for each of the runs' cells that has none of the budget's metric.

    Metrics of other cells, as of all runs with a level, have none to miss.
    """
    cells = {key_of(cell): cell for cell in (*side.cells, *side.failed)}.values()

    def are_of(cell: Cell, estimates: Sequence[Estimate]) -> bool:
        return any(cell.items() <= e.cell.items() for e in estimates)

    if not any(are_of(cell, of_metric) for cell in cells):
        return []
    return [
        without_value(of_metric[0], cell)
        for cell in cells
        if budget.applies_to(cell) and not are_of(cell, matching)
    ]


def unless_silent(check: Check, side: Side, estimate: Estimate) -> Check:
    """Withdraw the verdict "within" if runs failed or had nothing to measure, and say which."""
    silent, failed = runs_without_messages(side, estimate), failed_runs(side, estimate)
    if not silent and not failed:
        return check
    notes = [silent_in_words(silent, estimate)] * bool(silent)
    notes += [f"{counted(failed, 'run')} of this cell failed or cannot be read"] * bool(failed)
    verdict = "not_enough_evidence" if check.verdict == "within" else check.verdict
    return replace(check, verdict=verdict, notes=(*check.notes, *notes))


def _what_is_missing(budget: Budget, of_metric: Sequence[Estimate], side: Side) -> str:
    """Say what part of a budget is not in the recordings, with the nearest names that are."""
    if not of_metric:
        return f"there is no metric {budget.metric!r}; " + nearest(
            budget.metric, {e.metric for e in side.estimates}
        )
    for name, level in budget.where.items():
        levels = {str(e.cell[name]) for e in of_metric if name in e.cell}
        if not levels and name != "topic":
            factors = {n for e in of_metric for n in e.cell}
            return f"{budget.metric} has no factor {name!r}; {nearest(name, factors)}"
        if str(level) not in levels:
            subject = f"topic {level}" if name == "topic" else f"cell with {name}={level}"
            return f"{budget.metric} has no {subject}; {nearest(str(level), levels)}"
    cells = "; ".join(list(dict.fromkeys(cell_label(e.cell) for e in of_metric))[:_NAMED])
    return f"{budget.metric} has no cell with {cell_label(budget.where)}; there are: {cells}"


def nearest(name: str, known: Collection[str]) -> str:
    """Return ``did you mean ...?`` if a known name is near, else a list of known names."""
    close = difflib.get_close_matches(name, sorted(known), n=3)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"there are: {some_of(sorted(known), _NAMED) or 'none'}"


def check(budget: Budget, estimate: Estimate) -> Check:
    """Check a budget against one estimate: the interval must lie on one side of the limit.

    A limit of a maximum is about each sample: one sample beyond it exceeds the budget, whatever the
    interval of the largest sample per run is; it is within only if there are so many samples that
    at most `MOST_BEYOND` of further ones would be beyond it.
    """
    limit = budget.limit_in(estimate.unit)
    result = Check(budget=budget, estimate=estimate, limit=limit, level=estimate.level)
    if (
        budget.upper
        and estimate.metric.endswith("_max")
        and any(map(math.isfinite, estimate.per_run))
    ):
        return _check_maximum(result, estimate, limit)
    if budget.upper and estimate.metric.endswith("_bound") and estimate.value is not None:
        verdict: Verdict = "within" if estimate.value < limit else "exceeded"
        confirmed = True if verdict == "exceeded" else None
        return replace(result, verdict=verdict, confirmed=confirmed, notes=(_OF_BOUND,))
    if budget.upper and always_infinite(estimate):
        return replace(result, verdict="exceeded", confirmed=True, notes=(str(estimate.refused),))
    if estimate.refused is not None or estimate.low is None or estimate.high is None:
        return replace(result, notes=(estimate.refused or "it has no interval",))
    good, bad = (
        (estimate.high < limit, estimate.low > limit)
        if budget.upper
        else (estimate.low > limit, estimate.high < limit)
    )
    verdict = "within" if good else "exceeded" if bad else "not_enough_evidence"
    spread = spread_of(estimate)
    if isinstance(spread, str):
        return replace(result, verdict=verdict, notes=() if good else (spread,))
    needed: int | None = None
    notes: tuple[str, ...] = ()
    away = abs(spread.mean - limit)
    if verdict == "not_enough_evidence" and 0 < spread.deviation < MOST_RUNS * away:
        needed = _runs_needed(estimate, spread, limit)
    elif verdict == "not_enough_evidence" and spread.mean == 0 and 0 < limit < 1:
        messages = fractions.messages_for_none(limit, estimate.level)
        notes = (f"none in {estimate.samples:,}; {messages:,} over all runs would do",)
    return replace(
        result, verdict=verdict, p=_p(estimate, spread, limit), runs_needed=needed, notes=notes
    )


_OF_BOUND = "holds while nothing comes more often or takes longer than in the recording"


def _check_maximum(result: Check, estimate: Estimate, limit: float) -> Check:
    beyond, left_out = sum(largest > limit for largest in estimate.per_run), omissions_of(estimate)
    if beyond:
        note = f"in {beyond} of {estimate.runs} runs at least one is beyond it"
        return replace(result, verdict="exceeded", confirmed=True, notes=(note, *left_out))
    # The bound of Clopper and Pearson (1934) for none of n, one-sided.
    most = fractions.largest_possible(estimate.samples, 2 * estimate.level - 1)
    note = (
        f"none of {estimate.samples:,} is beyond it; if they are independent, at most "
        f"{100 * most:.2g} % would be"
    )
    verdict: Verdict = "within" if most <= MOST_BEYOND else "not_enough_evidence"
    if verdict != "within":
        needed = math.ceil(math.log(1 - estimate.level) / math.log1p(-MOST_BEYOND))
        note += f"; {needed:,} would show that it is 1 % or less"
    return replace(result, verdict=verdict, notes=(note, *left_out))


def omissions_of(estimate: Estimate) -> list[str]:
    """Return what the method of an estimate says of samples and runs that it leaves out."""
    return estimate.method.split("; ")[1:]


def _p(estimate: Estimate, spread: Spread, limit: float) -> float:
    if fractions.METHOD in estimate.method:
        return fractions.p_of(estimate, spread, limit)
    if positive.METHOD in estimate.method:
        return positive.p_of(spread.mean, spread.deviation, spread.runs, limit)
    if spread.deviation == 0:
        return 1.0 if spread.mean == limit else 0.0
    t = abs(spread.mean - limit) / (spread.deviation / math.sqrt(spread.runs))
    return t_two_sided(t, spread.runs - 1)


def _runs_needed(estimate: Estimate, spread: Spread, limit: float) -> int | None:
    """Return the least number of runs whose interval excludes the limit with power `POWER`.

    The mean of that many runs may lie t(`POWER`) standard errors nearer to the limit than the
    present one, and the interval around it has the form of the estimate's own. None beyond
    `MOST_RUNS`.
    """
    away = limit - spread.mean

    def fits(n: int) -> bool:
        nearer = t_quantile(POWER, n - 1) * spread.deviation / math.sqrt(n)
        mean = spread.mean + math.copysign(nearer, away)
        p = _p(estimate, Spread(mean, spread.deviation, n), limit)
        return nearer < abs(away) and p <= 1 - estimate.level

    # The present number of runs was not enough, whatever the formula says.
    more = range(MOST_RUNS + 1)
    return bisect_left(more, True, lo=estimate.runs + 1, key=fits) if fits(MOST_RUNS) else None
