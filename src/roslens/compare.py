"""``roslens compare``: two sides loaded, compared, shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from roslens.analysis.estimate import Estimate, cell_label
from roslens.analysis.metrics import METRICS_NAME, read_metrics
from roslens.analysis.reports.numbers import counted, shown_unit, value_and_interval
from roslens.analysis.verdicts.comparison import (
    Comparison,
    Comparisons,
    Side,
    compare_sides,
    label_of,
)
from roslens.recordings import open_recordings, resolve
from roslens.tracing.recording import UsageError
from roslens.tracing.recording.files import replaced_whole, write_atomically
from roslens.tracing.recording.terminal import Console, say

if TYPE_CHECKING:
    from roslens.analysis.figures.plot import Plot
    from roslens.analysis.latency.report import LatencyReport

_PERCENTILE = re.compile(r"latency_(?:sent_)?p(\d+(?:\.\d+)?)")
_STYLES = {
    "regression": "bold red",
    "improvement": "green",
    "no_difference": "",
    "not_enough_evidence": "yellow",
}


def load_side(
    paths: Path | Sequence[Path],
    metrics: Sequence[str] = (),
    topics: Sequence[str] = (),
    *,
    collect: bool = True,
) -> Side:
    """Estimates of a metrics.json (or a folder that holds one), or of the recordings below.

    Parameters
    ----------
    paths
        One metrics.json, or recordings and folders that hold some.
    metrics
        Those that will be asked for; a percentile of latency may be any.
    topics
        As in a latency report.
    collect
        Make the tables of recordings where they are missing or out of date.

    Raises
    ------
    UsageError
        There is nothing to read, or a metrics.json beside others.
    """
    given = [resolve(p) for p in ([paths] if isinstance(paths, Path) else paths)]
    stored = [p for p in given if p.is_file() or (p / METRICS_NAME).is_file()]
    if stored and len(given) > 1:
        raise UsageError(f"{stored[0]}: a metrics.json stands alone; give it or recordings")
    path = given[0]
    if stored:
        found = read_metrics(path)
        return Side(
            (path if path.is_dir() else path.parent).resolve().name,
            found.estimates,
            [entry["cell"] for entry in found.recordings],
            len(found.recordings),
            sum(not entry["counts"] for entry in found.recordings),
            sum(entry["discarded_events"] or 0 for entry in found.recordings),
            frozenset(name for e in found.recordings if (name := e.get("suite"))),
            [part for e in found.recordings if (part := e.get("excerpt"))],
        )
    # Loads what draws, which a metrics.json does not need.
    from roslens.analysis.latency.parameters import LatencyParameters  # noqa: PLC0415
    from roslens.analysis.latency.report import LatencyReport  # noqa: PLC0415

    parameters = LatencyParameters.checked(
        {"recordings": [str(p) for p in given], "topics": list(topics)}
    )
    report = LatencyReport(open_recordings(given, collect=collect), parameters)
    return Side(
        path.resolve().name,
        [
            *report.estimates,
            *_further_percentiles(report, metrics),
            *_leaks(report, metrics),
        ],
        [run.cell for run in report.counting],
        len(report.tables.runs),
        len(report.left_out),
        sum(loss.discarded_events for loss in report.tables.tracer_loss),
        frozenset(run.suite for run in report.tables.runs if run.suite),
        [run.excerpt for run in report.tables.runs if run.excerpt],
    )


def _further_percentiles(report: LatencyReport, metrics: Sequence[str]) -> list[Estimate]:
    from roslens.analysis.measures.latency import latency_estimates  # noqa: PLC0415

    asked = {float(m[1]) / 100 for name in metrics if (m := _PERCENTILE.fullmatch(name))}
    wanted = sorted(q for q in asked if 0 < q < 1)
    known = {e.metric for e in report.main_estimates}
    if not wanted or not report.groups:
        return []
    found = latency_estimates(report.samples, report.groups[0], percentiles=wanted)
    return [e for e in found if e.metric not in known]


def _leaks(report: LatencyReport, metrics: Sequence[str]) -> list[Estimate]:
    wanted = [name for name in metrics if name.startswith("memory_slope")]
    if not wanted:
        return []
    from roslens.analysis.leaks.by_cell import slopes_named  # noqa: PLC0415

    return slopes_named(wanted, report.tables.resources, report.messages, report.counting)


def parse_threshold(text: str, option: str = "--threshold") -> float:
    """``5%`` or ``0.05``, as a fraction.

    Raises
    ------
    UsageError
        Neither, or not between 0 and 1.
    """
    number = text.strip()
    percent = number.endswith("%")
    try:
        value = float(number.removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        value = 0.0
    if not 0 < value < 1:
        raise UsageError(f"{option} {text}: give a percentage between 0 and 100, such as 5%")
    return value


def run_compare(
    base: Path,
    new: Path,
    metrics: Sequence[str],
    threshold: str,
    *,
    json_file: Path | None,
    plot_file: Path | None,
    console: Console,
) -> int:
    """Compare, print the table, write what was asked for; the exit code of the verb."""
    fraction = parse_threshold(threshold)
    found = compare_sides(load_side(base, metrics), load_side(new, metrics), metrics, fraction)
    if json_file is not None:
        write_text(json_file, found.json_text())
    if plot_file is not None:
        write_plot(plot_file, found)
    console.print(comparison_table(found))
    say(summary(found))
    return found.exit_code


def write_text(path: Path, text: str) -> None:
    """Write a file whose folder may be missing.

    Raises
    ------
    UsageError
        It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def write_plot(path: Path, found: Comparisons) -> None:
    """Draw the comparison; see `save_plot`."""
    from roslens.analysis.figures.comparison import comparison_plot  # noqa: PLC0415  (matplotlib)

    save_plot(path, comparison_plot(found))


