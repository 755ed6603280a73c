"""Test losses that affect no figure of messages: the kernel tracer's, or before the recording."""

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from synthetic import Tables

from roslens.analysis.measures.loss import TracerLoss, biased_figures, tracer_loss
from roslens.analysis.runs import Run
from roslens.studies.communication.evidence import evidence


@pytest.mark.parametrize(("of_kernel", "kind"), [(True, "exact"), (False, "partial")])
def test_evidence_of_messages(of_kernel: bool, kind: str) -> None:
    run: Any = SimpleNamespace(name="r", complete=True)
    traffic: Any = SimpleNamespace(
        messages=pl.DataFrame({"run": ["r"], "match": ["exact"], "outcome": ["delivered"]}),
        callbacks=pl.DataFrame({"run": ["r"], "linked": [True], "intra_process": [False]}),
    )
    judged = evidence(traffic, [TracerLoss(run, 388, 0, 0, of_kernel=of_kernel)])["r"]
    assert judged.kind == kind
    assert ("388 events" in judged.label) != of_kernel


@pytest.mark.parametrize(
    ("trace", "kinds", "discarded", "told"),
    [
        ("ust", ["missing_head", "missing_head"], 0, "Only what came before is missing"),
        ("ust", ["missing_head", "lost_packets"], 0, "Missing events may bias any figure."),
        ("ust", ["missing_head"], 5, "Missing events may bias any figure."),
        ("ust", ["missing_head", "not_sampled"], 0, "Only what came before is missing"),
        ("ust", ["discarded_events"], 3, "Missing events may bias any figure."),
        ("kernel", ["discarded_events"], 3, "Only events of the kernel are missing: "),
    ],
)
def test_what_a_loss_can_bias(trace: str, kinds: list[str], discarded: int, told: str) -> None:
    """The manifest may count events whose time of loss the trace does not tell."""
    lost = {"host": "h0", "count": 3, "trace": trace}
    losses = Tables(losses=[{**lost, "kind": kind} for kind in kinds]).table("losses")
    run = Run("r", discarded_events=discarded)
    assert biased_figures(tracer_loss(losses, [run])).startswith(told)
