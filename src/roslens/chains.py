"""Run ``roslens chains``: end-to-end response times, and whether they meet their requirements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from roslens.analysis.chains.report import ChainsParameters, ChainsReport
from roslens.analysis.chains.tables import (
    chains_table,
    parts_table,
    requirements_table,
    stopped_table,
)
from roslens.analysis.flow.taking_turns import as_yaml
from roslens.output import write_text
from roslens.paths import resolve
from roslens.printed import show_table, show_text
from roslens.recording import EXIT_NOT_ENOUGH_EVIDENCE, EXIT_OK
from roslens.recording.terminal import say
from roslens.recordings import open_recordings

LEAST_SHARE = 0.005
"""The smallest share of the response time of which a part is shown in a terminal."""


def run_chains(
    paths: Sequence[Path],
    requirements: Path | None,
    chains: Sequence[str],
    *,
    bound: bool = False,
    factors: Path | None = None,
    json_file: Path | None,
) -> int:
    """Follow chains, judge and print them; return the exit code of the verb.

    Raises
    ------
    UsageError
        There is no recording, a named chain does not exist, or the file of requirements cannot be
        read.
    """
    given = [resolve(path) for path in paths]
    parameters = ChainsParameters.checked(
        {
            "recordings": [str(path) for path in given],
            "chains": list(chains),
            "requirements": None if requirements is None else str(requirements),
            "bound": bound,
        }
    )
    report = ChainsReport(open_recordings(given, factors=factors), parameters)
    checks = report.checks
    if json_file is not None:
        estimates = [estimate.to_json() for estimate in report.estimates]
        write_text(json_file, checks.json_text(estimates=estimates))
    for sentence in report.answers():
        show_text(sentence)
    if not report.chains:
        return EXIT_NOT_ENOUGH_EVIDENCE
    stopped = stopped_table(report.chains)
    shown = [chains_table(report.chains), *([stopped] if stopped else [])]
    if (slowest := report.slowest_chain) is not None:
        shown.append(parts_table(slowest, LEAST_SHARE))
    if checks.checks:
        shown.append(requirements_table(checks))
    if bound:
        shown.append(report.bounds())
    for table in shown:
        show_table(table)
    if report.suggested_links:
        say("Found, but not declared (a file of requirements can declare it):")
        say(as_yaml(report.suggested_links))
    return checks.exit_code if checks.checks else EXIT_OK
