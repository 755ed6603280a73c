"""Races whose truth is known: false alarms under peeking, and when a race stops.

Prints the tables of docs/racing.md; --plot draws its picture. Seeds are fixed; about ten minutes
on one core.
"""

from __future__ import annotations

import argparse
import bisect
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from scipy import stats

from roslens.analysis.figures import style
from roslens.analysis.figures.plot import Plot
from roslens.analysis.statistics.sequential import (
    OPENING,
    confidence_sequence,
    log_wealth,
    resolution_of,
)
from roslens.analysis.verdicts.race import decided

Floats = NDArray[np.float64]
NEEDED = math.log(2 / 0.05)
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def drift(noise: Floats, shape: str) -> Floats:
    """Return a drift by which the log rises by log(1.5) over the runs of a race."""
    runs = noise.shape[-1]
    rise = np.arange(runs) / runs if shape == "linear" else np.arange(runs) >= runs // 2
    return np.broadcast_to(math.log(1.5) * rise, noise.shape)


def autocorrelated(noise: Floats, phi: float = 0.9) -> Floats:
    """Turn noise into AR(1) of the same standard deviation, in order of time."""
    series = noise.copy()
    for i in range(1, noise.shape[-1]):
        series[..., i] = phi * series[..., i - 1] + math.sqrt(1 - phi**2) * noise[..., i]
    return series


def bimodal(rng: np.random.Generator, shape: tuple[int, ...], sd: float) -> Floats:
    """Draw from two modes, with a quarter of the runs in the slow one."""
    slow = rng.random(shape) < 0.25
    return sd / math.sqrt(3 / 16) * slow + 0.05 * sd * rng.normal(size=shape)


Make = Callable[[np.random.Generator, tuple[int, ...]], Floats]


def normal(sd: float) -> Make:
    return lambda rng, shape: sd * rng.normal(size=shape)


