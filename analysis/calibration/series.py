"""Simulate runs: shapes, autocorrelation, and effects of runs."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterator

from scipy import signal, special

from roslens.recording.arrays import Floats, np

CHUNK = 2_000_000

Effects = Callable[[np.random.Generator, tuple[int, ...]], Floats]

SHAPES: dict[str, tuple[Callable[[Floats], Floats], float]] = {
    # Monotone functions of a standard normal, and their means.
    "normal": (lambda z: z, 0.0),
    "lognormal": (np.exp, math.exp(0.5)),
    "bimodal": (lambda z: z + 4 * (z > 0.5), 4 * float(special.ndtr(-0.5))),
}


def generator(*cell: object) -> np.random.Generator:
    """Return a generator that depends only on the cell, so that each can be repeated by itself."""
    return np.random.default_rng(zlib.crc32(repr(cell).encode()))


def autoregressive(rng: np.random.Generator, shape: tuple[int, ...], phi: float) -> Floats:
    """Draw stationary AR(1) noise of variance 1 along the last axis."""
    noise: Floats = rng.standard_normal(shape)
    if phi:
        noise[..., 1:] *= math.sqrt(1 - phi**2)
        noise = signal.lfilter([1], [1, -phi], noise, axis=-1)
    return noise


def normal_effects(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draw standard normal effects of runs."""
    return rng.standard_normal(shape)


def skewed_effects(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Draw exponential effects less their mean: most runs a little better, some much worse."""
    return rng.standard_exponential(shape) - 1


def experiments(
    rng: np.random.Generator,
    count: int,
    *,
    runs: int,
    samples: int,
    phi: float,
    effects: Effects = normal_effects,
) -> Iterator[tuple[Floats, Floats]]:
    """Yield normal samples (m, runs, samples) and effects of runs (m, runs), in pieces."""
    step = max(1, CHUNK // (runs * samples))
    for begin in range(0, count, step):
        m = min(step, count - begin)
        dealt = effects(rng, (m, runs))
        yield autoregressive(rng, (m, runs, samples), phi), dealt
