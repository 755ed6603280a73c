"""What the study says beyond memory per entity, held against micro-ROS as it was measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations, pairwise

from roslens.analysis.estimate import Estimate, not_none
from roslens.analysis.micro_ros.slopes import Slope
from roslens.analysis.micro_ros.statements import ABOUT, alike
from roslens.analysis.verdicts.statement import Statement, Verdict

VARIANTS = {
    "publisher_best_effort": "memory does not depend on reliability",
    "publisher_400_bytes": "memory does not depend on the size of the topic",
    "publisher_one_topic": "memory does not depend on the number of topics",
}
"""Publishers with one thing changed, by the name of their part."""
FOLLOWS = "latency follows the transport: the more throughput, the shorter the round trip"
_Known = dict[tuple[str, str], Estimate]
"""By metric (of throughput with the payload) and transport."""
RELIABILITIES = ("reliable", "best_effort")


def measured_statements(
    slopes: Sequence[Slope], estimates: Sequence[Estimate], emulated: Collection[str] = ()
) -> list[Statement]:
    """What the study says: independence of memory, a constant stack, and of transports.

    Parameters
    ----------
    slopes
        Of memory, with those of `VARIANTS`.
    estimates
        Of latency and throughput by transport, such as ``udp reliable``.
    emulated
        Transports without a line rate.
    """
    known = _known(estimates)
    of = {(s.entity, s.memory): s for s in slopes}
    return [
        *(_independent(of, entity, claim) for entity, claim in VARIANTS.items()),
        *(constant_stack(s) for s in slopes if s.memory == "stack" and s.entity not in VARIANTS),
        *(_order(known, emulated, x) for x in RELIABILITIES),
        *(_follows(known, x) for x in RELIABILITIES),
    ]


def own_statements(estimates: Sequence[Estimate]) -> list[Statement]:
    """What the study does not say: why TCP is slow here.

    Parameters
    ----------
    estimates
        As of `measured_statements`.
    """
    known = _known(estimates)
    return [_waits(known, x) for x in RELIABILITIES]


def _known(estimates: Sequence[Estimate]) -> _Known:
    known: _Known = {}
    for e in estimates:
        if e.value is not None and "transport" in e.cell:
            size = f" {e.cell['payload_bytes']}" if "payload_bytes" in e.cell else ""
            known[e.metric + size, str(e.cell["transport"])] = e
    return known


def _independent(of: Mapping[tuple[str, str], Slope], entity: str, claim: str) -> Statement:
    """Of the memory that a publisher takes, and of its stack: they may differ by `ABOUT`."""
    usual, changed = of.get(("publisher", "total")), of.get((entity, "total"))
    a = None if usual is None else usual.estimate.value
    b = None if changed is None else changed.estimate.value
    if a is None or b is None:
        return Statement(claim, "cannot be judged", "no slope of both", entity)
    verdict: Verdict = "supported" if alike(a, b) else "not so"
    said = f"{b:,.1f} B per publisher, {a:,.1f} B as usual"
    return Statement(claim, verdict, said, entity, f" (within {100 * ABOUT:g} %)")


def constant_stack(slope: Slope) -> Statement:
    """The stack of an entity is constant: no more than `ABOUT` between any two of its points."""
    low, high = float(slope.values.min()), float(slope.values.max())
    verdict: Verdict = "supported" if high <= low * (1 + ABOUT) else "not so"
    if slope.counts.size < 2:
        verdict = "cannot be judged"
    first, last = int(slope.counts.min()), int(slope.counts.max())
    said = f"{low:,.0f} to {high:,.0f} B with {first} to {last}"
    note = f" (within {100 * ABOUT:g} %)" if verdict == "supported" else ""
    return Statement("the stack is constant", verdict, said, slope.entity, note)


def _order(known: _Known, emulated: Collection[str], reliability: str) -> Statement:
    """The published round trips: UDP 1.26 ms, serial 8.81 ms; of TCP there is none."""
    claim = "the round trip is shorter over UDP than over the serial line"
    subject = reliability.replace("_", " ")
    udp, serial = (known.get(("rtt_p50", f"{x} {reliability}")) for x in ("udp", "serial"))
    if udp is None or serial is None:
        return Statement(claim, "cannot be judged", "no round trips of both", subject)
    said = f"UDP {_ms(udp)}, serial {_ms(serial)}"
    if serial.cell["transport"] in emulated:
        said += "; but this serial line is emulated and has no line rate"
        return Statement(claim, "cannot be judged", said, subject)
    return Statement(claim, _rising([udp, serial]), said, subject)


def _follows(known: _Known, reliability: str) -> Statement:
    """By the throughput of the largest messages that go to the agent."""
    both = []
    for name in (f"{x} {reliability}" for x in ("udp", "tcp", "tcp_no_delay")):
        rates = [e for (m, t), e in known.items() if m.startswith("throughput ") and t == name]
        rate = max(rates, key=lambda e: int(str(e.cell["payload_bytes"])), default=None)
        trip = known.get(("rtt_p50", name))
        if rate is not None and trip is not None:
            both.append((name, rate, trip))
    both.sort(key=lambda x: -not_none(x[1].value))
    said = ", ".join(
        f"{name} {not_none(rate.value) / 1e3:,.1f} kB/s and {_ms(trip)}"
        for name, rate, trip in both
    )
    subject = reliability.replace("_", " ")
    # Of each two of which it is known which has more.
    told = {
        _rising([trip, other])
        for (_, rate, trip), (_, less, other) in combinations(both, 2)
        if _rising([less, rate]) == "supported"
    }
    verdict: Verdict = told.pop() if len(told) == 1 else "cannot be judged"
    if "not so" in told:
        verdict = "not so"
    return Statement(FOLLOWS, verdict, said or "no transports to compare", subject)


def _waits(known: _Known, reliability: str) -> Statement:
    claim = "TCP waits: for most of its round trip short writes wait for delayed acknowledgements"
    subject = reliability.replace("_", " ")
    of = {
        name: {m: known.get((m, f"{name} {reliability}")) for m in _WAYS}
        for name in ("tcp", "tcp_no_delay")
    }
    slow, quick = (of[name]["rtt_p50"] for name in of)
    if slow is None or quick is None:
        return Statement(claim, "cannot be judged", "no round trips of both", subject)
    said = "; ".join(
        f"{told} "
        + ", ".join(
            f"{way}{_ms(e)}"
            for m, way in _WAYS.items()
            # A direction without an interval may be anything up to the round trip.
            if (e := of[name][m]) and (not way or e.low is not None)
        )
        for name, told in (("tcp", "as the client has it"), ("tcp_no_delay", "without delays"))
    )
    bounds = (slow.low, slow.high, quick.low, quick.high)
    verdict: Verdict = "cannot be judged"
    if None not in bounds:
        low, high, least, most = (float(x or 0) for x in bounds)
        verdict = "supported" if 2 * most < low else "not so" if 2 * least > high else verdict
    return Statement(claim, verdict, said, subject)


_WAYS = {"rtt_p50": "", "client_latency_p50": "to the agent ", "agent_latency_p50": "back "}


def _ms(estimate: Estimate) -> str:
    """With its interval: directions are no better known than the clocks are."""
    value, low, high = (x and x / 1e6 for x in (estimate.value, estimate.low, estimate.high))
    interval = "" if low is None or high is None else f" [{low:,.2f}, {high:,.2f}]"
    return f"{value:,.2f}{interval} ms"


def _rising(estimates: Sequence[Estimate]) -> Verdict:
    """Whether intervals lie one above the other; where two overlap nothing is said."""
    bounds = [(e.low, e.high) for e in estimates]
    if any(low is None or high is None for low, high in bounds):
        return "cannot be judged"
    above = [(b[0] or 0) > (a[1] or 0) for a, b in pairwise(bounds)]
    below = [(b[1] or 0) < (a[0] or 0) for a, b in pairwise(bounds)]
    return "supported" if all(above) else "not so" if any(below) else "cannot be judged"