def save_plot(path: Path, plot: Plot) -> None:
    """Write a figure in the format that the file's name ends with.

    Raises
    ------
    UsageError
        It cannot be written, or is of no known format.
    """
    formats = sorted(plot.figure.canvas.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in formats:
        raise UsageError(f"--plot {path}: end the name with one of .{', .'.join(formats)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_whole(path) as part:
            form = path.suffix.lower().removeprefix(".")
            plot.figure.savefig(part, facecolor="white", format=form)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error


def comparison_table(found: Comparisons) -> Table:
    """Values of both sides, change with interval, verdict; reasons below."""
    notes: list[str] = []
    table = Table(title=f"{found.base.name} -> {found.new.name}")
    for heading in ("metric", "cell"):
        table.add_column(heading, overflow="fold")
    for heading in ("runs", "base", "new", "worse by [%]"):
        table.add_column(Text(heading), justify="right")
    table.add_column("verdict")
    for comparison in found.compared:
        base, unit = _value(comparison.base)
        new, _ = _value(comparison.new)
        references = "".join(f" ({reference(note, notes)})" for note in _all_notes(comparison))
        table.add_row(
            Text(f"{comparison.metric} [{unit}]"),
            Text(cell_label(comparison.cell)),
            f"{comparison.base.runs}, {comparison.new.runs}",
            base,
            new,
            Text(_change(comparison)),
            Text(comparison.verdict + references, style=_STYLES[comparison.verdict]),
        )
    for unmatched in found.unmatched:
        empty = ("", "", "", "")
        verdict = Text(f"only in {unmatched.only_in.upper()}", style="yellow")
        table.add_row(Text(unmatched.metric), Text(cell_label(unmatched.cell)), *empty, verdict)
    lines = [*found.notes, *(f"({i}) {note}" for i, note in enumerate(notes, 1))]
    if lines:
        table.caption = Text("\n".join(lines))
    return table


def summary(found: Comparisons) -> str:
    """One line: how many of each verdict, and what regressed."""
    counts = dict.fromkeys(_STYLES, 0)
    for comparison in found.compared:
        counts[comparison.verdict] += 1
    parts = [f"{count} {verdict}" for verdict, count in counts.items() if count]
    cells = len({cell_label(c.cell) for c in found.compared})
    made = f"{counted(len(found.compared), 'comparison')} in {counted(cells, 'cell')}"
    if found.unmatched:
        parts.append(f"{len(found.unmatched)} unmatched")
    confirmed = [c for c in found.compared if c.verdict == "regression" and c.confirmed]
    named = "; ".join(f"{label_of(c)} {_change(c)} %" for c in confirmed[:5])
    tail = f" - REGRESSION: {named}" if confirmed else ""
    return f"compare: {made}: {', '.join(parts)} (threshold {found.threshold:.3g}){tail}"


def _value(estimate: Estimate) -> tuple[str, str]:
    return value_and_interval(estimate)[0], shown_unit(estimate.unit)[1]


def _change(comparison: Comparison) -> str:
    if comparison.ratio is None or comparison.low is None or comparison.high is None:
        return "-"
    low, value, high = (
        f"{100 * (bound - 1):+.1f}" if bound < 1e6 else "inf"
        for bound in (comparison.low, comparison.ratio, comparison.high)
    )
    return f"{value} [{low}, {high}]"


def _all_notes(comparison: Comparison) -> list[str]:
    notes = list(comparison.notes)
    if comparison.runs_needed is not None:
        notes.append(f"about {comparison.runs_needed} runs on each side would probably do")
    return notes


def reference(note: str, notes: list[str]) -> int:
    """Number of a note below a table; a new one is added to `notes`."""
    if note not in notes:
        notes.append(note)
    return notes.index(note) + 1
