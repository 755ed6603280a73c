"""Run ``roslens check``: check recordings against absolute budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from roslens.analysis.estimate import cell_label
from roslens.analysis.reports.numbers import counted, shown_unit, value_and_interval
from roslens.analysis.reports.table import ReportTable, reference
from roslens.analysis.verdicts.budgets import Budget, Checks, check_budgets, read_budgets
from roslens.analysis.verdicts.sides import Side
from roslens.output import write_text
from roslens.printed import MOST_ROWS, labels_of, more_rows, numbered, print_verdicts
from roslens.runs import Runs
from roslens.sides import load_side

_VERDICTS = ("within", "exceeded", "not_enough_evidence")
_FIRST = ("exceeded", "not_enough_evidence", "within")


def run_check(
    budgets_file: Path,
    paths: Sequence[Path],
    *,
    factors: Path | None = None,
    json_file: Path | None,
    markdown: bool = False,
) -> int:
    """Check, print the table, write JSON on request; return the exit code of the verb."""
    budgets = read_budgets(budgets_file)
    checks = check_budgets(budgets, load(budgets, paths, factors=factors))
    if json_file is not None:
        write_text(json_file, checks.json_text())
    print_verdicts(checks_table(checks), summary(checks), markdown=markdown)
    return checks.exit_code


def load(
    budgets: Sequence[Budget],
    paths: Sequence[Path] | Runs,
    *,
    collect: bool = True,
    factors: Path | None = None,
) -> Side:
    """Load the estimates that budgets need: those of all topics and of the topics they name."""
    metrics = [b.metric for b in budgets]
    side = load_side(paths, metrics, collect=collect, factors=factors)
    topics = list(dict.fromkeys(b.topic for b in budgets if b.topic is not None))
    estimated = {(e.metric, str(e.cell.get("topic"))) for e in side.estimates}
    if all((b.metric, b.topic) in estimated for b in budgets if b.topic is not None):
        return side
    named = load_side(paths, metrics, topics, collect=collect, factors=factors)
    with_topic = [e for e in named.estimates if e.cell.get("topic") in topics]
    rest = [e for e in side.estimates if e.cell.get("topic") not in topics]
    return replace(side, estimates=[*rest, *with_topic])


def checks_table(found: Checks) -> ReportTable:
    """Build a table of each budget's verdict, value and interval, with the reasons below.

    Of very many checks only the first rows are shown, the exceeded ones at the top; a note counts
    the others.
    """
    notes: list[str] = []
    checks = found.checks
    if len(checks) > MOST_ROWS:
        checks = sorted(checks, key=lambda c: (_FIRST.index(c.verdict), not c.confirmed))
    hidden = more_rows((c.verdict for c in checks[MOST_ROWS:]), "--json has")
    checks = checks[:MOST_ROWS]
    cells = [c.budget.where if c.estimate is None else c.estimate.cell for c in checks]
    labels, common = labels_of(cells)
    rows = []
    for check, label in zip(checks, labels, strict=True):
        reasons = list(check.notes)
        if check.runs_needed is not None:
            reasons.append(f"about {check.runs_needed} runs would probably do")
        references = "".join(f" ({reference(note, notes)})" for note in reasons)
        row = [check.verdict + references, check.budget.text, label]
        if check.estimate is None:
            rows.append([*row, "-", "-", "0"])
            continue
        value, interval = value_and_interval(check.estimate)
        unit = shown_unit(check.estimate.unit)[1]
        shown = f"{value} {unit}" if check.estimate.value is not None else "-"
        rows.append([*row, shown, interval, str(check.estimate.runs)])
    table = ReportTable(
        ["verdict", "budget", "cell", "value", "95 % interval", "runs"],
        rows,
        "Budgets",
        left=frozenset({"verdict", "budget", "cell"}),
    )
    return numbered(table, notes, [*hidden, *found.notes, *common])


def summary(found: Checks) -> str:
    """Summarize in one line how many checks have each verdict, and which budgets are exceeded."""
    counts = dict.fromkeys(_VERDICTS, 0)
    for check in found.checks:
        counts[check.verdict] += 1
    parts = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    cells = len({cell_label(c.estimate.cell) for c in found.checks if c.estimate is not None})
    total = f"{counted(len(found.checks), 'check')} in {counted(cells, 'cell')}"
    exceeded = [c for c in found.checks if c.verdict == "exceeded" and c.confirmed]
    named = "; ".join(
        f"{c.budget.text} ({cell_label(c.estimate.cell)})" for c in exceeded[:5] if c.estimate
    )
    return f"check: {total}: {', '.join(parts)}" + (f" - EXCEEDED: {named}" if exceeded else "")
