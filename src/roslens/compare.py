"""``roslens compare``: two sides loaded, compared, shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from roslens.analysis.estimate import Estimate, cell_label
from roslens.analysis.metrics import METRICS_NAME, read_metrics
from roslens.analysis.reports.numbers import counted, shown_unit, value_and_interval
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.verdicts.comparison import (
    Comparison,
    Comparisons,
    Side,
    compare_sides,
    label_of,
)
from roslens.printed import labels_of, numbered, print_verdicts
from roslens.recordings import open_recordings, resolve
from roslens.tracing.recording import UsageError
from roslens.tracing.recording.files import replaced_whole, write_atomically
from roslens.tracing.recording.terminal import Console
from roslens.tracing.unpacking import SUFFIXES

if TYPE_CHECKING:
    from roslens.analysis.figures.plot import Plot

_VERDICTS = ("regression", "improvement", "no_difference", "not_enough_evidence")
_WITHIN_REACH = 50
"""More runs than that nobody will make."""
_POWER = 1 + 0.8416 / 1.9600


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
        Those that will be asked for (`roslens.asked_metrics`).
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
    stored = [
        p
        for p in given
        if (p.is_file() and not p.name.endswith(SUFFIXES)) or (p / METRICS_NAME).is_file()
    ]
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
    from roslens.asked_metrics import asked_estimates  # noqa: PLC0415

    parameters = LatencyParameters.checked(
        {"recordings": [str(p) for p in given], "topics": list(topics)}
    )
    report = LatencyReport(open_recordings(given, collect=collect), parameters)
    return Side(
        path.resolve().name,
        [*report.estimates, *asked_estimates(report, metrics)],
        [run.cell for run in report.counting],
        len(report.tables.runs),
        len(report.left_out),
        sum(loss.discarded_events for loss in report.tables.tracer_loss),
        frozenset(run.suite for run in report.tables.runs if run.suite),
        [run.excerpt for run in report.tables.runs if run.excerpt],
    )


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
    markdown: bool = False,
) -> int:
    """Compare, print the table, write what was asked for; the exit code of the verb."""
    fraction = parse_threshold(threshold)
    found = compare_sides(load_side(base, metrics), load_side(new, metrics), metrics, fraction)
    if json_file is not None:
        write_text(json_file, found.json_text())
    if plot_file is not None:
        write_plot(plot_file, found)
    print_verdicts(comparison_table(found), summary(found), console, markdown=markdown)
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


def comparison_table(found: Comparisons) -> ReportTable:
    """Verdict, change with interval, values of both sides; reasons below."""
    notes: list[str] = []
    labels, common = labels_of(
        [c.cell for c in found.compared] + [unmatched.cell for unmatched in found.unmatched]
    )
    rows = []
    for comparison, label in zip(found.compared, labels, strict=False):
        base, unit = _value(comparison.base)
        new, _ = _value(comparison.new)
        references = "".join(f" ({reference(note, notes)})" for note in _all_notes(comparison))
        runs = f"{comparison.base.runs}, {comparison.new.runs}"
        rows.append(
            [
                comparison.verdict + references,
                f"{comparison.metric} [{unit}]",
                label,
                _change(comparison),
                base,
                new,
                runs,
            ]
        )
    for unmatched, label in zip(found.unmatched, labels[len(found.compared) :], strict=True):
        verdict = f"only in {unmatched.only_in.upper()}"
        rows.append([verdict, unmatched.metric, label, "", "", "", ""])
    table = ReportTable(
        ["verdict", "metric", "cell", "worse by [%]", "base", "new", "runs"],
        rows,
        f"{found.base.name} -> {found.new.name}",
        left=frozenset({"verdict", "metric", "cell"}),
    )
    return numbered(table, notes, [*found.notes, *common])


def summary(found: Comparisons) -> str:
    """One line: how many of each verdict, and what regressed."""
    counts = dict.fromkeys(_VERDICTS, 0)
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
    if comparison.runs_needed is not None and comparison.runs_needed <= _WITHIN_REACH:
        notes.append(f"about {comparison.runs_needed} runs on each side would probably do")
    elif comparison.low and comparison.high and comparison.high < 1e6:
        # A change is found with a probability of 0.8 from 1.43 half widths of the interval on.
        least = (comparison.high / comparison.low) ** (_POWER / 2) - 1
        notes.append(f"these runs can show a change from about {100 * least:.2g} % on")
    return notes


def reference(note: str, notes: list[str]) -> int:
    """Number of a note below a table; a new one is added to `notes`."""
    if note not in notes:
        notes.append(note)
    return notes.index(note) + 1
