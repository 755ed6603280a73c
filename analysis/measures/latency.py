"""Estimate latency and loss of each cell."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from roslens.analysis.estimate import CLOCKS_APART, Estimate, Metric
from roslens.analysis.measures.samples import RunSamples, TopicGroup, beyond_clocks
from roslens.analysis.runs import by_cell
from roslens.analysis.statistics.fractions import bounded_fraction_over_runs
from roslens.analysis.statistics.omission import CorrectedRun
from roslens.analysis.statistics.over_runs import (
    mean_over_runs,
    percentile_over_runs,
    value_over_runs,
)
from roslens.analysis.statistics.quantiles import least_samples, percentile_name, quantile

PERCENTILES = (0.5, 0.9, 0.99)

HOP = (
    "publish -> callback_start: from the first publish event of the publication to "
    "callback_start of its callback"
)
_SENT = (
    "messages sent; a lost, replaced or overwritten one counts as infinite, one of unknown outcome "
    "or taken without a callback is left out"
)


def latency_metric(statistic: str, scope: str, *, sent: bool = False) -> Metric:
    """Return the metric ``latency_<statistic>``, or ``latency_sent_<statistic>`` if `sent`."""
    messages = _SENT if sent else "delivered messages"
    prefix = "latency_sent_" if sent else "latency_"
    return Metric(prefix + statistic, f"{HOP}; {messages}; {scope}", "ns")


def loss_metric(scope: str) -> Metric:
    """Return the metric of the fraction of messages that did not arrive."""
    return Metric(
        "loss",
        "messages lost, replaced or overwritten / messages sent (delivered, taken, lost, "
        "replaced, overwritten); unknown ones widen the interval, or forbid an estimate; replayed "
        f"and without subscriber left out; {scope}",
        "1",
        scale="fraction",
    )


def latency_estimates(
    samples: Sequence[RunSamples],
    group: TopicGroup,
    level: float = 0.95,
    percentiles: Sequence[float] = PERCENTILES,
) -> list[Estimate]:
    """Estimate the mean, percentiles (of delivered and of sent messages) and loss, in cell order.

    Parameters
    ----------
    samples
        Samples of each run that counts.
    group
        The topic of the samples.
    """
    estimates = []
    for members in by_cell(samples):
        cell = group.cell(members[0].run)
        delivered = [s.delivered_ns for s in members]
        sent = [s.sent_ns for s in members]
        scope = group.scope
        loss = bounded_fraction_over_runs(
            loss_metric(scope),
            cell,
            [s.lost for s in members],
            [s.sent for s in members],
            unknown=[s.unknown for s in members],
            level=level,
        )
        untold = loss.refused if any(s.unknown for s in members) and loss.value is None else None
        taken = sum(s.outcomes.get("taken", 0) for s in members)
        if taken:  # Without taken messages, which have no latency, lost ones would weigh too much.
            sent_ones = sum(s.sent for s in members)
            untold = f"{taken:,} of {sent_ones:,} messages sent were taken without a callback"
        clocks = max(s.clock_bound_ns for s in members)
        mean = mean_over_runs(latency_metric("mean", scope), cell, delivered, level)
        estimates.append(within_clocks(mean, clocks))
        for over_sent, arrays in ((False, delivered), (True, sent)):
            for q in percentiles:
                name = percentile_name(q).lower()
                metric = latency_metric(name, scope, sent=over_sent)
                estimate = percentile_over_runs(
                    metric, cell, arrays, q, level, rate_hz=_rate(members)
                )
                if over_sent and untold is not None:
                    estimate = replace(
                        estimate, value=None, low=None, high=None, refused=untold, per_run=()
                    )
                estimates.append(within_clocks(estimate, clocks))
        estimates.append(loss)
    return estimates


def within_clocks(estimate: Estimate, bound_ns: float) -> Estimate:
    """Widen an estimate by the clocks' bound, or refuse it if that is over half of the value.

    Each latency between hosts is wrong by the bound at most, and so are their quantiles and mean.
    """
    if not bound_ns or (estimate.value is None and math.isfinite(bound_ns)):
        return estimate
    if estimate.value is not None and beyond_clocks(estimate.value, bound_ns):
        low, high = estimate.low, estimate.high
        return replace(
            estimate,
            low=None if low is None else max(0.0, low - bound_ns),
            high=None if high is None else high + bound_ns,
            method=f"{estimate.method}; widened by {bound_ns / 1e6:.3g} ms, {CLOCKS_APART}",
        )
    return replace(
        estimate, value=None, low=None, high=None, per_run=(), refused=clocks_refusal(bound_ns)
    )


def clocks_refusal(bound_ns: float) -> str:
    """Say why what was measured between hosts is refused, and what would help."""
    bound = "any time" if math.isinf(bound_ns) else f"{bound_ns / 1e6:.3g} ms"
    return (
        f"between hosts whose clocks may be {bound} apart, which is more than half of what was "
        "measured; bring the clocks together by 'roslens merge', or synchronise the hosts"
    )


def _rate(members: Sequence[RunSamples]) -> float | None:
    rates = [s.sent_ns.size / s.seconds for s in members if s.seconds > 0]
    return statistics.median(rates) if rates else None


def corrected_estimates(
    samples: Sequence[RunSamples],
    runs: Sequence[CorrectedRun],
    group: TopicGroup,
    level: float = 0.95,
) -> list[Estimate]:
    """Estimate percentiles corrected for coordinated omission, ``latency_corrected_p..``, per cell.

    One percentile per run, Student t over runs. Added samples are no evidence of their own, so the
    number of samples that a percentile needs is not required of them.
    """
    of_run = {run.run: run for run in runs}
    estimates = []
    for members in by_cell([s for s in samples if s.run.name in of_run]):
        chosen = [of_run[s.run.name] for s in members]
        for q in PERCENTILES:
            name = percentile_name(q).lower()
            definition = (
                f"{HOP}; delivered messages, and those that a publisher with this period would "
                f"have published during long ones; {group.scope}"
            )
            estimates.append(
                value_over_runs(
                    Metric(f"latency_corrected_{name}", definition, "ns"),
                    group.cell(members[0].run),
                    [quantile(run.samples, q) for run in chosen],
                    sum(run.samples.size for run in chosen),
                    level,
                )
            )
    return estimates


def tails(samples: Sequence[RunSamples]) -> Mapping[str, float]:
    """Return the P99 in ns, by run name, of runs that delivered enough for its interval.

    Without runs whose P99 the clocks of the hosts forbid saying, as `medians`.
    """
    enough = least_samples(0.99)
    return _within_clocks([s for s in samples if s.delivered_ns.size >= enough], 0.99)


def medians(samples: Sequence[RunSamples]) -> Mapping[str, float]:
    """Return the P50 in ns, by run name, of runs that delivered anything."""
    return _within_clocks([s for s in samples if s.delivered_ns.size], 0.5)


def _within_clocks(samples: Sequence[RunSamples], q: float) -> Mapping[str, float]:
    values = {s.run.name: (quantile(s.delivered_ns, q), s.clock_bound_ns) for s in samples}
    return {run: value for run, (value, bound) in values.items() if beyond_clocks(value, bound)}
