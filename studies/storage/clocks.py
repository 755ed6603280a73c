"""Whether the tracepoints and the program's own clock say the same about a write call."""

from __future__ import annotations

from dataclasses import dataclass

from roslens.recording import Recording
from roslens.recording.arrays import np
from roslens.studies.storage.live import LiveRun, write_times
from roslens.studies.storage.results.runs import write_calls

TOLERANCE = 0.02
TOLERANCE_NS = 500.0
"""Per call; whichever of the two is larger."""


@dataclass(frozen=True)
class Agreement:
    """Traced against self-timed write calls of one run.

    Attributes
    ----------
    calls, matched
        Write calls, and those of which both tracepoints are in the trace.
    self_ns, traced_ns
        Mean time of the matched calls.
    median_difference_ns
        Median over calls of traced - self-timed.
    median_excess
        Median over calls of the difference's size over the call's tolerance.
    beyond
        Calls whose two times differ by more than the tolerance: a thread was preempted between
        the one clock reading and the other, which on a busy machine bends means.
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
        """Of the means, traced - self-timed."""
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
