"""What the kernel's tracer lost puts no figure of messages in doubt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from roslens.analysis.measures.loss import TracerLoss
from roslens.studies.communication.evidence import evidence


@pytest.mark.parametrize(("of_kernel", "kind"), [(True, "exact"), (False, "partial")])
def test_evidence_of_messages(of_kernel: bool, kind: str) -> None:
    run: Any = SimpleNamespace(name="r", complete=True)
    found: Any = SimpleNamespace(
        messages=pl.DataFrame({"run": ["r"], "match": ["exact"], "outcome": ["delivered"]}),
        callbacks=pl.DataFrame({"run": ["r"], "linked": [True], "intra_process": [False]}),
    )
    judged = evidence(found, [TracerLoss(run, 388, 0, 0, of_kernel=of_kernel)])["r"]
    assert judged.kind == kind
    assert ("388 events" in judged.label) != of_kernel
