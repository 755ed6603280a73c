"""Estimate latency by direction, round trips and throughput of recorded transports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.statistics.over_runs import (
    Interval,
    estimate_of,
    statistics_over_runs,
    value_over_runs,
)
from roslens.recording.arrays import Floats, np
from roslens.studies.micro_ros.clocks import ClockFit, Directions, directions, fit_clocks
from roslens.studies.micro_ros.results.folder import Link

AGENT_RESOLUTION_NS = 1.0

_CLIENT = Metric(
    "client_latency",
    "from the client's stamp before sending to the agent's after receiving, on one clock",
    "ns",
)
_AGENT = Metric(
    "agent_latency",
    "from the agent's stamp before answering to the client's after receiving, on one clock",
    "ns",
)
_RTT = Metric(
    "rtt", "from before sending to after receiving the answer, on the client's stopwatch", "ns"
)


@dataclass(frozen=True)
class TransportRun:
    """One transport in one run.

    Attributes
    ----------
    directions
        Latencies by direction; None where the clocks could not be synchronised.
    rtt_ns
        Round trip of each exchange, shape (n,).
    residual_ns, allowed_ns
        client + turnaround + agent - round trip of each exchange, and the value allowed by the
        reading of the stopwatch, the clocks' resolution and their drift; None without directions.
    """

    source: str
    transport: str
    link: Link
    fit: ClockFit
    directions: Directions | None
    rtt_ns: Floats
    residual_ns: Floats | None
    allowed_ns: Floats | None

    @property
    def lost(self) -> int | None:
        """Number of pings without an answer; None where pings were not counted."""
        return None if self.link.pings is None else self.link.pings - self.rtt_ns.size

    @property
    def adds_up(self) -> int:
        """Number of exchanges whose directions add up to the round trip."""
        if self.residual_ns is None or self.allowed_ns is None:
            return 0
        return int((np.abs(self.residual_ns) <= self.allowed_ns).sum())


def transport_runs(
    exchanges: pl.DataFrame, links: Mapping[tuple[str, str], Link]
) -> list[TransportRun]:
    """Return each transport of each source, with synchronised clocks.

    Parameters
    ----------
    exchanges
        Frame with the columns of `results.folder.EXCHANGED`.
    """
    return [
        _run(str(source), str(transport), group, links[str(source), str(transport)])
        for (source, transport), group in exchanges.group_by(
            "source", "transport", maintain_order=True
        )
    ]


def _run(source: str, transport: str, exchanges: pl.DataFrame, link: Link) -> TransportRun:
    stamps = (
        exchanges["client_sent_ns"].to_numpy(),
        exchanges["agent_received_ns"].to_numpy(),
        exchanges["agent_sent_ns"].to_numpy(),
        exchanges["client_received_ns"].to_numpy(),
    )
    resolution = AGENT_RESOLUTION_NS + link.client_resolution_ns
    fit = fit_clocks(*stamps, resolution_ns=resolution)
    rtt = exchanges["rtt_ns"].to_numpy().astype(np.float64)
    uncertainty = exchanges["rtt_uncertainty_ns"].to_numpy().astype(np.float64)
    if fit.refused is not None:
        return TransportRun(source, transport, link, fit, None, rtt, None, None)
    latency = directions(fit, *stamps)
    residual = latency.client_ns + latency.turnaround_ns + latency.agent_ns - rtt
    # The stopwatch may run with either clock.
    drift = max(map(abs, fit.drift))
    allowed = uncertainty + 2 * resolution + drift * rtt
    return TransportRun(source, transport, link, fit, latency, rtt, residual, allowed)


def transport_estimates(runs: Sequence[TransportRun], level: float) -> list[Estimate]:
    """Estimate latency by direction, round trip, and offset and drift of the clocks."""
    by_transport: dict[str, list[TransportRun]] = {}
    for run in runs:
        by_transport.setdefault(run.transport, []).append(run)
    all_estimates: list[Estimate] = []
    for transport, members in by_transport.items():
        latencies = [r.directions for r in members if r.directions is not None]
        widths = [float(np.median(d.uncertainty_ns)) for d in latencies]
        for metric, samples in (
            (_CLIENT, [d.client_ns for d in latencies]),
            (_AGENT, [d.agent_ns for d in latencies]),
            (_RTT, [r.rtt_ns for r in members]),
        ):
            estimates = statistics_over_runs(
                metric, {"transport": transport}, samples, ("mean", 0.5, 0.99), level
            )
            all_estimates += (
                estimates if metric is _RTT else [_widened(e, widths) for e in estimates]
            )
        all_estimates += [e for r in members for e in _clock_estimates(r)]
    return all_estimates


def throughput_estimates(throughput: pl.DataFrame, level: float) -> list[Estimate]:
    """Estimate payload bytes per second of each transport and payload, over sources."""
    metric = Metric(
        "throughput",
        "payload bytes per second from the first to the last message received",
        "byte/s",
        "higher",
    )
    groups = throughput.group_by("transport", "payload_bytes", maintain_order=True)
    return [
        value_over_runs(
            metric,
            {"transport": str(transport), "payload_bytes": int(str(payload))},
            group["bytes_per_s"].to_list(),
            group.height,
            level,
        )
        for (transport, payload), group in groups
    ]


def refused_throughput(link: Link, level: float) -> Estimate:
    """Return a refused estimate in place of the throughput of an emulated line."""
    return estimate_of(
        Metric("throughput", "payload bytes per second", "byte/s", "higher"),
        {"transport": link.transport},
        Interval(
            None,
            refused=f"an {link.name or 'emulated line'} has no line rate; a real line is needed",
        ),
        level,
        runs=0,
        samples=0,
        method="refused",
    )


def _widened(estimate: Estimate, widths: Sequence[float]) -> Estimate:
    """Widen an interval on either side by the uncertainty of the clocks' synchronisation."""
    if estimate.low is None or estimate.high is None or not widths:
        return estimate
    width = max(widths)
    return replace(
        estimate,
        low=estimate.low - width,
        high=estimate.high + width,
        method=f"{estimate.method}; {width / 1e3:,.1f} us added on either side: the clocks are "
        "synchronised no better",
    )


def _clock_estimates(run: TransportRun) -> list[Estimate]:
    cell = {"transport": run.transport, "run": run.source}
    fit = run.fit
    method = (
        "bounds by causality of both directions (linear programming): they hold whatever the "
        "delays are"
    )
    offset = Metric(
        "clock_offset",
        "client's clock minus agent's in the middle of the run",
        "ns",
        None,
    )
    drift = Metric("clock_drift", "gain of the client's clock on the agent's", "ns/s", None)
    if fit.refused is not None:
        nothing = Interval(None, refused=fit.refused)
        pairs = [(offset, nothing), (drift, nothing)]
    else:
        slow, fast = (1e9 * d for d in fit.drift)
        pairs = [
            (offset, Interval(*fit.offset_ns)),
            (drift, Interval((slow + fast) / 2, slow, fast)),
        ]
    return [
        estimate_of(metric, cell, interval, 1.0, runs=1, samples=fit.exchanges, method=method)
        for metric, interval in pairs
    ]
