"""``roslens check``: absolute budgets held against recordings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table
from rich.text import Text

from roslens.analysis.estimate import cell_label
from roslens.analysis.reports.numbers import counted, shown_unit, value_and_interval
from roslens.analysis.verdicts.budgets import Budget, Checks, check_budgets, read_budgets
from roslens.analysis.verdicts.comparison import Side
from roslens.compare import load_side, reference, write_text
from roslens.tracing.recording.terminal import Console, say

_STYLES = {"within": "", "exceeded": "bold red", "not_enough_evidence": "yellow"}


def run_check(
    budgets_file: Path, paths: Sequence[Path], *, json_file: Path | None, console: Console
) -> int:
    """Check, print the table, write JSON if asked for; the exit code of the verb."""
    budgets = read_budgets(budgets_file)
    found = check_budgets(budgets, load(budgets, paths))
    if json_file is not None:
        write_text(json_file, found.json_text())
    console.print(checks_table(found))
    say(summary(found))
    return found.exit_code


def load(budgets: Sequence[Budget], paths: Sequence[Path], *, collect: bool = True) -> Side:
    """What the budgets are about: the main topics' estimates, and those of topics they name."""
    metrics = [b.metric for b in budgets]
    side = load_side(paths, metrics, collect=collect)
    topics = list(dict.fromkeys(b.topic for b in budgets if b.topic is not None))
    known = {(e.metric, str(e.cell.get("topic"))) for e in side.estimates}
    if all((b.metric, b.topic) in known for b in budgets if b.topic is not None):
        return side
    named = load_side(paths, metrics, topics, collect=collect)
    with_topic = [e for e in named.estimates if e.cell.get("topic") in topics]
    others = [e for e in side.estimates if e.cell.get("topic") not in topics]
    return Side(
        side.name,
        [*others, *with_topic],
        side.cells,
        side.runs,
        side.left_out,
        side.discarded_events,
    )


def checks_table(found: Checks) -> Table:
    """Each budget with value, interval and verdict; reasons below."""
    notes: list[str] = []
    table = Table()
    for heading in ("budget", "cell"):
        table.add_column(heading, overflow="fold")
    for heading in ("runs", "value", "95 % interval"):
        table.add_column(Text(heading), justify="right")
    table.add_column("verdict")
    for check in found.checks:
        said = list(check.notes)
        if check.runs_needed is not None:
            said.append(f"about {check.runs_needed} runs would probably do")
        references = "".join(f" ({reference(note, notes)})" for note in said)
        verdict = Text(check.verdict + references, style=_STYLES[check.verdict])
        if check.estimate is None:
            cell = cell_label(check.budget.where)
            table.add_row(Text(check.budget.text), Text(cell), "0", "-", "-", verdict)
            continue
        value, interval = value_and_interval(check.estimate)
        unit = shown_unit(check.estimate.unit)[1]
        table.add_row(
            Text(check.budget.text),
            Text(cell_label(check.estimate.cell)),
            str(check.estimate.runs),
            f"{value} {unit}" if check.estimate.value is not None else "-",
            Text(interval),
            verdict,
        )
    lines = [*found.notes, *(f"({i}) {note}" for i, note in enumerate(notes, 1))]
    if lines:
        table.caption = Text("\n".join(lines))
    return table


def summary(found: Checks) -> str:
    """One line: how many of each verdict, and what is exceeded."""
    counts = dict.fromkeys(_STYLES, 0)
    for check in found.checks:
        counts[check.verdict] += 1
    parts = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    cells = len({cell_label(c.estimate.cell) for c in found.checks if c.estimate is not None})
    made = f"{counted(len(found.checks), 'check')} in {counted(cells, 'cell')}"
    exceeded = [c for c in found.checks if c.verdict == "exceeded" and c.confirmed]
    named = "; ".join(
        f"{c.budget.text} ({cell_label(c.estimate.cell)})" for c in exceeded[:5] if c.estimate
    )
    return f"check: {made}: {', '.join(parts)}" + (f" - EXCEEDED: {named}" if exceeded else "")
