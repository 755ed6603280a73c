"""What the publication says beyond memory per entity, held against its own figures.

One board was measured once per point, so that there are no intervals but those of slopes. The rules
are these: two figures are alike within `ABOUT`; a statement about an order or a rise holds where
every pair of figures that it speaks of bears it out, and does not where one is against it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import polars as pl

from roslens.analysis.estimate import not_none
from roslens.analysis.micro_ros.measured import FOLLOWS, constant_stack
from roslens.analysis.micro_ros.slopes import Slope
from roslens.analysis.micro_ros.statements import ABOUT, alike
from roslens.analysis.verdicts.statement import Statement, Verdict

STREAMS = ("USB", "TCP", "Serial")
"""Transports of streams, the one that is said to carry most first."""
PUB_SUB = ("publisher", "subscriber")
UDP = ("UDP (FreeRTOS + TCP)", "UDP (ThreadX)")
_IN_LATENCY = {
    "USB": "USB-CDC",
    "TCP": "TCP (PMOD WiFi)",
    "Serial": "Serial UART",
    "UDP (ThreadX)": "UDP (ThreadX + NetX)",
}
"""Transports of the throughput figures that have another name in the table of latencies."""

_Rates = Mapping[str, Mapping[int, float]]


def published_statements(
    slopes: Sequence[Slope], throughput: pl.DataFrame, latency: pl.DataFrame
) -> list[Statement]:
    """All of them, each with its verdict.

    Parameters
    ----------
    slopes
        Of the published memory.
    throughput, latency
        As of `roslens.collectors.results.micro_ros_published.PublishedFigures`.
    """
    total = {s.entity: s for s in slopes if s.memory == "total"}
    rates: dict[str, dict[int, float]] = {}
    for transport, size, rate in throughput.select(
        "transport", "payload_bytes", "bytes_per_s"
    ).iter_rows():
        rates.setdefault(transport, {})[size] = rate
    trips = dict(latency.select("transport", "rtt_ns").iter_rows())
    return [
        _alike(total, "publisher", "subscriber"),
        _alike(total, "service", "client"),
        _alike(total, "publisher", "service"),
        *(_grows(s) for s in slopes if s.entity in PUB_SUB and s.memory in ("static", "dynamic")),
        *(constant_stack(s) for s in slopes if s.entity in PUB_SUB and s.memory == "stack"),
        _order(rates),
        *(_rises(rates, x) for x in STREAMS),
        *(_linear(rates, x) for x in UDP),
        _apart(rates),
        _follows(rates, trips),
    ]


def _alike(total: Mapping[str, Slope], one: str, other: str) -> Statement:
    a, b = (not_none(total[x].estimate.value) for x in (one, other))
    verdict: Verdict = "supported" if alike(a, b) else "not so"
    said = f"{a:,.0f} and {b:,.0f} B, {b / a - 1:+.0%}"
    return Statement(f"a {one} takes as much memory as a {other}", verdict, said, f"{one}, {other}")


def _grows(slope: Slope) -> Statement:
    e = slope.estimate
    verdict: Verdict = "supported" if not_none(e.low) > 0 else "not so"
    said = f"{e.value:,.0f} [{e.low:,.0f}, {e.high:,.0f}] B of {slope.memory} memory per entity"
    return Statement(
        "static and dynamic memory grow with the entities", verdict, said, slope.entity
    )


def _order(rates: _Rates) -> Statement:
    sizes = sorted(rates[STREAMS[0]])
    falls = all(rates[a][x] > rates[b][x] for a, b in pairwise(STREAMS) for x in sizes)
    said = "; ".join(
        f"{x} B: " + ", ".join(f"{name} {rates[name][x] / 1e3:,.0f}" for name in STREAMS)
        for x in sizes
    )
    claim = "USB carries more than TCP over WiFi, and that more than the serial line"
    return Statement(claim, "supported" if falls else "not so", f"{said} kB/s", "streams")


def _rises(rates: _Rates, transport: str) -> Statement:
    of = sorted(rates[transport].items())
    rises = all(a < b for (_, a), (_, b) in pairwise(of))
    said = ", ".join(f"{rate / 1e3:,.0f} kB/s of {size} B" for size, rate in of)
    claim = "the larger the messages, the more throughput"
    return Statement(claim, "supported" if rises else "not so", said, transport)


def _linear(rates: _Rates, transport: str) -> Statement:
    """Throughput grows by the same factor as the size, within `ABOUT`."""
    steps = [
        (small, large, rate / less, large / small)
        for (small, less), (large, rate) in pairwise(sorted(rates[transport].items()))
    ]
    linear = all(alike(size, grown) for *_, grown, size in steps)
    said = ", ".join(f"{a} to {b} B {grown:.2f} x" for a, b, grown, _ in steps)
    claim = "throughput is linear with the size of the messages"
    return Statement(claim, "supported" if linear else "not so", said, transport)


def _apart(rates: _Rates) -> Statement:
    one, other = (rates[x] for x in UDP)
    apart = not any(alike(one[size], other[size]) for size in one)
    said = ", ".join(f"{other[size] / one[size]:.2f} x with {size} B" for size in sorted(one))
    claim = "UDP has another throughput with NetX than with FreeRTOS + TCP"
    return Statement(claim, "supported" if apart else "not so", f"NetX {said}", "UDP")


def _follows(rates: _Rates, trips: Mapping[str, float]) -> Statement:
    """Of each two transports the one that carries more with its largest messages is no slower."""
    most = {x: rates[x][max(rates[x])] for x in rates}
    of = [
        (trips[_IN_LATENCY.get(x, x)], x) for x in sorted(most, key=most.__getitem__, reverse=True)
    ]
    follows = all(a <= b * (1 + ABOUT) for (a, _), (b, _) in pairwise(of))
    said = ", ".join(
        f"{name} {most[name] / 1e3:,.0f} kB/s and {ns / 1e6:.2f} ms" for ns, name in of
    )
    note = f" (within {100 * ABOUT:g} %)" if follows else ""
    return Statement(FOLLOWS, "supported" if follows else "not so", said, "all transports", note)
