"""Run the verbs ``catalog`` and ``trend``, and show their results."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl
import polars.selectors as cs
from rich.markup import escape
from rich.progress import MofNCompleteColumn

from roslens.analysis.estimate import cell_label
from roslens.analysis.reports.numbers import shown_unit, significant
from roslens.analysis.reports.table import ReportTable, reference
from roslens.analysis.statistics.ratio import Effect
from roslens.analysis.verdicts.trend import Series, Trends, find_trends
from roslens.compare import parse_threshold
from roslens.fleet.catalog import Catalog, Changes, default_file
from roslens.fleet.cluster import Workers
from roslens.fleet.selection import Selection, Written
from roslens.fleet.series import series_of
from roslens.fleet.trees import open_tree, parent
from roslens.output import save_plot, write_text
from roslens.printed import labels_of, numbered, print_verdicts, show_table, shown_change
from roslens.progress import progress_bar
from roslens.recording import UsageError
from roslens.recording.terminal import Console, say
from roslens.recording.text import some_of
from roslens.tracing.claim import is_claimed

_MOST_PROBLEMS = 20
_MOST_ODD = 5


def updated(
    where: str,
    file: Path | None,
    suites: Sequence[str],
    *,
    collect: bool,
    workers: Workers,
    console: Console,
) -> tuple[Catalog, Changes]:
    """Update the catalog of a place, with a progress bar.

    Raises
    ------
    UsageError
        The place has no recording, or none of one of `suites`.
    """
    tree = open_tree(where)
    catalog = Catalog(tree, default_file(tree) if file is None else file)
    with progress_bar(MofNCompleteColumn(), console) as progress:
        task = progress.add_task("looking for recordings", total=None)

        def step(done: int, total: int) -> None:
            progress.update(task, description="recordings", completed=done, total=total)

        changes = catalog.update(collect=collect, workers=workers, progress=step)
    if unknown := [suite for suite in suites if not catalog.select(suite=suite)]:
        existing = catalog.frame.collect()["suite"].unique().drop_nulls()
        raise UsageError(
            f"{catalog.tree.where}: no suite {' or '.join(map(repr, unknown))}; "
            f"there are {', '.join(sorted(existing)) or 'none'}"
        )
    return catalog, changes


def show_catalog(
    found: Catalog,
    changes: Changes,
    chosen: Selection,
    console: Console,
    written: Written | None = None,
) -> None:
    """Print recordings by suite, then unreadable recordings, then the catalog's file."""
    rows = chosen.rows
    groups = (
        rows.group_by("suite", "distro")
        .agg(
            pl.col("campaign").n_unique(),
            pl.len(),
            (pl.col("status") == "complete").sum().alias("complete"),
            pl.col("collected").sum(),
            pl.col("discarded_events").sum(),
            pl.col("start").min().dt.strftime("%Y-%m-%d").alias("first"),
            pl.col("start").max().dt.strftime("%Y-%m-%d").alias("last"),
        )
        .sort("suite", "distro")
    )
    columns = ["suite", "distro", "campaigns", "runs", "complete", "collected", "discarded",
               "first", "last"]  # fmt: skip
    texts = [["-" if value is None else str(value) for value in row] for row in groups.iter_rows()]
    title = f"{len(chosen):,} of {changes.recordings:,} recordings"
    left = frozenset({"suite", "distro", "first", "last"})
    show_table(ReportTable(columns, texts, title, left=left))
    problems = rows.filter(pl.col("problem").is_not_null())
    for path, problem in problems.select("path", "problem").head(_MOST_PROBLEMS).iter_rows():
        console.print(f"[red]failed:[/] {escape(path)}: {escape(problem)}", soft_wrap=True)
    if problems.height > _MOST_PROBLEMS:
        console.print(f"... and {problems.height - _MOST_PROBLEMS:,} more", style="red")
    say(f"{changes.renewed:,} new or changed, {changes.removed:,} gone")
    if written is not None:
        say(f"dataset: {written.files:,} files, {written.new:,} new, {written.removed:,} gone")
    say(found.file)


def print_json(chosen: Selection) -> None:
    """Print the rows as JSON, one object per line, with null for non-finite numbers."""
    numbers = pl.when(cs.float().is_finite()).then(cs.float())
    for row in chosen.rows.drop("stamp").with_columns(numbers).iter_rows(named=True):
        row["factors"] = None if row["factors"] is None else json.loads(row["factors"])
        row["packages"] = None if row["packages"] is None else json.loads(row["packages"])
        sys.stdout.write(json.dumps(row, default=str, allow_nan=False) + "\n")


