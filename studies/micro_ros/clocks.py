"""Bound the difference of two clocks by exchanged messages.

A message that is sent when the client's clock says c and received when the agent's says a shows
that the client's clock, at a, says at least c: no message arrives before it was sent. The answer
bounds the clock from the other side. For clocks that differ by an offset and a drift these bounds
are half planes, and the remaining region is found by linear programming (Duda et al. 1987, ICDCS;
Moon, Skelly and Towsley 1999, INFOCOM; Zhang, Liu and Xia 2002, INFOCOM). The truth lies within
it whatever the delays are, symmetric or not; nothing is assumed about their distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

from scipy import optimize

from roslens.collectors.ros2.clock_fit import corners
from roslens.recording.arrays import ArrayLike, Floats, Ints, np

LEAST_EXCHANGES = 10
_KNOTS = 17


@dataclass(frozen=True)
class ClockFit:
    """The client's clock minus the agent's, over the agent's time.

    Attributes
    ----------
    knots_ns
        Times of the agent's clock, relative to `origin_ns`, shape (k,).
    low_ns, high_ns
        Bounds of the difference at those times beyond `difference_ns`; between them bounds are
        straight lines, which is never too narrow (the upper bound is convex, the lower concave).
    drift
        Bounds of the drift in ns per ns.
    refused
        Why there is no fit; None: there is one.
    """

    origin_ns: int
    difference_ns: int
    knots_ns: Floats
    low_ns: Floats
    high_ns: Floats
    drift: tuple[float, float]
    exchanges: int
    refused: str | None = None

    @property
    def middle(self) -> int:
        """Index of the knot in the middle of the run."""
        return int(self.knots_ns.size // 2)

    @property
    def offset_ns(self) -> tuple[float, float, float]:
        """Difference in the middle of the run in ns: estimate and bounds."""
        low = float(self.low_ns[self.middle]) + self.difference_ns
        high = float(self.high_ns[self.middle]) + self.difference_ns
        return (low + high) / 2, low, high

    @property
    def middle_ns(self) -> float:
        """The agent's time in the middle of the run, ns."""
        return self.origin_ns + float(self.knots_ns[self.middle])

    def difference_at(self, agent_ns: Floats) -> tuple[Floats, Floats]:
        """Return the difference beyond `difference_ns`, and half the width of its bounds.

        Parameters
        ----------
        agent_ns
            Agent's times, relative to `origin_ns`.
        """
        low = np.interp(agent_ns, self.knots_ns, self.low_ns)
        high = np.interp(agent_ns, self.knots_ns, self.high_ns)
        return (low + high) / 2, (high - low) / 2


