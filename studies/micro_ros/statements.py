"""Judge the publication's statements by its own figures, and by micro-ROS as measured here.

The board of the publication was measured once per point, so only slopes have intervals. The rules
for its figures are these: two figures are alike within `ABOUT`; a statement about an order or a
rise holds where every pair of figures that it concerns supports it, and does not hold where one
pair contradicts it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, pairwise

import polars as pl

from roslens.analysis.estimate import Estimate, not_none
from roslens.analysis.verdicts.statement import Statement, Verdict
from roslens.studies.micro_ros.slopes import HISTORY, KINDS, Slope

ABOUT = 0.05
"""Relative tolerance for the word "about": 5 %."""


def about_equal(one: float, other: float) -> bool:
    """Return whether the second figure is about equal to the first."""
    return abs(other - one) <= ABOUT * abs(one)


def memory_statements(claims: pl.DataFrame, slopes: Sequence[Slope]) -> list[Statement]:
    """Judge each claim about the memory of an entity or of a slot of the history.

    A claim per entity says "about": it is supported where the interval lies within `ABOUT` of the
    claim, and "not so" where it lies outside. The claim per slot of the history is exact, so the
    interval must contain it.
    """
    estimates = {(s.entity, s.memory): s.estimate for s in slopes}
    statements = []
    for claim in claims.iter_rows(named=True):
        estimate = estimates.get((claim["entity"], claim["memory"]))
        exact = claim["entity"] == HISTORY
        unit = "slot" if exact else "entity"
        name = f"memory per {'slot of the history' if exact else claim['entity']}"
        stated = float(claim["claimed_bytes"])
        if estimate is None or estimate.low is None or estimate.high is None:
            because = "no figure with an interval"
            statements.append(Statement(claim["said"], "cannot be judged", because, name))
            continue
        low, high = estimate.low, estimate.high
        because = f"{estimate.value:,.1f} [{low:,.1f}, {high:,.1f}] B per {unit}"
        if exact:
            holds, fails = low <= stated <= high, not low <= stated <= high
            note = f": {not_none(estimate.value) - stated:+,.1f} B per slot" if not holds else ""
        else:
            least, most = stated * (1 - ABOUT), stated * (1 + ABOUT)
            holds, fails = least <= low and high <= most, high < least or low > most
            note = f" (within {100 * ABOUT:g} %)" if holds else ""
        verdict: Verdict = "supported" if holds else "not so" if fails else "not_enough_evidence"
        statements.append(Statement(claim["said"], verdict, because, name, note))
    return statements


def differences_of_totals(memory: pl.DataFrame) -> pl.Series:
    """Return total minus static, stack and dynamic [B] of each count with all four figures."""
    is_total, size = pl.col("memory") == "total", pl.col("bytes")
    return (
        memory.group_by("source", "entity", "count", maintain_order=True)
        .agg(
            pl.col("memory").n_unique().alias("kinds"),
            (size.filter(is_total).sum() - size.filter(~is_total).sum()).alias("difference"),
        )
        .filter(pl.col("kinds") == len(KINDS))["difference"]
    )


VARIANTS = {
    "publisher_best_effort": "memory does not depend on reliability",
    "publisher_400_bytes": "memory does not depend on the size of the topic",
    "publisher_one_topic": "memory does not depend on the number of topics",
}
"""Claims about publishers with one property changed, by the name of their part."""
FOLLOWS = "latency follows the transport: the more throughput, the shorter the round trip"
_Known = dict[tuple[str, str], Estimate]
"""Estimates by metric (of throughput with the payload) and transport."""
RELIABILITIES = ("reliable", "best_effort")


def measured_statements(
    slopes: Sequence[Slope], estimates: Sequence[Estimate], emulated: Collection[str] = ()
) -> list[Statement]:
    """Judge the study's claims: independence of memory, a constant stack, order of transports.

    Parameters
    ----------
    slopes
        Slopes of memory, including those of `VARIANTS`.
    estimates
        Estimates of latency and throughput by transport, such as ``udp reliable``.
    emulated
        Transports without a line rate.
    """
    estimate_by_metric = _by_metric_and_transport(estimates)
    by_memory = {(s.entity, s.memory): s for s in slopes}
    return [
        *(_independent(by_memory, entity, claim) for entity, claim in VARIANTS.items()),
        *(constant_stack(s) for s in slopes if s.memory == "stack" and s.entity not in VARIANTS),
        *(_order(estimate_by_metric, emulated, reliability) for reliability in RELIABILITIES),
        *(_follows_throughput(estimate_by_metric, reliability) for reliability in RELIABILITIES),
    ]


def tcp_statements(estimates: Sequence[Estimate]) -> list[Statement]:
    """Judge a claim that the study does not make: why TCP is slow here.

    Parameters
    ----------
    estimates
        As in `measured_statements`.
    """
    by_metric = _by_metric_and_transport(estimates)
    return [_waits(by_metric, reliability) for reliability in RELIABILITIES]


def _by_metric_and_transport(estimates: Sequence[Estimate]) -> _Known:
    by_metric: _Known = {}
    for e in estimates:
        if e.value is not None and "transport" in e.cell:
            size = f" {e.cell['payload_bytes']}" if "payload_bytes" in e.cell else ""
            by_metric[e.metric + size, str(e.cell["transport"])] = e
    return by_metric


def _independent(slopes: Mapping[tuple[str, str], Slope], entity: str, claim: str) -> Statement:
    """Judge whether two kinds of publisher need the same memory in total, within `ABOUT`.

    They do where no two values of their intervals differ by more, and do not where all do.
    """
    usual, changed = slopes.get(("publisher", "total")), slopes.get((entity, "total"))
    if usual is None or changed is None or None in (usual.intercept, changed.intercept):
        return Statement(claim, "cannot be judged", "no slope of both", entity)
    a, b = usual.estimate, changed.estimate
    because = f"{_bytes(b)} B per publisher, {_bytes(a)} B as usual"
    if a.low is None or a.high is None or b.low is None or b.high is None or a.low <= 0:
        return Statement(claim, "cannot be judged", because, entity)
    low, high = b.low / a.high - 1, b.high / a.low - 1
    verdict: Verdict = "not_enough_evidence"
    if low > ABOUT or high < -ABOUT:
        verdict = "not so"
    elif low >= -ABOUT and high <= ABOUT:
        verdict = "supported"
    decided = verdict != "not_enough_evidence"
    return Statement(claim, verdict, because, entity, f" (within {100 * ABOUT:g} %)" * decided)


def _bytes(e: Estimate) -> str:
    interval = "" if e.low is None or e.high is None else f" [{e.low:,.1f}, {e.high:,.1f}]"
    return f"{not_none(e.value):,.1f}{interval}"


def constant_stack(slope: Slope) -> Statement:
    """Judge whether the stack of an entity is constant: at most `ABOUT` between any two points."""
    low, high = float(slope.values.min()), float(slope.values.max())
    verdict: Verdict = "supported" if high <= low * (1 + ABOUT) else "not so"
    if slope.counts.size < 2:
        verdict = "cannot be judged"
    first, last = int(slope.counts.min()), int(slope.counts.max())
    because = f"{low:,.0f} to {high:,.0f} B with {first} to {last}"
    note = f" (within {100 * ABOUT:g} %)" if verdict == "supported" else ""
    return Statement("the stack is constant", verdict, because, slope.entity, note)


def _order(by_metric: _Known, emulated: Collection[str], reliability: str) -> Statement:
    """Judge the published order of round trips: UDP 1.26 ms, serial 8.81 ms.

    TCP, 3.59 ms, was over WiFi, which is not measured here.
    """
    claim = "the round trip is shorter over UDP than over the serial line"
    subject = reliability.replace("_", " ")
    udp, serial = (
        by_metric.get(("rtt_p50", f"{name} {reliability}")) for name in ("udp", "serial")
    )
    if udp is None or serial is None:
        return Statement(claim, "cannot be judged", "no round trips of both", subject)
    because = f"UDP {_ms(udp)}, serial {_ms(serial)}"
    if serial.cell["transport"] in emulated:
        because += "; but this serial line is emulated and has no line rate"
        return Statement(claim, "cannot be judged", because, subject)
    return Statement(claim, _is_rising([udp, serial]), because, subject)


def _follows_throughput(by_metric: _Known, reliability: str) -> Statement:
    """Judge whether round trips follow the throughput of the largest messages to the agent."""
    transports = []
    for name in (f"{transport} {reliability}" for transport in ("udp", "tcp", "tcp_no_delay")):
        rates = [e for (m, t), e in by_metric.items() if m.startswith("throughput ") and t == name]
        rate = max(rates, key=lambda e: int(str(e.cell["payload_bytes"])), default=None)
        trip = by_metric.get(("rtt_p50", name))
        if rate is not None and trip is not None:
            transports.append((name, rate, trip))
    transports.sort(key=lambda row: -not_none(row[1].value))
    because = ", ".join(
        f"{name} {not_none(rate.value) / 1e3:,.1f} kB/s and {_ms(trip)}"
        for name, rate, trip in transports
    )
    subject = reliability.replace("_", " ")
    # Only pairs in which one transport is known to have more throughput.
    verdicts = {
        _is_rising([trip, longer])
        for (_, rate, trip), (_, less, longer) in combinations(transports, 2)
        if _is_rising([less, rate]) == "supported"
    }
    verdict: Verdict = verdicts.pop() if len(verdicts) == 1 else "cannot be judged"
    if "not so" in verdicts:
        verdict = "not so"
    return Statement(FOLLOWS, verdict, because or "no transports to compare", subject)


def _waits(by_metric: _Known, reliability: str) -> Statement:
    claim = "TCP waits: for most of its round trip short writes wait for delayed acknowledgements"
    subject = reliability.replace("_", " ")
    trips = {
        name: {m: by_metric.get((m, f"{name} {reliability}")) for m in _WAYS}
        for name in ("tcp", "tcp_no_delay")
    }
    slow, quick = (trips[name]["rtt_p50"] for name in trips)
    if slow is None or quick is None:
        return Statement(claim, "cannot be judged", "no round trips of both", subject)
    because = "; ".join(
        f"{setting} "
        + ", ".join(
            f"{direction}{_ms(e)}"
            for m, direction in _WAYS.items()
            # A direction without an interval may be anything up to the round trip.
            if (e := trips[name][m]) and (not direction or e.low is not None)
        )
        for name, setting in (("tcp", "as the client has it"), ("tcp_no_delay", "without delays"))
    )
    bounds = (slow.low, slow.high, quick.low, quick.high)
    verdict: Verdict = "cannot be judged"
    if None not in bounds:
        low, high, least, most = (float(bound or 0) for bound in bounds)
        verdict = "supported" if 2 * most < low else "not so" if 2 * least > high else verdict
    return Statement(claim, verdict, because, subject)


_WAYS = {"rtt_p50": "", "client_latency_p50": "to the agent ", "agent_latency_p50": "back "}


def _ms(estimate: Estimate) -> str:
    """Return milliseconds with the interval: directions are as uncertain as the clocks."""
    value, low, high = (ns and ns / 1e6 for ns in (estimate.value, estimate.low, estimate.high))
    interval = "" if low is None or high is None else f" [{low:,.2f}, {high:,.2f}]"
    return f"{value:,.2f}{interval} ms"


def _is_rising(estimates: Sequence[Estimate]) -> Verdict:
    """Return whether intervals lie one above the other; overlapping intervals decide nothing."""
    bounds = [(e.low, e.high) for e in estimates]
    if any(low is None or high is None for low, high in bounds):
        return "cannot be judged"
    above = [(b[0] or 0) > (a[1] or 0) for a, b in pairwise(bounds)]
    below = [(b[1] or 0) < (a[0] or 0) for a, b in pairwise(bounds)]
    return "supported" if all(above) else "not so" if any(below) else "cannot be judged"


STREAMS = ("USB", "TCP", "Serial")
"""Stream transports, in the stated order of throughput, the greatest first."""
PUB_SUB = ("publisher", "subscriber")
UDP = ("UDP (FreeRTOS + TCP)", "UDP (ThreadX)")
_IN_LATENCY = {
    "USB": "USB-CDC",
    "TCP": "TCP (PMOD WiFi)",
    "Serial": "Serial UART",
    "UDP (ThreadX)": "UDP (ThreadX + NetX)",
}
"""Names in the table of latencies of transports that are named differently for throughput."""

_Rates = Mapping[str, Mapping[int, float]]


def published_statements(
    slopes: Sequence[Slope], throughput: pl.DataFrame, latency: pl.DataFrame
) -> list[Statement]:
    """Return all statements about the published figures, each with its verdict.

    Parameters
    ----------
    slopes
        Slopes of the published memory.
    throughput, latency
        Frames as in `results.published.PublishedFigures`.
    """
    total = {s.entity: s for s in slopes if s.memory == "total"}
    rates: dict[str, dict[int, float]] = {}
    for transport, size, rate in throughput.select(
        "transport", "payload_bytes", "bytes_per_s"
    ).iter_rows():
        rates.setdefault(transport, {})[size] = rate
    trips = dict(latency.select("transport", "rtt_ns").iter_rows())
    return [
        _about_equal(total, "publisher", "subscriber"),
        _about_equal(total, "service", "client"),
        _about_equal(total, "publisher", "service"),
        *(_grows(s) for s in slopes if s.entity in PUB_SUB and s.memory in ("static", "dynamic")),
        *(constant_stack(s) for s in slopes if s.entity in PUB_SUB and s.memory == "stack"),
        _faster_streams(rates),
        *(_rises_with_size(rates, transport) for transport in STREAMS),
        *(_linear(rates, transport) for transport in UDP),
        _udp_differs(rates),
        _slower_with_less(rates, trips),
    ]


def _about_equal(total: Mapping[str, Slope], first: str, second: str) -> Statement:
    a, b = (not_none(total[entity].estimate.value) for entity in (first, second))
    verdict: Verdict = "supported" if about_equal(a, b) else "not so"
    because = f"{a:,.0f} and {b:,.0f} B, {b / a - 1:+.0%}"
    return Statement(
        f"a {first} takes as much memory as a {second}", verdict, because, f"{first}, {second}"
    )


def _grows(slope: Slope) -> Statement:
    e = slope.estimate
    verdict: Verdict = "supported" if not_none(e.low) > 0 else "not so"
    because = f"{e.value:,.0f} [{e.low:,.0f}, {e.high:,.0f}] B of {slope.memory} memory per entity"
    return Statement(
        "static and dynamic memory grow with the entities", verdict, because, slope.entity
    )


def _faster_streams(rates: _Rates) -> Statement:
    sizes = sorted(rates[STREAMS[0]])
    falls = all(rates[a][size] > rates[b][size] for a, b in pairwise(STREAMS) for size in sizes)
    because = "; ".join(
        f"{size} B: " + ", ".join(f"{name} {rates[name][size] / 1e3:,.0f}" for name in STREAMS)
        for size in sizes
    )
    claim = "USB carries more than TCP over WiFi, and that more than the serial line"
    return Statement(claim, "supported" if falls else "not so", f"{because} kB/s", "streams")


def _rises_with_size(rates: _Rates, transport: str) -> Statement:
    points = sorted(rates[transport].items())
    rises = all(a < b for (_, a), (_, b) in pairwise(points))
    because = ", ".join(f"{rate / 1e3:,.0f} kB/s of {size} B" for size, rate in points)
    claim = "the larger the messages, the more throughput"
    return Statement(claim, "supported" if rises else "not so", because, transport)


def _linear(rates: _Rates, transport: str) -> Statement:
    """Judge whether throughput grows by the same factor as the size, within `ABOUT`."""
    steps = [
        (small, large, rate / less, large / small)
        for (small, less), (large, rate) in pairwise(sorted(rates[transport].items()))
    ]
    linear = all(about_equal(size, grown) for *_, grown, size in steps)
    because = ", ".join(f"{a} to {b} B {grown:.2f} x" for a, b, grown, _ in steps)
    claim = "throughput is linear with the size of the messages"
    return Statement(claim, "supported" if linear else "not so", because, transport)


def _udp_differs(rates: _Rates) -> Statement:
    freertos, netx = (rates[transport] for transport in UDP)
    differ = not any(about_equal(freertos[size], netx[size]) for size in freertos)
    because = ", ".join(
        f"{netx[size] / freertos[size]:.2f} x with {size} B" for size in sorted(freertos)
    )
    claim = "UDP has another throughput with NetX than with FreeRTOS + TCP"
    return Statement(claim, "supported" if differ else "not so", f"NetX {because}", "UDP")


def _slower_with_less(rates: _Rates, trips: Mapping[str, float]) -> Statement:
    """Judge whether transports with more throughput of their largest messages are no slower."""
    most = {transport: rates[transport][max(rates[transport])] for transport in rates}
    by_rate = [
        (trips[_IN_LATENCY.get(transport, transport)], transport)
        for transport in sorted(most, key=most.__getitem__, reverse=True)
    ]
    follows = all(a <= b * (1 + ABOUT) for (a, _), (b, _) in pairwise(by_rate))
    because = ", ".join(
        f"{name} {most[name] / 1e3:,.0f} kB/s and {ns / 1e6:.2f} ms" for ns, name in by_rate
    )
    note = f" (within {100 * ABOUT:g} %)" if follows else ""
    return Statement(FOLLOWS, "supported" if follows else "not so", because, "all transports", note)
