"""Run ``roslens estimates``: metrics of recordings with their intervals, or why there is none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from roslens.analysis.reports.tables import estimates_table
from roslens.collectors.views import instead_of, matching
from roslens.compare import measured
from roslens.opening import open_as
from roslens.printed import show_table
from roslens.recording import NotEnoughEvidenceError, UsageError
from roslens.runs import Runs


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
    _, estimates = measured(opened, metrics, wanted)
    if not estimates:
        raise NotEnoughEvidenceError(opened.without_ros_events() or "nothing can be estimated")
    estimated = {estimate.metric for estimate in estimates}
    if absent := [name for name in metrics if name not in estimated]:
        raise UsageError(
            f"there is no metric {absent[0]!r} in these recordings; "
            f"{instead_of(absent[0], estimated)}, and those that 'roslens compare --help' names"
        )
    chosen = [estimate for estimate in estimates if not metrics or estimate.metric in metrics]
    if as_json:
        print(json.dumps({"estimates": [estimate.to_json() for estimate in chosen]}, indent=1))
    else:
        show_table(estimates_table(chosen, "Estimates", most=len(chosen)))
