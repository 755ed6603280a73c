"""Simulate losses in bursts, in runs that differ, and with bad runs: what the intervals hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import product

from roslens.analysis.calibration.results import Result, Section
from roslens.analysis.calibration.series import generator
from roslens.analysis.estimate import Metric
from roslens.analysis.statistics.fractions import WORSE, fraction_over_runs
from roslens.recording.arrays import Floats, Ints, np

TITLE = "Loss over runs"
COVERED, AT_THE_BORDER = 0.93, 0.05
RUNS, MESSAGES, PARTS = (3, 5, 10, 20), (300, 3000), (0.001, 0.005, 0.05)
LEAST = 200
"""Least number of experiments of which a fraction is shown."""
RARE = 0.1
EVIDENT = 20
"""Number of lost messages from which on ten runs or more are never refused."""

Rates = Callable[[np.random.Generator, float, tuple[int, int]], Floats]


def _differ(sd: float) -> Rates:
    """Return rates of runs that differ by a log-normal factor of mean 1."""
    return lambda rng, p, shape: p * np.exp(sd * rng.standard_normal(shape) - sd**2 / 2)


def _one_in_ten_bad(times: float) -> Rates:
    """Return rates with one run in ten `times` as bad as the others (infinite: only it loses)."""

    def rates(rng: np.random.Generator, p: float, shape: tuple[int, int]) -> Floats:
        usual = p / (1 + RARE * (times - 1)) if math.isfinite(times) else 0.0
        return np.where(rng.random(shape) < RARE, (p - (1 - RARE) * usual) / RARE, usual)

    return rates


KINDS: Mapping[str, tuple[Rates, int]] = {
    "independent": (_differ(0), 1),
    "bursts of 10": (_differ(0), 10),
    "runs differ, sd 0.6": (_differ(0.6), 1),
    "runs differ, sd 1": (_differ(1.0), 1),
    "runs differ, sd 1.5": (_differ(1.5), 1),
    "bursts of 10, sd 1": (_differ(1.0), 10),
    "bad run, 10 times": (_one_in_ten_bad(10), 1),
    f"bad run, {WORSE:g} times": (_one_in_ten_bad(WORSE), 1),
    "bad run, others none": (_one_in_ten_bad(math.inf), 1),
}
"""By kind, the part of its messages that each run loses, and how many are lost at once."""

BEYOND = {"bad run, 100 times": (_one_in_ten_bad(100), 1)}
"""Worse than an interval allows for in runs that were not met: published as it is."""


def drawn(kind: str, part: float, messages: int, runs: int, count: int) -> Ints:
    """Draw the numbers of messages lost, shape (count, runs)."""
    rates, burst = {**KINDS, **BEYOND}[kind]
    rng = generator("loss", kind, part, messages, runs)
    p = np.minimum(1.0, rates(rng, part, (count, runs)))
    lost = rng.binomial(messages, p) if burst == 1 else burst * rng.poisson(messages * p / burst)
    return np.asarray(np.minimum(messages, lost), dtype=np.int64)


def simulated(
    kind: str, part: float, messages: int, runs: int, count: int
) -> tuple[Floats, Floats, float, Ints]:
    """Return the bounds of each experiment (nan if refused), the truth, and the messages lost."""
    lost = drawn(kind, part, messages, runs, count)
    metric = Metric("loss", "simulated", "1", scale="fraction")
    by_row: dict[tuple[int, ...], tuple[float, float]] = {}
    for row in map(tuple, np.sort(lost, axis=1).tolist()):
        if row not in by_row:
            estimate = fraction_over_runs(metric, {}, row, [messages] * runs)
            given = estimate.low is not None and estimate.high is not None
            by_row[row] = (estimate.low, estimate.high) if given else (math.nan, math.nan)  # type: ignore[assignment]
    low, high = np.array([by_row[tuple(row)] for row in np.sort(lost, axis=1).tolist()]).T
    return low, high, _truth(kind, part), lost


def _truth(kind: str, part: float) -> float:
    """Return the mean fraction lost over runs, none of which can lose more than all."""
    rates, _ = {**KINDS, **BEYOND}[kind]
    rng = generator("loss", "truth", kind, part)
    return float(np.minimum(1.0, rates(rng, part, (1000, 1000))).mean()) if "sd" in kind else part


def loss(count: int) -> Section:
    """Simulate coverage, refusals, width, and what check says at the border."""
    results = []
    for kind, part, messages, runs in product({**KINDS, **BEYOND}, PARTS, MESSAGES, RUNS):
        low, high, truth, lost = simulated(kind, part, messages, runs, count)
        given = np.isfinite(low)
        evident = (runs >= 10) & (lost.sum(axis=1) >= EVIDENT)
        held = int(((low <= truth) & (truth <= high))[given].sum())
        cell = {
            "losses": kind,
            "lost": f"{100 * part:g} %",
            "messages": f"{messages:,}",
            "runs": f"{runs}",
        }
        if given.any():
            width = float(np.median((high - low)[given])) / truth
            cell["median width"] = f"{width:.3g} times"
        barred = kind in KINDS
        if given.sum() >= LEAST:
            bar = COVERED if barred else None
            results.append(Result(TITLE, cell, "coverage", held, int(given.sum()), bar))
        within = int((high[given] < truth).sum())
        bar = AT_THE_BORDER if barred else None
        results.append(Result(TITLE, cell, "within at the border", within, count, None, bar))
        results.append(Result(TITLE, cell, "refused", int((~given).sum()), count))
        if evident.sum() >= LEAST:
            refused = int((~given & evident).sum())
            results.append(
                Result(TITLE, cell, "refused of evident", refused, int(evident.sum()), None, 0.0)
            )
    text = (
        f"Each cell has {count:,} simulations of `fraction_over_runs`, with the given number of "
        "messages per run. Bursts of 10 lose ten messages at once. Runs differ by a log-normal "
        "factor whose log has the given sd. In the cells with a bad run, each run is bad with a "
        "probability of one in ten, and loses the given number of times as much as the others, or "
        "all that is lost: of three runs none is bad in 73 %, of twenty in 12 %. Coverage counts "
        "only intervals that were given. Within at the border: `roslens check` says so of a limit "
        f"that is the truth. Evident: {EVIDENT} lost or more, in ten runs or more. The median "
        "width is in units of the truth. An interval allows for bad runs that did not occur and "
        f"lose {WORSE:g} times as much; beyond that no interval from so few runs can hold, and "
        "what happens is shown without a bar."
    )
    return Section(TITLE, text, (), results)
