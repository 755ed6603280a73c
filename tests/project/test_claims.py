"""Test that each claim of the four publications is judged by a statement, or says why not."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from roslens.analysis.leaks.statements import leak_statements
from roslens.studies.communication.statements import statements as of_communication
from roslens.studies.executors.statements import (
    OVER_TIME,
    cpu_statement,
    latency_statement,
    payload_statement,
)
from roslens.studies.micro_ros.results.published import read_published
from roslens.studies.micro_ros.slopes import slopes_of, with_totals
from roslens.studies.micro_ros.statements import (
    measured_statements,
    memory_statements,
    published_statements,
)
from roslens.studies.storage.recovery import CLAIMS as OF_RECOVERY
from roslens.studies.storage.statements import STATEMENTS as OF_STORAGE
from roslens.tracing.suite import load_suite

ROOM = Path(__file__).parents[2] / "studies"
CLAIMS = {
    file.parent.name: pl.read_csv(file, infer_schema=False)
    for file in sorted(ROOM.glob("*/claims.csv"))
}


@pytest.fixture(scope="module")
def of_the_figures() -> set[str]:
    """Return what is judged from published figures, those of storage and micro-ROS."""
    published = read_published(ROOM / "micro_ros" / "data")
    slopes = slopes_of(with_totals(published.memory))
    statements = [
        *memory_statements(published.claims, slopes),
        *published_statements(slopes, published.throughput, published.latency),
    ]
    return {*OF_STORAGE.values(), *(statement.claim for statement in statements)}


@pytest.fixture(scope="module")
def of_recordings() -> set[str]:
    """Return what else is judged from recordings; without any, the claims are the same."""
    statements = [
        cpu_statement([], ()),
        latency_statement([]),
        *(claim.judged([]) for claim in OVER_TIME),
        *(payload_statement(quantity, []) for quantity in ("CPU", "Latency")),
        *leak_statements([], []),
        *measured_statements([], []),
        *of_communication([], [], []),
    ]
    return {*OF_RECOVERY.values(), *(statement.claim for statement in statements)}


def test_each_study_has_its_claims() -> None:
    """Two readers independently found these numbers of claims; methods are not claims."""
    assert {study: claims.height for study, claims in CLAIMS.items()} == {
        "storage": 20, "executors": 25, "micro_ros": 26, "communication": 5
    }  # fmt: skip


@pytest.mark.parametrize(
    "row", pl.concat(CLAIMS.values()).iter_rows(named=True), ids=lambda row: row["claim"][:40]
)
def test_a_claim_is_judged_or_says_why_not(
    row: dict[str, str | None], of_the_figures: set[str], of_recordings: set[str]
) -> None:
    # By the publication's own figures: judged, or why not.
    assert row["figures"]
    if row["figures"] == "yes":
        assert row["statement"] in of_the_figures
    elif row["statement"]:
        assert row["statement"] in of_recordings
    # By recordings: the suite that decides, or why there is none.
    assert bool(row["suite"]) != bool(row["why_not"])
    if row["suite"]:
        load_suite(row["suite"])
