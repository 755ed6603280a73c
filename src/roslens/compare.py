"""Run ``roslens compare``: load two sides, compare them, and show the result."""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from roslens.analysis.estimate import Cell, Estimate, cell_label
from roslens.analysis.measures.loss import that_may_bias
from roslens.analysis.measures.samples import TopicGroup, run_samples
from roslens.analysis.metrics import METRICS_NAME, read_metrics
from roslens.analysis.reports.numbers import counted, shown_unit, significant, value_and_interval
from roslens.analysis.reports.table import ReportTable, reference
from roslens.analysis.runs import BARE, FOLDER, LeaveOut, Run, cells_of
from roslens.analysis.statistics.factorial import Observation
from roslens.analysis.statistics.ratio import Effect
from roslens.analysis.verdicts.comparison import (
    Comparisons,
    Unmatched,
    compare_levels,
    compare_sides,
    label_of,
)
from roslens.analysis.verdicts.one_cell import Comparison
from roslens.analysis.verdicts.sides import SPLIT, Key, RunsByCause, Side, key_of
from roslens.collectors.topics import INTERNAL
from roslens.opening import open_as
from roslens.paths import resolve
from roslens.printed import (
    MOST_ROWS,
    NO_BOUND,
    labels_of,
    more_rows,
    numbered,
    print_verdicts,
    ratio_chart,
    shown_change,
)
from roslens.recording import EXIT_NOT_ENOUGH_EVIDENCE, EXIT_OK, EXIT_VERDICT, UsageError
from roslens.recording.arrays import Floats, need_numpy
from roslens.recording.errors import writing
from roslens.recording.files import replaced_whole, write_atomically
from roslens.recording.manifest import Level
from roslens.runs import Runs
from roslens.tracing.archive_names import SUFFIXES

if TYPE_CHECKING:
    from roslens.analysis.figures.plot import Plot
    from roslens.analysis.latency.report import LatencyReport

_OF_LEVELS = {"regression": "worse", "improvement": "better"}
"""The words for verdicts in a comparison where neither side is the old one."""
_EXIT_CODES = {
    EXIT_OK: "nothing regressed",
    EXIT_VERDICT: "a regression",
    EXIT_NOT_ENOUGH_EVIDENCE: "not enough evidence",
}
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


def load_side(
    paths: Path | Sequence[Path] | Runs,
    metrics: Sequence[str] = (),
    topics: Sequence[str] = (),
    *,
    collect: bool = True,
    ignore: Sequence[str] = (),
    by: str | None = None,
    factors: Path | None = None,
) -> Side:
    """Load estimates from a metrics.json (or a folder that holds one), or from recordings.

    Parameters
    ----------
    paths
        One metrics.json, or recordings and folders that hold some; or open recordings.
    metrics
        The metrics that will be asked for (`roslens.asked_metrics`).
    topics
        As in a latency report.
    collect
        Whether to make tables of recordings that are missing or out of date.
    ignore
        Factors that are not part of a cell: runs that differ only in these share a cell.
    by
        The factor to compare, which may be the folders of bare traces.
    factors
        A file of factors (`roslens.factors`).

    Raises
    ------
    UsageError
        There is nothing to read, no such topic, a metrics.json is given with other paths, or it has
        estimates for each level of an ignored factor.
    """
    if isinstance(paths, Runs):
        places = [recording.path.resolve() for recording in paths.recordings]
        return _side_of(paths, os.path.commonpath(places), metrics, topics, ignore, by=by)
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
        stored_metrics = read_metrics(path)
        cells: list[Cell] = [entry["cell"] for entry in stored_metrics.recordings]
        counting = [entry for entry in stored_metrics.recordings if entry["counts"]]
        return Side(
            (path if path.is_dir() else path.parent).resolve().name,
            application_only(_without_factors(stored_metrics.estimates, ignore, path)),
            [_without_ignored(entry["cell"], ignore) for entry in counting],
            len(stored_metrics.recordings),
            len(stored_metrics.recordings) - len(counting),
            sum(entry["discarded_events"] or 0 for entry in stored_metrics.recordings),
            frozenset(name for entry in stored_metrics.recordings if (name := entry.get("suite"))),
            [part for entry in stored_metrics.recordings if (part := entry.get("excerpt"))],
            _levels(cells, ignore),
            [stored_metrics.environment_of(entry) for entry in counting],
            {
                entry["run"]: entry["disturbances"]
                for entry in stored_metrics.recordings
                if entry.get("disturbances")
            },
            failed=[
                _without_ignored(entry["cell"], ignore)
                for entry in stored_metrics.recordings
                if not entry["counts"]
            ],
        )
    opened = open_as(Runs, given, factors=factors, collect=collect)
    return _side_of(opened, path.resolve(), metrics, topics, ignore, by=by)