def drifting(shape_of_drift: str) -> Make:
    def make(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        noise = normal(0.05)(rng, shape)
        return noise + drift(noise, shape_of_drift)

    return make


def all_together(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    noise = autocorrelated(normal(0.1)(rng, shape))
    skewed = np.log1p(rng.exponential(size=shape) / 5)
    return noise + drift(noise, "linear") + drift(noise, "step") + skewed + bimodal(rng, shape, 0.6)


SCENARIOS: dict[str, Make] = {
    **{f"run effects, log sd {sd:g}": normal(sd) for sd in (0.02, 0.1, 0.3, 0.6)},
    **{f"bimodal, log sd {sd:g}": partial(bimodal, sd=sd) for sd in (0.02, 0.1, 0.3, 0.6)},
    **{f"{s} drift of 50 %, log sd 0.05": drifting(s) for s in ("linear", "step")},
    "AR(1) of 0.9, log sd 0.1": lambda rng, shape: autocorrelated(normal(0.1)(rng, shape)),
    "lognormal, log sd 1": normal(1.0),
    "exponential": lambda rng, shape: np.log(rng.exponential(size=shape)),
    "1 + exponential / 5": lambda rng, shape: np.log1p(rng.exponential(size=shape) / 5),
    "all together, log sd 0.6": all_together,
}


Sides = tuple[Floats, Floats]


def raced(
    make: Make, races: int, pairs: int, ratio: float, seed: int, *, randomised: bool = True
) -> Sides:
    """Return logarithms of A and of B, shape (races, pairs): runs in order of time, as in a race.

    The first runs of a race are in a random order, and a coin decides the order of each later pair.
    """
    rng = np.random.default_rng(seed)
    runs = make(rng, (races, 2 * pairs))
    opening = np.arange(races * 2 * OPENING).reshape(races, -1) % 2 == 1
    later = np.ones((races, pairs - OPENING), dtype=bool)
    if randomised:
        opening = rng.permuted(opening, axis=1)
        later = rng.random(later.shape) < 0.5
    coins = np.stack([~later, later], axis=-1).reshape(races, -1)
    is_b = np.concatenate([opening, coins], axis=1)
    a, b = (runs[side].reshape(races, pairs) for side in (~is_b, is_b))
    return a, b + math.log(ratio)


def left_out(sides: Sides, ratio: float, resolution: float) -> tuple[Floats, Floats]:
    """Return the first pair at which the interval is above, and below, a ratio; else infinity."""
    theta = math.log(ratio)
    return tuple(  # type: ignore[return-value]
        np.where((beyond := log_wealth(*order, sign * theta, resolution) >= NEEDED).any(-1),
                 beyond.argmax(-1) + 1.0, np.inf)
        for order, sign in ((sides, 1), (sides[::-1], -1))
    )  # fmt: skip


def stopped(sides: Sides, threshold: float, resolution: float) -> dict[str, Floats]:
    """Return the first pair at which each verdict of `decided` is reached, ignoring the others."""
    above, below = left_out(sides, 1.0, resolution)
    _, under = left_out(sides, 1 + threshold, resolution)
    over, _ = left_out(sides, 1 - threshold, resolution)
    return {
        "regression": np.where(above < under, above, np.inf),
        "improvement": np.where(below < over, below, np.inf),
        "no_difference": np.maximum(under, over),
    }


def fixed_pairs(sd: float, ratio: float, power: float) -> int:
    """Return the runs per side that the t test needs, unpaired or paired, whichever is fewer."""
    n = np.arange(2, 20_000)
    needed = []
    for freedom in (n - 1, 2 * n - 2):
        critical = stats.t.ppf(0.975, freedom)
        away = math.log(ratio) / (sd * np.sqrt(2 / n))
        reached = stats.nct.sf(critical, freedom, away) + stats.nct.cdf(-critical, freedom, away)
        needed.append(int(n[np.argmax(reached >= power)]))
    return min(needed)


def fixed_permutation(sd: float, ratio: float, power: float, about: int) -> int:
    """Return the runs per side that Mann and Whitney's test needs, which assumes only random order.

    Found by simulation; `about` is the number for the t test. Below `OPENING` runs none rejects.
    """

    def suffices(n: int) -> bool:
        rng = np.random.default_rng(seed_of("fixed", sd, n))
        a, b = sd * rng.normal(size=(2, max(1000, min(10_000, 2_000_000 // n)), n))
        how = "exact" if n <= 50 else "asymptotic"
        p = stats.mannwhitneyu(a, b + math.log(ratio), axis=1, method=how).pvalue
        return bool((p <= 0.05).mean() >= power)

    sizes = range(OPENING, 2 * about + OPENING)
    return sizes[bisect.bisect_left(sizes, True, key=suffices)]


def seed_of(*what: object) -> int:
    return zlib.crc32(repr(what).encode())


def row(*cells: object) -> None:
    print("|", " | ".join(map(str, cells)), "|", flush=True)


def head(*cells: str) -> None:
    print()
    row(*cells)
    row(*("---" for _ in cells))


def false_alarms(races: int, pairs: int = 300) -> None:
    head("no difference, threshold 5 %", "excluded 1, of all races", "at the most (99 %)",
         *(f"{q:.0%}" for q in QUANTILES))  # fmt: skip
    resolution = resolution_of(0.05)
    for name, make in SCENARIOS.items():
        sides = raced(make, races, pairs, 1.0, seed_of("null", name))
        alarms = int(sum(np.isfinite(side).sum() for side in left_out(sides, 1.0, resolution)))
        most = stats.beta.ppf(0.99, alarms + 1, races - alarms)
        times = np.minimum.reduce(list(stopped(sides, 0.05, resolution).values()))
        row(name, f"{alarms / races:.2%}", f"{most:.2%}", *quantiles(times, pairs))
    head("no difference, otherwise", "excluded 1, of all races")
    for order in ("in random order", "A always first"):
        sides = raced(slower_with_each_run, races, pairs, 1.0, seed_of(order),
                      randomised=order == "in random order")  # fmt: skip
        alarms = sum(np.isfinite(side).sum() for side in left_out(sides, 1.0, resolution))
        row(f"each run 2 % slower than the one before, {order}", f"{alarms / races:.2%}")
    a, b = raced(normal(0.1), races, pairs, 1.0, seed_of("t"))
    n = np.arange(OPENING, pairs + 1)
    mean = np.cumsum(b - a, axis=1)[:, OPENING - 1 :] / n
    squares = np.cumsum((b - a) ** 2, axis=1)[:, OPENING - 1 :]
    deviation = np.sqrt((squares - n * mean**2) / (n - 1))
    rejected = np.abs(mean) * np.sqrt(n) > stats.t.ppf(0.975, n - 1) * deviation
    row(
        "Student's paired t looked at after every pair from the fourth",
        f"{rejected.any(1).mean():.2%}",
    )


def slower_with_each_run(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return normal(0.02)(rng, shape) + 0.02 * np.arange(shape[-1])


def quantiles(times: Floats, pairs: int) -> list[str]:
    return [
        f"{t:.0f}" if t <= pairs else f"> {pairs}"
        for t in np.quantile(times, QUANTILES, method="inverted_cdf")
    ]


def seeded(races: int) -> None:
    head("B is 5 % slower, threshold 5 %", "pairs at most", "regression", "improvement",
         "no_difference", "undecided", *(f"{q:.0%}" for q in QUANTILES))  # fmt: skip
    cases = {
        "log sd 0.02": (normal(0.02), 300),
        "log sd 0.05": (normal(0.05), 300),
        "log sd 0.1": (normal(0.1), 300),
        "log sd 0.3": (normal(0.3), 3000),
        **{name: (SCENARIOS[name], 300) for name in (
            "linear drift of 50 %, log sd 0.05", "step drift of 50 %, log sd 0.05",
            "AR(1) of 0.9, log sd 0.1", "bimodal, log sd 0.1", "1 + exponential / 5")},
    }  # fmt: skip
    for name, (make, pairs) in cases.items():
        count = races if pairs == 300 else races // 10
        sides = raced(make, count, pairs, 1.05, seed_of("5 %", name))
        at = stopped(sides, 0.05, resolution_of(0.05))
        times = np.minimum.reduce(list(at.values()))
        shares = [(np.isfinite(t) & (t == times)).mean() for t in at.values()]
        row(name, pairs, *(f"{s:.1%}" for s in [*shares, np.isinf(times).mean()]),
            *quantiles(times, pairs))  # fmt: skip


def precise(races: int) -> None:
    """Race until the interval of `confidence_sequence`, taken after every pair, is narrow."""
    head("B is 7 % slower, log sd", "precision", "intervals that never left out the truth",
         *(f"{q:.0%}" for q in QUANTILES))  # fmt: skip
    for sd, precision in ((0.02, 0.05), (0.05, 0.1), (0.1, 0.2)):
        sides = raced(normal(sd), races, 300, 1.07, seed_of("precise", sd))
        resolution = resolution_of(precision=precision)
        held, times = [], []
        for a, b in np.exp(sides).swapaxes(0, 1):
            for pairs in range(OPENING, 301):
                now = confidence_sequence(a[:pairs], b[:pairs], resolution)
                if decided(now, None, precision) is not None:
                    break
            # Intervals only shrink: the last one covers a value if all did.
            held.append(now.low <= 1.07 <= now.high)
            times.append(pairs)
        row(f"{sd:g}", f"{precision:.0%}", f"{np.mean(held):.1%}", *quantiles(np.array(times), 300))


@dataclass(frozen=True)
class Stops:
    """Pairs at which races stopped, by B / A, and pairs of the fixed t and permutation test."""

    times: dict[float, Floats]
    fixed: int
    permutation: int


def against_fixed(races: int, threshold: float = 0.1) -> dict[float, Stops]:
    """Compare races with fixed tests; return the stops by log sd."""
    head("log sd", "pairs at most", "power at +10 %", "t test of that power", "permutation test",
         "+10 %", "+20 %", "no difference", "+10 % cut at power 80 %", "t test", "at power 90 %",
         "t test", "at power 95 %", "t test")  # fmt: skip
    resolution = resolution_of(threshold)
    found_stops = {}
    for sd in (0.02, 0.05, 0.1, 0.2, 0.3, 0.6):
        unit = 2 * (sd / math.log1p(threshold)) ** 2
        pairs = math.ceil(max(60, 40 * unit))
        count = max(1000, min(races, 2_000_000 // pairs))
        stops, power, cuts = {}, 0.0, []
        for ratio in (1.1, 1.2, 1.0):
            sides = raced(normal(sd), count, pairs, ratio, seed_of(sd, ratio))
            at = stopped(sides, threshold, resolution)
            times = np.minimum(np.minimum.reduce(list(at.values())), pairs)
            stops[ratio] = times
            if ratio == 1.1:
                regressed = np.where(at["regression"] <= times, at["regression"], np.inf)
                power = float(np.isfinite(regressed).mean())
                for wanted in (0.8, 0.9, 0.95):
                    last = np.quantile(regressed, wanted, method="inverted_cdf")
                    cuts += [f"{np.minimum(times, last).mean():.1f}",
                             fixed_pairs(sd, 1 + threshold, wanted)]  # fmt: skip
        fixed = fixed_pairs(sd, 1 + threshold, power)
        permutation = fixed_permutation(sd, 1 + threshold, power, fixed)
        means = [float(times.mean()) for times in stops.values()]
        shown = (f"{mean:.1f} ({mean / fixed:.2f}, {mean / permutation:.2f})" for mean in means)
        row(f"{sd:g}", pairs, f"{power:.3f}", fixed, permutation, *shown, *cuts)
        found_stops[sd] = Stops(stops, fixed, permutation)
    return found_stops


@style.styled
def stopping_plot(found: dict[float, Stops]) -> Plot:
    """Plot the share of stopped races against the number of pairs, with a panel per log sd."""
    figure = style.new_figure(5.0)
    panels = figure.subplots(2, math.ceil(len(found) / 2), sharey=True).flat
    colours = {1.1: style.COLOURS[1], 1.2: style.COLOURS[3], 1.0: style.COLOURS[0]}
    for axes, (sd, stops) in zip(panels, found.items(), strict=True):
        for ratio, times in stops.times.items():
            axes.ecdf(times, color=colours[ratio], lw=1.6)
        axes.axvline(stops.fixed, color=style.FAINT, ls="--", lw=1.4)
        axes.axvline(stops.permutation, color=style.FAINT, ls=":", lw=1.4)
        axes.set_xscale("log")
        axes.set_xlim(2.7, 1.1 * max(times.max() for times in stops.times.values()))
        style.plain_numbers(axes)
        axes.set_title(f"log sd {sd:g}")
        axes.set_xlabel("pairs")
    figure.supylabel("share of races that have stopped", fontsize=9.5)
    lines = [Line2D([], [], color=colours[r], label=f"B / A = {r:g}") for r in (1.0, 1.1, 1.2)]
    lines += [Line2D([], [], color=style.FAINT, ls="--", label="fixed t test")]
    lines += [Line2D([], [], color=style.FAINT, ls=":", label="fixed permutation test")]
    style.legend_above(figure, lines)
    return Plot(figure, "How soon races stop.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--races", type=int, default=10_000)
    parser.add_argument("--plot", type=Path, help="PNG of the distributions of stopping times")
    options = parser.parse_args()
    races = options.races
    false_alarms(races)
    seeded(races)
    stops = against_fixed(races)
    if options.plot is not None:
        options.plot.write_bytes(stopping_plot(stops).png())
    precise(races // 20)


if __name__ == "__main__":
    main()