def fit_clocks(
    client_sent_ns: ArrayLike,
    agent_received_ns: ArrayLike,
    agent_sent_ns: ArrayLike,
    client_received_ns: ArrayLike,
    resolution_ns: float = 1.0,
) -> ClockFit:
    """Bound offset and drift by the four stamps of each exchange.

    Parameters
    ----------
    resolution_ns
        Resolution of both clocks together: how much later than its stamp a moment can have been.

    Returns
    -------
    ClockFit
        The fit, with `refused` set where there are too few exchanges, or where no line lies between
        the bounds: then a clock was set, its drift changed, or stamps are wrong.
    """
    t1, t2, t3, t4 = (
        np.asarray(stamps, dtype=np.int64)
        for stamps in (client_sent_ns, agent_received_ns, agent_sent_ns, client_received_ns)
    )
    count = t1.size
    if count < LEAST_EXCHANGES:
        return _refused(count, f"{count} exchanges; {LEAST_EXCHANGES} are needed")
    # Differences are taken first, as integers: times since the epoch exceed a float's digits.
    origin, difference = int(t2[0]), int(t1[0] - t2[0])
    # Stamps lie before the first arrival and after the last answer by at most their round trips. A
    # hundredth is added, as round trips were taken on the client's clock.
    round_trips = 1.01 * (t4 - t1) + resolution_ns
    first, last = float((t2 - origin - round_trips).min()), float((t3 - origin + round_trips).max())
    forward = (t2 - origin).astype(np.float64)
    least = (t1 - t2 - difference).astype(np.float64) - resolution_ns
    backward = (t3 - origin).astype(np.float64)
    most = (t4 - t3 - difference).astype(np.float64) + resolution_ns
    span = float(max(forward.max(), backward.max()) - min(forward.min(), backward.min()))
    if span <= 0:
        return _refused(count, "all exchanges are at the same time")
    # After a rough drift is removed, values are small, whatever the length of the run. The drift is
    # the slope between the quickest exchanges of both halves.
    early = int((most - least)[: count // 2].argmin())
    late = count // 2 + int((most - least)[count // 2 :].argmin())
    rough = (least[late] - least[early]) / max(1.0, forward[late] - forward[early])
    least -= rough * forward
    most -= rough * backward
    forth, back = corners(forward, least), corners(backward, most)
    forward, least, backward, most = forward[forth], least[forth], backward[back], most[back]
    scale = max(1.0, float(np.abs(least).max()), float(np.abs(most).max()))
    rows = np.concatenate(
        [
            np.stack([-np.ones_like(forward), -forward / span], axis=1),
            np.stack([np.ones_like(backward), backward / span], axis=1),
        ]
    )
    limits = np.concatenate([-least, most]) / scale

    def bound(objective: Floats) -> float | None:
        solution = optimize.linprog(
            objective, A_ub=rows, b_ub=limits, bounds=[(None, None)] * 2, method="highs"
        )
        return None if solution.fun is None or solution.status else float(solution.fun)

    inner = np.linspace(float(backward.min()), float(forward.max()), _KNOTS)
    knots = np.concatenate([[min(first, inner[0])], inner, [max(last, inner[-1])]])
    low, high = np.empty(knots.size), np.empty(knots.size)
    for i, knot in enumerate(knots):
        at = np.array([1.0, knot / span])
        smallest, largest = bound(at), bound(-at)
        if smallest is None or largest is None:
            return _refused(
                count,
                "no constant offset and drift fit all exchanges: a clock was set or its drift "
                "changed during the run, or stamps are wrong",
            )
        low[i], high[i] = smallest * scale + rough * knot, -largest * scale + rough * knot
    slowest, fastest = bound(np.array([0.0, 1.0])), bound(np.array([0.0, -1.0]))
    assert slowest is not None
    assert fastest is not None
    drift = (rough + slowest * scale / span, rough - fastest * scale / span)
    return ClockFit(origin, difference, knots, low, high, drift, count)


def _refused(count: int, why: str) -> ClockFit:
    nothing = np.empty(0)
    return ClockFit(0, 0, nothing, nothing, nothing, (np.nan, np.nan), count, why)


@dataclass(frozen=True)
class Directions:
    """Latency of each exchange by direction.

    Attributes
    ----------
    client_ns, agent_ns
        Latencies from client to agent and from agent to client, shape (n,).
    uncertainty_ns
        Uncertainty of each direction by the clocks; a gain of one direction is a loss of the other.
    turnaround_ns
        Time between receiving and answering, on the agent's clock.
    """

    client_ns: Floats
    agent_ns: Floats
    uncertainty_ns: Floats
    turnaround_ns: Floats


def directions(
    fit: ClockFit,
    client_sent_ns: ArrayLike,
    agent_received_ns: ArrayLike,
    agent_sent_ns: ArrayLike,
    client_received_ns: ArrayLike,
) -> Directions:
    """Return latency by direction, with the client's stamps converted to the agent's clock."""
    t1, t2, t3, t4 = (
        np.asarray(stamps, dtype=np.int64)
        for stamps in (client_sent_ns, agent_received_ns, agent_sent_ns, client_received_ns)
    )
    sent, sent_width = to_agent(fit, t1)
    received, received_width = to_agent(fit, t4)
    return Directions(
        (t2 - fit.origin_ns) - sent,
        received - (t3 - fit.origin_ns),
        np.maximum(sent_width, received_width),
        (t3 - t2).astype(np.float64),
    )


def to_agent(fit: ClockFit, client_ns: Ints) -> tuple[Floats, Floats]:
    """Convert client times to the agent's clock, relative to its origin, with half widths."""
    relative = (client_ns - (fit.origin_ns + fit.difference_ns)).astype(np.float64)
    agent = relative
    # The difference depends on the agent's time; drifts are small, so the iteration settles at
    # once.
    for _ in range(3):
        difference, width = fit.difference_at(agent)
        agent = relative - difference
    return agent, width
