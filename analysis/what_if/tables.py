"""Show a prediction as a table."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from roslens.analysis.estimate import NO_FACTORS
from roslens.analysis.reports.numbers import milliseconds, significant, unit_of_all
from roslens.analysis.reports.table import ReportTable, Sentence
from roslens.analysis.what_if.prediction import BARS, MODEL_ERROR, WOKEN, Predicted, Prediction

_MOST_ROWS = 100
_NAMES = {"latency_p50": "P50", "latency_p99": "P99", "lost": "lost", "cpu": "CPU"}


def prediction_parts(predictions: Mapping[str, Prediction]) -> list[Sentence | ReportTable]:
    """Return the table of each cell, and why nothing is predicted."""
    parts: list[Sentence | ReportTable] = []
    for cell, prediction in predictions.items():
        if prediction.refused is not None:
            where = f"{cell}: " if cell not in ("", NO_FACTORS) else ""
            some = any(figure.value is not None for figure in prediction.figures)
            what = "latency of all together is not" if some else "nothing is"
            parts.append(Sentence(f"{where}{what} predicted: {prediction.refused}.", loud=True))
        if prediction.figures:
            parts.append(prediction_table(prediction, cell))
    return parts


def callback_bounds_table(bounds: pl.DataFrame) -> ReportTable:
    """Return one row per callback of a run: how long it took, and takes at most.

    Parameters
    ----------
    bounds
        Rows of `roslens.analysis.flow.response_bounds.callback_bounds`.
    """
    rows = [
        [
            row["run"], row["kind"] or "-", row["name"] or "-", row["node"] or "-",
            f"{row['executions']:,}",
            milliseconds(row["longest_ns"], 3),
            milliseconds(row["bound_ns"], 3),
            row["refused"] or "",
        ]
        for row in bounds.head(_MOST_ROWS).iter_rows(named=True)
    ]  # fmt: skip
    hidden = bounds.height - len(rows)
    return ReportTable(
        ["run", "kind", "callback", "node", "executions", "longest [ms]", "bound [ms]",
         "why no bound"],
        rows,
        "Callbacks, from when they could begin to their end: the longest, and the bound",
        notes=[f"{hidden:,} more rows are in run.callbacks.bounds()."] if hidden else [],
        left=frozenset({"run", "kind", "callback", "node", "why no bound"}),
    )  # fmt: skip


def prediction_table(prediction: Prediction, cell: str) -> ReportTable:
    """Return one row per figure: recorded, simulated as recorded, predicted with its interval."""
    interval = (
        "Latency is from the first publish event to callback_start, CPU that of callbacks alone. "
        f"The interval is that of a run as long as the recorded ones: {prediction.level:.0%} of "
        f"{prediction.replications} replications of each run ({len(prediction.runs)}), made of "
        "blocks of the recording. "
        "It is widened by the error of the simulation of what was recorded; with changes, that of "
        f"latencies also by the {MODEL_ERROR:.0%} by which predictions were found to be off."
    )
    bars = " or ".join(f"{_NAMES[name]} by more than {bar:.0%}" for name, bar in BARS.items())
    shown = [
        figure
        for figure in prediction.figures
        if figure.metric != "lost" or figure.topic is None or _lost(figure)
    ]
    refused = [f"Refused: the simulation of what was recorded misses {bars}."]
    if not any(figure.refused not in (None, WOKEN) for figure in shown):
        refused = []
    if prediction.refused != WOKEN and any(figure.refused == WOKEN for figure in shown):
        refused.append(f"Refused: {WOKEN}.")
    notes = [*refused, interval, *prediction.assumptions]
    rows = [_row(figure) for figure in shown]
    marked = frozenset(n for n, figure in enumerate(shown) if figure.refused is not None)
    asked = prediction.changes.in_words()
    recorded = f" (recorded: {cell})" if cell not in ("", NO_FACTORS) else ""
    return ReportTable(
        ("what", "topic", "node", "unit", "recorded", "simulated", "predicted", "from", "to"),
        rows,
        f"What if {asked}{recorded}: recorded, simulated as it was recorded, predicted",
        notes=notes,
        marked=marked,
        left=frozenset(("what", "topic", "node", "unit")),
        minor=("simulated", "node"),
    )


def _lost(figure: Predicted) -> bool:
    return any(
        number is not None and number > 0 for number in (figure.recorded, figure.value, figure.high)
    )


def _row(figure: Predicted) -> list[str]:
    numbers = (figure.recorded, figure.simulated, figure.value, figure.low, figure.high)
    factor, unit = unit_of_all(numbers, figure.unit)
    shown = [significant(None if number is None else number * factor, 3) for number in numbers]
    if figure.refused is not None:
        shown[2:] = ["refused", "-", "-"]
    return [_NAMES[figure.metric], figure.topic or "all", figure.node or "", unit, *shown]
