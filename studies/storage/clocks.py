"""Compare the tracepoints of write calls with the program's own clock."""

from __future__ import annotations

from dataclasses import dataclass

from roslens.recording import Recording
from roslens.recording.arrays import np
from roslens.studies.storage.live import LiveRun, write_times
from roslens.studies.storage.results.runs import write_calls

TOLERANCE = 0.02
TOLERANCE_NS = 500.0
"""Tolerances of one call; the larger one applies."""


@dataclass(frozen=True)
class Agreement:
    """Traced and self-timed write calls of one run, compared.

    Attributes
    ----------
    calls, matched
        Number of write calls, and of those with both tracepoints in the trace.
    self_ns, traced_ns
        Mean times of the matched calls.
    median_difference_ns
        Median over calls of traced - self-timed.
    median_excess
        Median over calls of the difference's size over the call's tolerance.
    beyond
        Number of calls whose two times differ by more than the tolerance: a thread was preempted
        between the two clock readings, which distorts means on a busy machine.
    """

    live: LiveRun
    calls: int
    matched: int
    self_ns: float
    traced_ns: float
    median_difference_ns: float
    median_excess: float
    beyond: int

    @property
    def difference_ns(self) -> float:
        """Difference of the means, traced - self-timed, in ns."""
        return self.traced_ns - self.self_ns

    @property
    def agrees(self) -> bool:
        """Whether a call's two times typically differ by no more than its tolerance."""
        return self.matched > 0 and self.median_excess <= 1


def agreement(live: LiveRun, recording: Recording) -> Agreement | None:
    """Compare both times of each call; None where the run has no tracepoints."""
    traced = write_calls(recording.events)
    times = write_times(live)
    if traced is None or traced.is_empty():
        return None
    call = traced["call"].to_numpy()
    whole = (call >= 0) & (call < times.size)
    if not whole.any():
        return None
    call = call[whole]
    seen = (traced["end_ns"] - traced["begin_ns"]).to_numpy().astype(np.float64)[whole]
    timed = times[call]
    difference = np.abs(seen - timed)
    allowed = np.maximum(TOLERANCE * timed, TOLERANCE_NS)
    return Agreement(
        live,
        calls=times.size,
        matched=call.size,
        self_ns=float(timed.mean()),
        traced_ns=float(seen.mean()),
        median_difference_ns=float(np.median(seen - timed)),
        median_excess=float(np.median(difference / allowed)),
        beyond=int((difference > allowed).sum()),
    )
