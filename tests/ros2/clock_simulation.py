"""Simulate two hosts with known clocks and messages between them, as truth for tests."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from roslens.collectors.ros2.clock_fit import fit_clocks

EPOCH = 1_700_000_000_000_000_000
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Drawn:
    """Randomly drawn clocks of two hosts, and the messages between them.

    Attributes
    ----------
    seconds
        How long messages were sent, in seconds.
    offset_ns, rate
        How far the clock of h1 is ahead at the beginning, and how many ns it gains per ns.
    step_at_s, step_ns
        When the clock of h1 jumps, and by how much; if below zero, h1 is suspended meanwhile.
    """

    seed: int
    seconds: float
    offset_ns: float
    rate: float
    step_at_s: float
    step_ns: float
    crossings: pl.DataFrame

    def ahead(self, time_ns: Floats) -> Floats:
        """Return how far h1 is ahead, in ns, at h0's (true) times in ns since the beginning."""
        stepped = np.where(time_ns > self.step_at_s * 1e9, self.step_ns, 0.0)
        return self.offset_ns + time_ns * self.rate + stepped

    def awake(self, time_ns: Floats) -> npt.NDArray[np.bool_]:
        """Return whether h1 is awake, not suspended, at each time."""
        begin = self.step_at_s * 1e9
        return (time_ns <= begin) | (time_ns > begin - min(0.0, self.step_ns))


def draw(seed: int, *, step: bool = False) -> Drawn:
    """Draw clocks with offsets up to an hour and drift up to 200 ppm, and messages each way.

    Each direction has its own delays and loses up to half of its messages. Every delay is at least
    10 us to 1 ms, and exponential above that with a mean of 10 us to 3 ms.
    """
    rng = np.random.default_rng(seed)
    seconds = float(rng.choice([2, 10, 60, 300]))
    size = 10 ** rng.uniform(6.5, 10.5) * rng.choice([-1, 1])
    about = Drawn(
        seed, seconds, rng.uniform(-3600e9, 3600e9), rng.uniform(-200e-6, 200e-6),
        seconds * rng.uniform(0.2, 0.8), float(size) if step else 0.0, pl.DataFrame(),
    )  # fmt: skip
    count = int(rng.integers(20, 800))
    parts = []
    for outward in (True, False):
        sent = np.sort(rng.uniform(0, seconds * 1e9, count))
        sent = sent[rng.random(count) > rng.uniform(0, 0.5)]
        taken = sent + rng.uniform(1e4, 1e6) + rng.exponential(rng.uniform(1e4, 3e6), sent.size)
        awake = about.awake(taken if outward else sent)
        left, arrived = (times[awake] for times in (sent, taken))
        # Each time is read from the clock of the host on which it was taken.
        left = left if outward else left + about.ahead(left)
        arrived = arrived + about.ahead(arrived) if outward else arrived
        hosts = ("h0", "h1") if outward else ("h1", "h0")
        times = {
            "sent_ns": EPOCH + np.floor(left).astype(np.int64),
            "taken_ns": EPOCH + np.ceil(arrived).astype(np.int64),
        }
        names = [
            pl.lit(host).alias(column)
            for host, column in zip(hosts, ("from_host", "to_host"), strict=True)
        ]
        parts.append(pl.DataFrame(times).select(*names, "sent_ns", "taken_ns"))
    return Drawn(**{**vars(about), "crossings": pl.concat(parts)})


def wrong(drawn: Drawn, widths: list[float]) -> str | None:
    """Return a property that fails in a trial, or None; append its bounds' width to `widths`."""
    fit = fit_clocks(drawn.crossings, ["h0", "h1"])
    if fit is None:
        return "no fit"
    true = np.linspace(0, drawn.seconds * 1e9, 200)
    true = true[drawn.awake(true)]
    ahead = drawn.ahead(true)
    first = EPOCH + np.round(true).astype(np.int64)
    local = EPOCH + np.round(true + ahead).astype(np.int64)
    low, high = fit.offset_bounds("h1", local)
    if ((ahead < low) | (ahead > high)).any():
        return "the true offset is outside of the bounds"
    widths.append(float(np.median(high - low)))
    # Messages cannot reveal a smaller step, nor a step after which no message follows.
    after = true[-1] > drawn.step_at_s * 1e9
    seen = after and abs(drawn.step_ns) > 2 * np.max(high - low)
    if (seen and not fit.steps) or (fit.steps and not drawn.step_ns):
        return f"{len(fit.steps)} steps found"
    added, bounds = fit.corrections(), fit.bounds(aligned=True).get(("h0", "h1"), [])
    at = [time - EPOCH for time, _ in bounds]
    times = [
        clock - EPOCH + np.interp(clock - EPOCH, [t - EPOCH for t, _ in line], [a for _, a in line])
        for clock, line in ((first, added.get("h0", [(0, 0)])), (local, added.get("h1", [(0, 0)])))
    ]
    if any((np.diff(line) < 0).any() for line in times):
        return "a time line goes back"
    within = np.interp(times[0], at, [bound for _, bound in bounds])
    if (np.abs(times[1] - times[0]) > within).any():
        return "times brought together are further apart than their bound"
    return None
