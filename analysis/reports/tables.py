"""Turn estimates and counts into tables for people."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import polars as pl

from roslens.analysis.estimate import Estimate, cell_label
from roslens.analysis.measures.loss import TracerLoss
from roslens.analysis.measures.samples import RunSamples
from roslens.analysis.reports.numbers import (
    milliseconds,
    significant,
    unit_of_all,
    value_and_interval,
)
from roslens.analysis.reports.table import ReportTable, reference
from roslens.analysis.statistics.factorial import FactorEffect
from roslens.analysis.verdicts.statement import Statement

_MOST_ROWS = 60
_MOST_DEFINITIONS = 3
"""Most definitions that are listed for one metric."""


def tracer_loss_table(losses: Sequence[TracerLoss]) -> ReportTable:
    """Tabulate what the tracer dropped, run by run, for runs with a loss."""
    lossy = [loss for loss in losses if loss.any]
    return ReportTable(
        ["run", "cell", "events discarded", "packets lost", "streams cut off"],
        [
            [
                loss.run.name,
                loss.run.label,
                f"{loss.discarded_events:,}",
                f"{loss.lost_packets:,}",
                f"{loss.truncated:,}",
            ]
            for loss in lossy[:_MOST_ROWS]
        ],
        "Runs in which the tracer lost something",
        notes=hidden_rows(len(lossy)),
        marked=frozenset(range(min(len(lossy), _MOST_ROWS))),
        left=frozenset({"run", "cell"}),
    )


def effects_table(found: Sequence[FactorEffect], of: str) -> ReportTable:
    """Tabulate the main effects and interactions of `factorial.effects`."""
    methods = "; ".join(dict.fromkeys(e.method for e in found if e.refused is None))
    out = max((e.left_out for e in found), default=0)
    notes = [
        "A ratio of 1 is no effect. An interaction is the ratio of two such ratios.",
        "p: adjusted by Holm over this table.",
    ]
    if out:
        notes.append(f"{out} incomplete blocks are left out.")
    return ReportTable(
        ["effect", "ratio", "interval", "p", "repetitions"],
        [
            [
                e.label,
                significant(e.value),
                f"[{significant(e.low)}, {significant(e.high)}]"
                if e.refused is None
                else e.refused,
                "-" if e.p_holm is None else f"{e.p_holm:.2g}",
                str(e.replications),
            ]
            for e in found[:_MOST_ROWS]
        ],
        f"{of}: effects of the factors" + (f" ({methods})" if methods else ""),
        notes=[*notes, *hidden_rows(len(found))],
        left=frozenset({"effect"}),
    )


def health_table(findings: pl.DataFrame) -> ReportTable:
    """Tabulate the findings of `loss.health_findings`."""
    rows = findings.head(_MOST_ROWS)
    return ReportTable(
        ["severity", "finding", "runs", "count", "what it means", "where (first run)"],
        [
            [r["severity"], r["kind"], str(r["runs"]), f"{r['count']:,}", r["what"], r["where"]]
            for r in rows.iter_rows(named=True)
        ],
        "Findings about the recordings, the gravest first",
        notes=hidden_rows(findings.height),
        marked=frozenset(i for i, s in enumerate(rows["severity"]) if s == "error"),
        left=frozenset({"severity", "finding", "what it means", "where (first run)"}),
    )


def outcomes_table(outcomes: pl.DataFrame) -> ReportTable:
    """Tabulate the delivery outcomes per cell of `loss.outcomes_by_cell`."""
    names = [c for c in outcomes.columns if c not in ("cell", "runs", "sent", "missed", "loss")]
    shown = [c for c in names if c != "left_out"]
    rows = [
        [
            r["cell"],
            str(r["runs"]),
            f"{r['sent']:,}",
            f"{r['missed']:,}",
            _loss(r["loss"], r["sent"]),
            *(f"{r[c]:,}" for c in shown),
            f"{r['left_out']:,}",
        ]
        for r in outcomes.iter_rows(named=True)
    ]
    return ReportTable(
        ["cell", "runs", "sent", "did not arrive", "loss", *shown, "warm-up"],
        rows,
        "What became of the messages (one count per message and subscription)",
        notes=[
            "Sent: delivered, taken, lost, replaced, overwritten.",
            "Did not arrive: lost, replaced, overwritten; loss is their part of those sent.",
            "Lost: never taken.",
            "Replaced: newer ones took its place in the keep_last history before it was taken.",
            "Overwritten: the same in an intra-process buffer.",
            "Unknown: the trace's edge, tracer loss or events not recorded forbid saying.",
            "Where unknown ones weigh more than chance, loss is not known.",
            "Not matched: published before the subscription first took one of that publisher.",
            "None of no_subscriber, not_matched and replayed enters a fraction.",
        ],
        marked=frozenset(i for i, missed in enumerate(outcomes["missed"]) if missed),
        left=frozenset({"cell"}),
    )


def _loss(loss: float | None, sent: int) -> str:
    if loss is None:
        return "not known" if sent else "-"
    return f"{significant(100 * loss, 3)} %"


def runs_table(
    losses: Sequence[TracerLoss], samples: Sequence[RunSamples], counting: Sequence[str]
) -> ReportTable:
    """Tabulate every run looked at, whether it counts or not."""
    of_run = {s.run.name: s for s in samples}
    rows, marked = [], set()
    shown = sorted(
        losses,
        key=lambda entry: (entry.run.suite or "", entry.run.campaign or "", entry.run.order or 0),
    )
    for index, loss in enumerate(shown[: 4 * _MOST_ROWS]):
        run, s = loss.run, of_run.get(loss.run.name)
        if not run.complete or loss.any or (s is not None and s.lost):
            marked.add(index)
        status = (run.status or "no manifest") + ("" if run.name in counting else ", left out")
        rows.append(
            [
                run.name,
                run.label,
                _text(run.repetition),
                _text(run.order),
                status + (f": {run.failure}" if run.failure else ""),
                "-" if s is None else f"{s.delivered_ns.size:,}",
                "-" if s is None else f"{s.lost:,}",
                f"{loss.discarded_events:,}",
                "-" if run.steal_fraction is None else f"{100 * run.steal_fraction:.2g} %",
            ]
        )
    return ReportTable(
        [
            *("run", "cell", "repetition", "order", "status"),
            *("delivered", "lost", "events discarded", "steal"),
        ],
        rows,
        "Runs, in the order in which they were made",
        notes=(
            "Steal: CPU time that the hypervisor gave to others during the run.",
            *hidden_rows(len(losses), 4 * _MOST_ROWS),
        ),
        marked=frozenset(marked),
        left=frozenset({"run", "cell", "status"}),
    )


def estimates_table(
    estimates: Sequence[Estimate], caption: str, *, prefix: str = "", most: int = 3 * _MOST_ROWS
) -> ReportTable:
    """Tabulate estimates, one per row, then each reason for refusal once.

    Statistics of one quantity, such as P50 and P99 of the latency, have one unit.

    Parameters
    ----------
    prefix
        Prefix that is removed from the names of metrics.
    """
    rows: list[list[str]] = []
    reasons: list[str] = []
    of_quantity: dict[tuple[str, str], list[float | None]] = {}
    for e in estimates[:most]:
        of_quantity.setdefault(_quantity(e), []).append(e.value)
    units = {key: unit_of_all(values, key[1]) for key, values in of_quantity.items()}
    for e in estimates[:most]:
        factor, unit = units[_quantity(e)]
        value, interval = value_and_interval(e, factor)
        number = f" ({reference(e.refused, reasons)})" if e.refused else ""
        rows.append(
            [
                cell_label(e.cell),
                e.metric.removeprefix(prefix),
                value,
                interval + number,
                unit,
                f"{e.runs:,}",
                f"{e.samples:,}",
                "-" if e.effective_samples is None else f"{e.effective_samples:,.0f}",
            ]
        )
    level = f"{100 * estimates[0].level:g} % interval" if estimates else "interval"
    return ReportTable(
        ["cell", "statistic", "value", level, "unit", "runs", "samples", "effective"],
        without_repeats(rows),
        caption,
        notes=[
            *(f"({i}) refused: {reason}" for i, reason in enumerate(reasons, 1)),
            *hidden_rows(len(estimates), most),
        ],
        left=frozenset({"cell", "statistic", "unit"}),
    )


def _quantity(estimate: Estimate) -> tuple[str, str]:
    """Return the quantity whose statistic an estimate is, with its unit."""
    statistic = re.compile(r"(_sent)?_(mean|max|p[\d.]+)$")
    return statistic.sub("", estimate.metric), estimate.unit


def without_repeats(rows: Sequence[list[str]]) -> list[list[str]]:
    """Blank repeated cells, so that groups are visible."""
    return [["", *row[1:]] if i and rows[i - 1][0] == row[0] else row for i, row in enumerate(rows)]


NO_PATH = "not known: the end of its callback was not recorded"
"""Why a message has no path."""


def worst_table(worst: pl.DataFrame) -> ReportTable:
    """Tabulate `callbacks.worst_messages`, explained (`roslens.analysis.path.late.explained`)."""
    return ReportTable(
        ["", "cause", "share", "run", "topic", "into the run [s]", "latency [ms]", "why"],
        [
            [
                str(number),
                (r["cause"] or "-").replace("_", " "),
                "-" if r["share"] is None else f"{100 * r['share']:.0f} %",
                r["run"],
                r["topic"] or "-",
                "-" if r["since_start_ns"] is None else f"{r['since_start_ns'] / 1e9:.3f}",
                milliseconds(r["latency_ns"]),
                r["sentence"] or NO_PATH,
            ]
            for number, r in enumerate(worst.iter_rows(named=True), 1)
        ],
        f"The {worst.height} delivered messages with the largest latency",
        left=frozenset({"cause", "run", "topic", "why"}),
    )


def durations_table(durations: pl.DataFrame) -> ReportTable:
    """Tabulate `callbacks.durations`."""
    columns = [f"{name}_ns" for name in ("mean", "p50", "p90", "p99", "max")]
    units = [unit_of_all(durations[name].to_list(), "ns") for name in columns]
    rows = [
        [
            r["cell"],
            r["kind"] or "-",
            r["name"] or "-",
            r["node"] or "-",
            f"{r['count']:,}",
            f"{r['unfinished']:,}",
            *(
                significant(None if r[name] is None else factor * r[name], 3)
                for name, (factor, _) in zip(columns, units, strict=True)
            ),
            "-" if r["busy"] is None else f"{100 * r['busy']:.2f}",
        ]
        for r in durations.head(_MOST_ROWS).iter_rows(named=True)
    ]
    return ReportTable(
        [
            *("cell", "kind", "name", "node", "executions", "unfinished"),
            *(
                f"{name} [{unit}]"
                for name, (_, unit) in zip(("mean", "P50", "P90", "P99", "max"), units, strict=True)
            ),
            "busy [%]",
        ],
        without_repeats(rows),
        "Callback durations (callback_start -> callback_end)",
        notes=[
            "A description, without intervals: means over runs; the longest is that of all runs.",
            "-: too few to tell; P50 needs 6 in each run, P90 29, P99 299.",
            "Busy: share of its process's recorded time in which it ran, alone or beside itself.",
            *hidden_rows(durations.height),
        ],
        left=frozenset({"cell", "kind", "name", "node"}),
    )


def definitions_table(estimates: Sequence[Estimate]) -> ReportTable:
    """Tabulate each metric with its definitions, which may differ between cells, and methods."""
    methods: dict[str, dict[str, str]] = {}
    # Estimates with an interval first: only they were computed as their method says.
    for e in sorted(estimates, key=lambda e: e.low is None):
        methods.setdefault(e.metric, {}).setdefault(e.definition, e.method.split(";")[0])
    rows: list[list[str]] = []
    for metric in dict.fromkeys(e.metric for e in estimates):
        given = list(methods[metric].items())
        rows += [[metric, *pair] for pair in given[:_MOST_DEFINITIONS]]
        more = len(given) - _MOST_DEFINITIONS
        if more > 0:
            rows.append([metric, f"{more:,} more, of other cells: see metrics.json", ""])
    return ReportTable(
        ["metric", "definition", "method"],
        without_repeats(rows),
        "What each number is",
        left=frozenset({"metric", "definition", "method"}),
    )


def _text(value: int | None) -> str:
    return "-" if value is None else str(value)


def hidden_rows(count: int, most: int = _MOST_ROWS) -> list[str]:
    """Return a note of how many rows are not shown, if any."""
    more = count - most
    return [f"{more:,} more row{'s are' if more != 1 else ' is'} not shown."] if more > 0 else []


def statements_table(
    found: Sequence[Statement], columns: Mapping[str, str], title: str, notes: Sequence[str] = ()
) -> ReportTable:
    """Tabulate statements with their verdicts; those that the evidence is against are marked.

    Parameters
    ----------
    columns
        Attributes of `Statement` by heading.
    """
    return ReportTable(
        list(columns),
        [[getattr(statement, name) for name in columns.values()] for statement in found],
        title,
        notes=notes,
        marked=frozenset(i for i, statement in enumerate(found) if statement.failed),
        left=frozenset(columns),
    )