def _side_of(
    opened: Runs,
    path: str | Path,
    metrics: Sequence[str],
    topics: Sequence[str],
    ignore: Sequence[str],
    *,
    by: str | None,
    leave_out: Sequence[LeaveOut] = (),
) -> Side:
    if topics:
        opened.check_topics(topics)
    pooled = _with_cells(
        opened, {run.name: _without_ignored(run.cell, ignore, by) for run in opened.runs}
    )
    report, estimates = measured(pooled, metrics, topics, leave_out)
    disturbed = {run.name: run.disturbances for run in report.tables.runs if run.disturbances}
    rest = partial(_side_of, opened, path, metrics, topics, ignore, by=by, leave_out=["disturbed"])
    counting = [run for members in cells_of(report.counting).values() for run in members]
    return Side(
        Path(path).name,
        estimates if topics else application_only(estimates),
        [run.cell for run in counting],
        *report.run_counts,
        that_may_bias(report.tables.tracer_loss),
        frozenset(run.suite for run in report.tables.runs if run.suite),
        [run.excerpt for run in report.tables.runs if run.excerpt],
        _levels([run.cell for run in opened.runs], ignore),
        [run.environment for run in counting],
        disturbed,
        by_cause=lambda cells: _by_cause(report, cells),
        undisturbed=rest if disturbed else None,
        failed=[run.cell for run in report.left_out],
    )


def _by_cause(report: LatencyReport, cells: Sequence[Cell]) -> list[RunsByCause | None]:
    from roslens.analysis.path.path import Paths, parts_of_quantile  # noqa: PLC0415

    wanted = set(map(key_of, cells))
    pending = set(wanted)

    def key_in(run: Run, group: TopicGroup) -> Key:
        key = key_of(group.cell(run))
        # The other side may have the work topic under its name.
        named = key_of({**run.cell, "topic": str(run.work_topic)})
        return named if group.topic is None and key not in wanted else key

    by_run: dict[str, list[tuple[Key, frozenset[str], Floats]]] = {}
    for group in report.groups:
        key = {run.name: key_in(run, group) for run in report.counting}
        runs = [run for run in report.counting if key[run.name] in pending]
        for samples in run_samples(report.messages, runs, group) if runs else ():
            if samples.delivered_ns.size:
                name = samples.run.name
                entry = (key[name], group.topics_of_run[name], samples.delivered_ns)
                by_run.setdefault(name, []).append(entry)
                pending.discard(key[name])
    by_cell: dict[Key, RunsByCause] = {}
    blocks = {run.name: run.block for run in report.counting}
    # The paths of a run serve all its topics; one run at a time limits the memory.
    for name in (run.name for run in report.counting if run.name in by_run):
        paths = Paths.of_run(report.tables, name)
        for cell, topics, delivered_ns in by_run[name]:
            causes = by_cell.setdefault(cell, RunsByCause({metric: [] for metric in SPLIT}, [], []))
            causes.kernel.append(paths.kernel is not None)
            causes.blocks.append(blocks[name])
            for metric, q in SPLIT.items():
                causes.parts[metric].append(parts_of_quantile(paths, topics, delivered_ns, q))
    return [by_cell.get(key_of(cell)) for cell in cells]


def measured(
    opened: Runs,
    metrics: Sequence[str],
    topics: Sequence[str] = (),
    leave_out: Sequence[LeaveOut] = (),
) -> tuple[LatencyReport, list[Estimate]]:
    """Return a latency report, and its estimates along with any of `metrics` that it lacks.

    Parameters
    ----------
    metrics
        The metrics that will be asked for (`roslens.asked_metrics`).
    topics, leave_out
        As in a latency report.

    Raises
    ------
    UsageError
        There is no such topic.
    """
    need_numpy()
    # This import loads plotting code, which a metrics.json does not need.
    from roslens.analysis.latency.report import LatencyParameters, LatencyReport  # noqa: PLC0415
    from roslens.asked_metrics import requested_estimates  # noqa: PLC0415

    places = [str(recording.path) for recording in opened.recordings]
    parameters = LatencyParameters.checked(
        {"recordings": places, "topics": list(topics), "leave_out": list(leave_out)}
    )
    report = LatencyReport(opened, parameters)
    return report, [*report.estimates, *requested_estimates(report, metrics)]


def estimates_of_run(
    path: Path, metrics: Sequence[str], topics: Sequence[str] = ()
) -> list[Estimate]:
    """Return estimates of one run's work topic, else of each topic, without the run's factors.

    Each estimate has a value although one run gives no interval.
    """
    opened = open_as(Runs, [path])
    run_cell = opened.runs[0].cell
    estimates = measured(opened, metrics, topics)[1]
    estimates = estimates if topics else application_only(estimates)
    run_metrics = {e.metric for e in estimates if e.cell == run_cell}
    return [
        replace(e, cell=_without_ignored(e.cell, [*run_cell]))
        for e in estimates
        if e.cell == run_cell or e.metric not in run_metrics
    ]


