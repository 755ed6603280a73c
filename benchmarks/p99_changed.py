"""How often a trigger ``P99 of /x changed`` hits where nothing changed, and where something did.

``python benchmarks/p99_changed.py [--flights N]`` simulates flights of 24 hours, a block of 1,000
latencies (100 Hz, ``window_s: 10``) after the other, through the class that the trigger uses, and
counts its hits; then a P99 that becomes larger after an hour, which must be told.

The latencies are lognormal, with what real ones have: tails, bursts, blocks that are alike for
minutes, something slow each hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from roslens.analysis.statistics.quantiles import quantile
from roslens.live.past import IN_A_ROW, Past

BLOCKS, OF_BLOCK, S = 8640, 1000, 10
Random = np.random.Generator
Floats = NDArray[np.float64]


def alike(random: Random, blocks: int, phi: float, deviation: float) -> Floats:
    """A first-order autoregressive level of blocks."""
    level, found = 0.0, np.empty(blocks)
    for k, step in enumerate(random.normal(0, deviation * (1 - phi**2) ** 0.5, blocks)):
        level = phi * level + step
        found[k] = level
    return found


def independent(random: Random, blocks: int) -> Iterator[Floats]:
    for _ in range(blocks):
        yield random.normal(0, 0.5, OF_BLOCK)


def heavy(random: Random, blocks: int) -> Iterator[Floats]:
    for _ in range(blocks):
        yield np.log1p(random.pareto(1.5, OF_BLOCK))


def bursts(random: Random, blocks: int) -> Iterator[Floats]:
    """Each tenth block has 30 messages in a row that are ten times slower."""
    for _ in range(blocks):
        found = random.normal(0, 0.5, OF_BLOCK)
        if random.random() < 0.1:
            begin = random.integers(OF_BLOCK - 30)
            found[begin : begin + 30] += np.log(10)
        yield found


def of_level(phi: float) -> Callable[[Random, int], Iterator[Floats]]:
    def made(random: Random, blocks: int) -> Iterator[Floats]:
        for level in alike(random, blocks, phi, 0.3):
            yield random.normal(level, 0.5, OF_BLOCK)

    return made


def hourly(random: Random, blocks: int) -> Iterator[Floats]:
    """For a minute of each hour all takes five times as long."""
    for k in range(blocks):
        slow = np.log(5) if k % 360 >= 354 else 0.0
        yield random.normal(slow, 0.5, OF_BLOCK)


HEALTHY: dict[str, Callable[[Random, int], Iterator[Floats]]] = {
    "independent": independent,
    "Pareto tails (1.5)": heavy,
    "bursts in a tenth of the blocks": bursts,
    "level alike for 1.5 min (phi 0.9)": of_level(0.9),
    "level alike for 16 min (phi 0.99)": of_level(0.99),
    "a slow minute each hour": hourly,
}


def hits(blocks: Iterator[Floats]) -> list[int]:
    """Numbers of the blocks at whose end it hits."""
    past = Past(S * 1_000_000_000)
    return [k for k, x in enumerate(blocks) if past.add(1e6 * np.exp(quantile(x, 0.99)))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--flights", type=int, default=20)
    flights = parser.parse_args().flights
    random = np.random.default_rng(1)
    print(f"hits in {flights} flights of 24 h in which nothing changes")
    for name, made in HEALTHY.items():
        counts = [len(hits(made(random, BLOCKS))) for _ in range(flights)]
        print(f"  {name:36}{np.mean(counts):6.2f} a day, at most {max(counts)}", flush=True)
    print("told within 5 minutes of a change after an hour, and after how many s (median)")
    for name, made in HEALTHY.items():
        for factor in (1.5, 2, 5):
            after = []
            for _ in range(flights):
                found = hits(
                    x + np.log(factor) * (k >= 360) for k, x in enumerate(made(random, 390))
                )
                after += [S * (x - 359) for x in found if x >= 360 + IN_A_ROW - 1][:1]
            seconds = f"{np.median(after):.0f} s" if after else "-"
            print(f"  {name:36}x {factor:<4g}{len(after):4} of {flights}  {seconds}", flush=True)


if __name__ == "__main__":
    main()
