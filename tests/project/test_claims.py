"""Every claim of the four publications: a statement of a report judges it, or it says why not."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from roslens.tracing.suite import load_suite

ROOT = Path(__file__).parents[2]
CLAIMS = pl.read_csv(ROOT / "data" / "published" / "claims.csv", infer_schema=False)
SOURCES = "\n".join(
    path.read_text()
    for path in (
        *(ROOT / "analysis").rglob("*.py"),
        ROOT / "data" / "published" / "micro_ros" / "claims.csv",
    )
)


def test_each_study_has_its_claims() -> None:
    """So many sentences of each text make a claim, counted by reading them."""
    assert dict(CLAIMS["study"].value_counts().iter_rows()) == {
        "storage": 15, "executors": 19, "micro_ros": 19, "communication": 5
    }  # fmt: skip


@pytest.mark.parametrize("row", CLAIMS.iter_rows(named=True), ids=lambda row: row["claim"][:40])
def test_a_claim_is_judged_or_says_why_not(row: dict[str, str | None]) -> None:
    # Of the publication's own figures: judged, or why not.
    assert row["figures"]
    assert row["figures"] != "yes" or row["statement"]
    # Of recordings: the suite that tells, or why there is none.
    assert bool(row["suite"]) != bool(row["why_not"])
    if row["suite"]:
        load_suite(row["suite"])
    if row["statement"]:
        words = row["statement"].replace("1.25", "{MUCH:g}")
        for entity in ("publisher", "subscriber", "service", "client"):
            words = words.replace(f"a {entity} takes", "a {one} takes")
            words = words.replace(f"as a {entity}", "as a {other}")
        for what in ("CPU rises", "Latency rises"):
            words = words.replace(what, "{what} rises")
        assert words in SOURCES
