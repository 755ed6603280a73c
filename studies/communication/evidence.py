"""Decide whether the figures of a run are exact, approximate or partial, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import polars as pl

from roslens.analysis.measures.loss import TracerLoss
from roslens.studies.communication.traffic import Traffic

Kind = Literal["exact", "approximate", "partial"]


@dataclass(frozen=True)
class Evidence:
    """Quality of the data behind the figures of one run.

    Attributes
    ----------
    kind
        exact: every message was followed by its identity; approximate: some messages were joined by
        order or without certainty; partial: some publications, receptions or fates are not known.
    reasons
        Why the figures are not exact.
    """

    kind: Kind = "exact"
    reasons: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The kind and its reasons as text for people."""
        return f"{self.kind}: {'; '.join(self.reasons)}" if self.reasons else self.kind


def evidence(found: Traffic, losses: Sequence[TracerLoss]) -> dict[str, Evidence]:
    """Return the evidence of each run."""
    uncertain = pl.col("match").is_in(["approximate", "ambiguous"])
    counts = {
        run: (rows, unsure, unknown)
        for run, rows, unsure, unknown in found.messages.group_by("run")
        .agg(
            pl.len(),
            uncertain.sum().alias("unsure"),
            (pl.col("outcome") == "unknown").sum().alias("unknown"),
        )
        .iter_rows()
    }
    unlinked = {
        run: (intra, inter)
        for run, intra, inter in found.callbacks.filter(~pl.col("linked"))
        .group_by("run")
        .agg(
            pl.col("intra_process").fill_null(value=False).sum().alias("intra"),
            (~pl.col("intra_process").fill_null(value=False)).sum().alias("other"),
        )
        .iter_rows()
    }
    return {
        loss.run.name: _run_evidence(
            loss, counts.get(loss.run.name, (0, 0, 0)), unlinked.get(loss.run.name, (0, 0))
        )
        for loss in losses
    }


def _run_evidence(
    loss: TracerLoss, messages: tuple[int, int, int], unlinked: tuple[int, int]
) -> Evidence:
    rows, unsure, unknown = messages
    intra, inter = unlinked
    missing = []
    if loss.any and not loss.of_kernel:
        missing.append(
            f"the tracer lost {loss.discarded_events:,} events and {loss.lost_packets:,} packets"
            + (f"; {loss.truncated:,} streams are cut off" if loss.truncated else "")
        )
    if intra:
        missing.append(
            f"of {intra:,} callbacks within the process the publication is not recorded (its "
            "events exist since ROS 2 Iron): no latency, loss or backlog for those"
        )
    if inter:
        missing.append(f"of {inter:,} callbacks the message is not known")
    if unknown:
        missing.append(f"of {unknown:,} messages nobody can say whether they arrived")
    if not loss.run.complete:
        missing.append("the run did not complete")
    joined = [f"{unsure:,} of {rows:,} messages joined by order, not by identity"] * bool(unsure)
    if missing:
        return Evidence("partial", (*missing, *joined))
    return Evidence("approximate", tuple(joined)) if joined else Evidence()