def _with_cells(opened: Runs, cells: Mapping[str, Cell]) -> Runs:
    """Return the same recordings with their runs assigned to other cells."""
    runs = [replace(run, cell=cells[run.name]) for run in opened.runs]
    return opened.with_runs(runs)


def values_of_runs(
    path: Path,
    metrics: Sequence[str] = (),
    ignore: Sequence[str] = (),
    by: str | None = None,
    factors: Path | None = None,
) -> dict[str, list[Observation]]:
    """Return one value per run by metric, with its cell and block; empty for a metrics.json.

    Each run is measured as a cell of its own, so that every metric has its value.
    """
    given = [resolve(path)]
    if given[0].is_file() or (given[0] / METRICS_NAME).is_file():
        return {}
    opened = open_as(Runs, given, factors=factors)
    separate_runs = _with_cells(opened, {run.name: {BARE: run.name} for run in opened.runs})
    runs = {run.name: run for run in opened.runs}
    observations: dict[str, list[Observation]] = {}
    for e in measured(separate_runs, metrics)[1]:
        if e.value is not None and math.isfinite(e.value):
            more = {name: level for name, level in e.cell.items() if name != BARE}
            run = runs[str(e.cell[BARE])]
            cell = {**_without_ignored(run.cell, ignore, by), **more}
            observations.setdefault(e.metric, []).append(Observation(cell, e.value, run.block))
    return observations


def _without_ignored(cell: Cell, ignore: Sequence[str], by: str | None = FOLDER) -> Cell:
    """Remove ignored factors and names of bare traces, which are the runs of a side."""
    dropped = {*ignore, BARE} | ({FOLDER} - {by})
    return {name: level for name, level in cell.items() if name not in dropped}


def application_only(estimates: list[Estimate]) -> list[Estimate]:
    """Drop the topics that every node has, unless no other topic was heard.

    These topics carry too few messages to judge, so they must not decide a comparison.
    """
    application = [e for e in estimates if e.cell.get("topic") not in INTERNAL]
    return application if any(e.metric.startswith("latency") for e in application) else estimates


def _levels(cells: Sequence[Cell], names: Sequence[str]) -> dict[str, list[Level]]:
    return {n: list(dict.fromkeys(cell[n] for cell in cells if n in cell)) for n in names}


def _without_factors(
    estimates: Sequence[Estimate], ignore: Sequence[str], path: Path
) -> list[Estimate]:
    """Remove factors from estimates; refuse if estimates would have to be pooled."""
    reduced = [replace(e, cell=_without_ignored(e.cell, ignore)) for e in estimates]
    keys = [(e.metric, tuple(sorted(e.cell.items()))) for e in reduced]
    if len(set(keys)) < len(keys):
        raise UsageError(
            f"{path}: a metrics.json has an estimate for each level of {', '.join(ignore)}; to "
            "take these together, give the recordings"
            if ignore
            else f"{path}: two estimates of a metric are of the same cell; make the report again"
        )
    return reduced


