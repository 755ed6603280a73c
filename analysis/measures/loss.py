"""Summarise losses: events lost by the tracer, and messages lost on their way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from roslens.analysis.measures.pauses import PAUSE
from roslens.analysis.measures.samples import ARRIVED, LOST, RunSamples
from roslens.analysis.runs import Run, by_cell
from roslens.analysis.statistics.fractions import largest_possible
from roslens.collectors.ros2.losses import is_kernel_loss

MAY_BIAS = "missing events may bias any figure"
_SEVERITIES = ("error", "warning", "info")


@dataclass(frozen=True)
class TracerLoss:
    """The events that the tracer dropped in one run.

    Attributes
    ----------
    discarded_events, lost_packets
        The larger of the count that the tracer reported at the end and the count in the trace.
    truncated
        Number of stretches of streams that were cut off or are absent.
    of_kernel
        Whether all losses are known to be of the kernel's trace.
    of_head
        Whether all losses are known to precede the recorded part.
    """

    run: Run
    discarded_events: int
    lost_packets: int
    truncated: int
    of_kernel: bool = False
    of_head: bool = False

    @property
    def any(self) -> bool:
        """Whether something is known to be missing."""
        return bool(self.discarded_events or self.lost_packets or self.truncated)

    @property
    def text(self) -> str:
        """The losses in words; empty if nothing is missing."""
        return lost_in_words(self.discarded_events, self.lost_packets, self.truncated)


def lost_in_words(discarded_events: int, lost_packets: int, truncated: int) -> str:
    """Return losses in words such as ``5 discarded, 1 packet``; empty if nothing was lost."""
    counts = (
        (discarded_events, "discarded"),
        (lost_packets, "packet" if lost_packets == 1 else "packets"),
        (truncated, f"{'stretch' if truncated == 1 else 'stretches'} of streams not there"),
    )
    return ", ".join(f"{count:,} {words}" for count, words in counts if count)


def biased_figures(losses: Iterable[TracerLoss]) -> str:
    """Return a sentence on how these losses may bias figures; empty if nothing was lost."""
    actual = [loss for loss in losses if loss.any]
    if not actual:
        return ""
    if all(loss.of_kernel for loss in actual):
        return "Only events of the kernel are missing: nothing but scheduling lacks that time."
    if all(loss.of_head for loss in actual):
        return (
            "Only what came before is missing, which a flight recorder or a snapshot leaves out; "
            "figures are of the rest."
        )
    return f"M{MAY_BIAS[1:]}."


def that_may_bias(losses: Iterable[TracerLoss]) -> int:
    """Count the lost events that any figure may depend on: those not of the kernel alone."""
    return sum(loss.discarded_events for loss in losses if not loss.of_kernel)


def tracer_loss(losses: pl.LazyFrame, runs: Sequence[Run]) -> list[TracerLoss]:
    """Return the tracer loss of each run, in the order of `runs`.

    Parameters
    ----------
    losses
        The ``losses`` table with ``run``. A loss of unknown count counts as one.
    """
    # A flag holds if all rows of a run have it; losses only in its manifest may be of any kind.
    head = pl.col("kind") == "missing_head"
    flags = losses.filter(~PAUSE).group_by("run").agg(is_kernel_loss().all(), head.all()).collect()
    of_kernel_or_head = {run: where for run, *where in flags.iter_rows()}
    cut_off = pl.col("kind").cast(pl.String).str.starts_with("missing_")
    counted = {
        (run, kind): int(count)
        for run, kind, count in losses.with_columns(
            kind=pl.when(cut_off).then(pl.lit("truncated")).otherwise(pl.col("kind")),
            count=pl.when(cut_off).then(1).otherwise(pl.col("count").fill_null(1)),
        )
        .group_by("run", "kind")
        .agg(pl.col("count").sum())
        .collect()
        .iter_rows()
    }
    tracer_losses = []
    for run in runs:
        kinds = ("discarded_events", "lost_packets", "truncated")
        discarded, packets, truncated = (counted.get((run.name, kind), 0) for kind in kinds)
        whole = (run.discarded_events or 0) <= discarded and (run.lost_packets or 0) <= packets
        kernel, head_alone = of_kernel_or_head.get(run.name, (False, False))
        tracer_losses.append(
            TracerLoss(
                run,
                max(run.discarded_events or 0, discarded),
                max(run.lost_packets or 0, packets),
                truncated,
                of_kernel=whole and kernel,
                of_head=whole and head_alone,
            )
        )
    return tracer_losses


def health_findings(health: pl.LazyFrame, least: str = "info") -> pl.DataFrame:
    """Return the findings of all runs, merged by severity and kind, the gravest first.

    Returns
    -------
    ``severity``, ``kind``, ``runs`` (number of runs that have it), ``count`` (over all runs),
    ``what``, ``where`` (of the first run).
    """
    wanted = _SEVERITIES[: _SEVERITIES.index(least) + 1]
    return (
        health.filter(pl.col("severity").is_in(wanted))
        .with_columns(rank=pl.col("severity").replace_strict(list(_SEVERITIES), [0, 1, 2]))
        .group_by("rank", "severity", "kind")
        .agg(
            runs=pl.col("run").n_unique(),
            count=pl.col("count").sum(),
            what=pl.col("what").sort_by("run", maintain_order=True).first(),
            where=pl.col("where").sort_by("run", maintain_order=True).first(),
        )
        .sort("rank", "count", "kind", descending=[False, True, False])
        .drop("rank")
        .collect()
    )


def undeclared_gaps(health: pl.LazyFrame) -> int:
    """Count the places of all runs where events are missing though no tracer reported a loss."""
    gaps = health.filter(pl.col("kind").cast(pl.String) == "undeclared_gaps")
    return int(gaps.select(pl.col("count").sum()).collect().item())


def loss_of(outcome: str) -> pl.Expr:
    """Return the fraction of messages that did not arrive, among those of known outcome.

    Null if the fraction of unknown outcomes exceeds the upper 95 % confidence bound for no loss
    among as many messages: the fraction lost would then say nothing.
    """
    column = pl.col(outcome)
    known, unknown = column.is_in((*LOST, *ARRIVED)).sum(), (column == "unknown").sum()
    total = known + unknown
    chance = -(math.log(0.05 / 2) / total).exp() + 1
    enough = (known > 0) & (unknown <= total * chance)
    return pl.when(enough).then(column.is_in(LOST).sum() / known)


def how_lost(counts: Mapping[str, int]) -> str:
    """Say how many messages did not arrive in which way, given their counts by outcome."""
    words = {
        "lost": "lost on the way",
        "replaced": "replaced by newer ones in a full history before they were taken",
        "overwritten": "overwritten in a full intra-process buffer",
    }
    return ", ".join(f"{counts[name]:,} {text}" for name, text in words.items() if counts.get(name))


def outcomes_by_cell(samples: Sequence[RunSamples]) -> pl.DataFrame:
    """Count the rows of the messages table by cell and outcome, and those left out as warm-up.

    Returns
    -------
    ``cell``, ``runs``, ``sent``, ``missed`` (lost, replaced or overwritten), ``loss`` (missed /
    sent over all runs of the cell; null if nothing was sent, or too many are unknown), one column
    per outcome, ``left_out``.
    """
    names = sorted({name for s in samples for name in s.outcomes})
    rows = []
    for members in by_cell(samples):
        sent = sum(s.sent for s in members)
        lost = sum(s.lost for s in members)
        unknown = sum(s.unknown for s in members)
        total = sent + unknown
        rows.append(
            {
                "cell": members[0].run.label,
                "runs": len(members),
                "sent": sent,
                "missed": lost,
                "loss": lost / sent
                if sent and unknown <= total * largest_possible(total)
                else None,
                **{name: sum(s.outcomes.get(name, 0) for s in members) for name in names},
                "left_out": sum(s.left_out for s in members),
            }
        )
    schema = {"cell": pl.String, "runs": pl.Int64, "sent": pl.Int64, "missed": pl.Int64}
    more = dict.fromkeys(names, pl.Int64)
    return pl.DataFrame(
        rows, schema={**schema, "loss": pl.Float64, **more, "left_out": pl.Int64}, orient="row"
    )
