"""Run ``roslens estimates``: metrics of recordings with their intervals, or why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from roslens.analysis.estimate import Estimate, cell_label, shared_factors
from roslens.analysis.reports.tables import estimates_table
from roslens.collectors.views import instead_of, matching
from roslens.opening import open_as
from roslens.printed import show_table
from roslens.recording import NotEnoughEvidenceError, UsageError
from roslens.recording.terminal import print_json
from roslens.runs import Runs
from roslens.sides import application_only, measured

_SENT = "latency_sent_"


def run_estimates(
    paths: Sequence[Path],
    metrics: Sequence[str],
    topics: Sequence[str],
    *,
    factors: Path | None,
    as_json: bool,
) -> None:
    """Print estimates of recordings: of the named metrics, or all estimates of a report.

    Raises
    ------
    UsageError
        There is no recording, no such topic, or no estimate of a metric.
    NotEnoughEvidenceError
        Nothing can be estimated.
    """
    opened = open_as(Runs, paths, factors=factors)
    existing = opened.names("topic", "publishers", "subscriptions", "messages") if topics else ()
    wanted = [name for topic in topics for name in sorted(matching(topic, existing, "topic"))]
    report, estimates = measured(opened, metrics, wanted)
    if not estimates:
        why = opened.without_ros_events() or f"nothing can be estimated. {report.answers()[0]}"
        raise NotEnoughEvidenceError(why)
    estimated = {estimate.metric for estimate in estimates}
    if absent := [name for name in metrics if name not in estimated]:
        raise UsageError(
            f"there is no metric {absent[0]!r} in these recordings; "
            f"{instead_of(absent[0], estimated)}, and those that 'roslens compare --help' names"
        )
    chosen = [estimate for estimate in estimates if not metrics or estimate.metric in metrics]
    if as_json:
        print_json({"estimates": [estimate.to_json() for estimate in chosen]})
        return
    notes = []
    if not topics:
        everything, chosen = chosen, application_only(chosen)
        every, kept = ({str(e.cell.get("topic")) for e in some} for some in (everything, chosen))
        internal = sorted(every - kept)
        notes += [f"Left out, as every node has it: {', '.join(internal)}."] if internal else []
    if not metrics:
        different = _without_repeats_of_delivered(chosen)
        if len(different) < len(chosen):
            notes.append("latency_sent_* is left out where it is the same as latency_*.")
        chosen = different
    common = shared_factors([estimate.cell for estimate in chosen])
    if all(estimate.cell == common for estimate in chosen):
        common = {}
    notes += [f"In all cells: {cell_label(common)}."] if common else []
    shortened = [
        replace(e, cell={name: level for name, level in e.cell.items() if name not in common})
        for e in chosen
    ]
    table = estimates_table(shortened, "Estimates", most=len(chosen))
    show_table(replace(table, notes=[*notes, *table.notes]))


def _without_repeats_of_delivered(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Drop estimates over sent messages that are those over delivered ones, as none was lost."""

    def shown(e: Estimate, metric: str) -> tuple[object, ...]:
        return metric, cell_label(e.cell), e.value, e.low, e.high, e.refused

    delivered = {shown(e, e.metric) for e in estimates}
    return [
        e
        for e in estimates
        if not e.metric.startswith(_SENT)
        or shown(e, e.metric.replace(_SENT, "latency_", 1)) not in delivered
    ]
