"""Run ``roslens compare``: load two sides, compare them, and show the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from roslens.analysis.verdicts.comparison import (
    Comparisons,
    compare_levels,
    compare_sides,
)
from roslens.analysis.verdicts.sides import Side
from roslens.compare_shown import chart, comparison_table, summary
from roslens.output import save_plot, write_text
from roslens.printed import (
    print_verdicts,
)
from roslens.recording import EXIT_NOT_ENOUGH_EVIDENCE, EXIT_OK, EXIT_VERDICT, UsageError
from roslens.sides import load_side, values_of_runs

_EXIT_CODES = {
    EXIT_OK: "nothing regressed",
    EXIT_VERDICT: "a regression",
    EXIT_NOT_ENOUGH_EVIDENCE: "not enough evidence",
}


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