def run_trend(
    found: Catalog,
    metrics: Sequence[str],
    *,
    suites: Sequence[str],
    since: str | None,
    threshold: str,
    false_alarms: str,
    json_file: Path | None,
    plot_file: Path | None,
    markdown: bool = False,
) -> int:
    """Detect changes over time, print them, write the requested files; return the exit code."""
    fraction = parse_threshold(threshold)
    rate = parse_threshold(false_alarms, "--false-alarms")
    chosen = found.select(suite=suites or None, since=since).rows
    # Those whose manifest cannot be read may be of any suite.
    unread = found.select(since=since, where=pl.col("suite").is_null()).rows
    rows = pl.concat([chosen, unread]).unique("path")
    recorded = [
        path
        for path in rows.filter(status="running")["path"]
        if is_claimed(Path(found.tree.address(parent(path))))
    ]
    series, left_out = series_of(rows.filter(~pl.col("path").is_in(recorded)), metrics)
    if recorded:
        left_out.append(f"{len(recorded)} recordings are still being made and are left out")
    if not series:
        raise UsageError(
            f"{found.tree.where}: no run of a campaign has a value of "
            f"{', '.join(metrics)}; {'; '.join(left_out) or 'no recording is left of them'}"
        )
    trends = find_trends(series, fraction, rate)
    if json_file is not None:
        write_text(json_file, trends.json_text())
    if plot_file is not None:
        from roslens.analysis.figures.trend import trend_plot  # noqa: PLC0415  (matplotlib)

        save_plot(plot_file, trend_plot(trends))
    print_verdicts(trend_table(trends, left_out), summary(trends), markdown=markdown)
    return trends.exit_code


def trend_table(trends: Trends, left_out: Sequence[str] = ()) -> ReportTable:
    """Build a table of changes with their software changes; an unchanged series has one row."""
    notes = [*left_out, *filter(None, map(_outlying_campaigns, trends.series))]
    labels, common = labels_of([series.cell for series in trends.series])
    rows = []
    for series, label in zip(trends.series, labels, strict=True):
        factor, unit = shown_unit(series.unit)
        name = (f"{series.metric} [{unit}]", label, str(len(series.nights)))
        if series.refused is not None or not series.changes:
            means = [sum(n.values) / len(n.values) for n in series.nights]
            level = series.levels[-1][1] if series.levels else sum(means) / len(means)
            outcome = "no change found" if series.refused is None else "not_enough_evidence"
            reasons = filter(None, (series.refused, _detectable_steps(series)))
            verdict = outcome + "".join(f" ({reference(note, notes)})" for note in reasons)
            rows.append([verdict, *name, "", "", significant(level * factor), "", ""])
        for change in series.changes:
            night = series.nights[change.index]
            lasts = "" if change.lasts or change.verdict != "regression" else " (no longer)"
            rows.append(
                [
                    change.verdict + lasts,
                    *name,
                    f"{night.campaign}, {night.start:%Y-%m-%d}",
                    significant(change.before.mean * factor),
                    significant(change.after.mean * factor),
                    _percent(change.effect),
                    "; ".join(
                        f"{n} {_short_version(a)} -> {_short_version(b)}"
                        for n, a, b in change.software
                    ),
                ]
            )
    left = ("verdict", "metric", "cell", "since", "changed with it")
    table = ReportTable(
        [
            *("verdict", "metric", "cell", "campaigns", "since", "before", "after"),
            *("worse by [%]", "changed with it"),
        ],
        rows,
        "Changes over time",
        left=frozenset(left),
    )
    return numbered(table, notes, common)


def _detectable_steps(series: Series) -> str | None:
    if series.least_side is None:
        return None
    return (
        f"a step in {len(series.nights)} campaigns can be distinguished from chance only if "
        f"{series.least_side} or more are on either side of it"
    )


def _outlying_campaigns(series: Series) -> str | None:
    """Name campaigns far from their level, which would hide changes if they counted in full."""
    if not series.odd:
        return None
    factor, unit = shown_unit(series.unit)
    outliers = [series.nights[n] for n in series.odd]
    named = [
        f"{night.campaign} ({significant(sum(night.values) / len(night.values) * factor)} {unit})"
        for night in outliers
    ]
    where = some_of(named, _MOST_ODD)
    return f"{series.metric} ({cell_label(series.cell)}): far from its level in {where}"


def summary(trends: Trends) -> str:
    """Summarize in one line how many series there are, how many changed, and which got worse."""
    changed = sum(bool(series.changes) for series in trends.series)
    short = sum(series.refused is not None for series in trends.series)
    parts = [f"{len(trends.series)} series", f"{changed} with a change"]
    if short:
        parts.append(f"{short} with too little evidence to tell")
    worse = [(series, change) for series in trends.series for change in series.regressions]
    named = "; ".join(_sentence(series, change.index) for series, change in worse[:5])
    tail = f" - REGRESSION: {named}" if worse else ""
    return f"trend: {', '.join(parts)} (threshold {trends.threshold:.3g}){tail}"


def _sentence(series: Series, index: int) -> str:
    return f"{series.metric} ({cell_label(series.cell)}) since {series.nights[index].campaign}"


def _percent(effect: Effect | None) -> str:
    return "-" if effect is None else shown_change(effect.value, effect.low, effect.high)


def _short_version(version: str | None) -> str:
    if version is None:
        return "-"
    commit = len(version) == 40 and all(c in "0123456789abcdef" for c in version)
    return version[:10] if commit else version