def parse_threshold(text: str, option: str = "--threshold") -> float:
    """Parse a threshold such as ``5%`` or ``0.05`` as a fraction.

    Raises
    ------
    UsageError
        The text is neither form, or the value is not between 0 and 1.
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
    new: Path | None,
    metrics: Sequence[str],
    threshold: str,
    *,
    by: str | None = None,
    across: Sequence[str] = (),
    ignore: Sequence[str] = (),
    across_machines: bool = False,
    factors: Path | None = None,
    json_file: Path | None,
    plot_file: Path | None,
    markdown: bool = False,
) -> int:
    """Compare, print the table, write the requested files; return the exit code of the verb.

    Parameters
    ----------
    new
        The new side; None: the levels of `by` in `base` are compared with each other.
    across
        Factors with one level on each side, which differ; cells are matched without them.
    ignore
        Factors whose levels are all pooled.
    across_machines
        Whether to compare sides recorded on different machines.
    factors
        A file of factors (`roslens.factors`).

    Raises
    ------
    UsageError
        The two sides do not fit the request.
    """
    fraction = parse_threshold(threshold)
    if by is not None:
        if new is not None:
            raise UsageError(f"--by {by} compares within one path: leave out {new}")
        if across or by in ignore:
            raise UsageError(f"--by {by} goes with --ignore of other factors only")
        side = load_side(base, metrics, ignore=ignore, by=by, factors=factors)
        _check_ignored({"the recordings": side}, ())
        observed = values_of_runs(base, metrics, ignore, by, factors)
        comparisons = compare_levels(
            side, by, observed, metrics, fraction, across_machines=across_machines
        )
    elif new is None:
        raise UsageError(
            "give two paths, BASE and NEW, or one and --by FACTOR (see 'roslens compare --help')"
        )
    else:
        dropped = [*across, *ignore]
        left, right = (
            load_side(path, metrics, ignore=dropped, factors=factors) for path in (base, new)
        )
        notes = _check_ignored({"BASE": left, "NEW": right}, across)
        comparisons = compare_sides(left, right, metrics, fraction, across_machines=across_machines)
        comparisons = replace(
            comparisons, notes=[*notes, *_why_nothing_compared(comparisons), *comparisons.notes]
        )
    if json_file is not None:
        write_text(json_file, comparisons.json_text())
    if plot_file is not None:
        from roslens.analysis.figures.comparison import comparison_plot  # noqa: PLC0415  (slow)

        save_plot(plot_file, comparison_plot(comparisons))
    picture = chart(comparisons) if markdown else ""
    code = comparisons.exit_code
    meaning = _EXIT_CODES[code] if by is None or code else "every difference is decided"
    sentence = f"{summary(comparisons)} Exit code {code}: {meaning}."
    print_verdicts(comparison_table(comparisons), sentence, markdown=markdown, picture=picture)
    return code


def _check_ignored(sides: Mapping[str, Side], across: Sequence[str]) -> list[str]:
    """Check the ignored factors; return notes on the factors that were left out of the cells.

    Raises
    ------
    UsageError
        No side has such a factor, or a side has several levels of a factor in `across`.
    """
    notes = []
    for name in next(iter(sides.values())).ignored:
        levels_by_side = {
            label: list(map(str, side.ignored[name])) for label, side in sides.items()
        }
        if not any(levels_by_side.values()):
            option = "--across" if name in across else "--ignore"
            factors = sorted({n for side in sides.values() for cell in side.cells for n in cell})
            raise UsageError(
                f"{option} {name}: no run has this factor; the others are: "
                f"{', '.join(factors) or 'none'}"
            )
        listing = ", ".join(
            f"{label} {' and '.join(levels) or 'none'}" for label, levels in levels_by_side.items()
        )
        if name not in across:
            notes.append(f"{name} is ignored ({listing})")
            continue
        for label, levels in levels_by_side.items():
            if len(levels) > 1:
                raise UsageError(
                    f"--across {name}: {label} has several levels ({', '.join(levels)}); give one "
                    f"of them, take them together with --ignore {name}, or compare them with "
                    f"'roslens compare PATH --by {name}'"
                )
        notes.append(f"across {name}: {listing}")
    return notes


def _why_nothing_compared(comparisons: Comparisons) -> list[str]:
    """If nothing was compared, name the factors without common levels and the options that help."""
    if comparisons.compared:
        return []
    sides = [
        [u.cell for u in comparisons.unmatched if u.only_in == side] for side in ("base", "new")
    ]
    differences, options = [], []
    for name in dict.fromkeys(name for cells in sides for cell in cells for name in cell):
        base, new = ({str(cell[name]) for cell in cells if name in cell} for cells in sides)
        if base and new and base.isdisjoint(new):
            levels = [", ".join(sorted(values)) for values in (base, new)]
            differences.append(f"{name} is {levels[0]} in BASE and {levels[1]} in NEW")
            option = "--across" if len(base) == len(new) == 1 else "--ignore"
            options.append(f"{option} {name}")
    if not differences:
        return []
    advice = f"{'; '.join(differences)}. {' '.join(options)}"
    return [f"No cell is in both: {advice} compares them all the same."]


def write_text(path: Path, text: str) -> None:
    """Write a file, and create its folder if missing.

    Raises
    ------
    UsageError, RunFailedError
        The file cannot be written; RunFailedError if the disk is full.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)


def save_plot(path: Path, plot: Plot) -> None:
    """Write a figure in the format given by the file name's suffix.

    Raises
    ------
    UsageError, RunFailedError
        The file cannot be written or its format is unknown; RunFailedError if the disk is full.
    """
    formats = sorted(plot.figure.canvas.get_supported_filetypes())
    if path.suffix.lower().removeprefix(".") not in formats:
        raise UsageError(f"--plot {path}: end the name with one of .{', .'.join(formats)}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replaced_whole(path) as part:
            form = path.suffix.lower().removeprefix(".")
            plot.figure.savefig(part, facecolor="white", format=form)


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
    cells = [c.cell if found.by is None else _without_ignored(c.cell, (found.by,)) for c in every]
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
        return f"{of_verb}nothing was compared, as no metric is of the same cell on both sides."
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
