"""Compute empirical distribution functions, exact, or thinned for drawing with exact tails."""

from __future__ import annotations

from dataclasses import dataclass

from roslens.recording.arrays import ArrayLike, Floats, np

MOST_POINTS = 10_000
"""Most points of a line in a figure."""


@dataclass(frozen=True)
class Distribution:
    """Steps of an empirical distribution of n samples, some of which may be infinite.

    Attributes
    ----------
    values
        Distinct finite values, increasing, shape (m,).
    at_most
        Fraction of all n samples at or below each value (the ECDF there), shape (m,).
    at_least
        Fraction of all n samples at or above each value (the CCDF there: it ends at 1/n, not
        at 0, so that the largest sample can be drawn on a logarithmic axis), shape (m,).
    samples
        Number of samples n, including infinite ones.
    infinite
        Number of infinite samples (lost messages): the ECDF stays below 1 by infinite / n.
    """

    values: Floats
    at_most: Floats
    at_least: Floats
    samples: int
    infinite: int


def distribution(samples: ArrayLike) -> Distribution:
    """Return the exact ECDF and CCDF of samples.

    Raises
    ------
    ValueError
        A sample is nan.
    """
    array = np.asarray(samples, dtype=np.float64).ravel()
    if np.isnan(array).any():
        raise ValueError("a distribution needs numbers; there is a nan among the samples")
    finite = array[np.isfinite(array)]
    values, counts = np.unique(finite, return_counts=True)
    n = array.size
    cumulative = np.cumsum(counts)
    at_most = cumulative / n if n else np.zeros(0)
    at_least = (n - cumulative + counts) / n if n else np.zeros(0)
    return Distribution(values, at_most, at_least, n, n - finite.size)


def thin(steps: Distribution, most: int = MOST_POINTS) -> Distribution:
    """Keep at most `most` of the steps: the outer quarters exactly, every k-th of the rest.

    Kept points keep their exact fractions, so a thinned line passes only through true points.
    """
    m = steps.values.size
    if m <= most:
        return steps
    tail = most // 4
    middle = np.linspace(tail, m - tail - 1, most - 2 * tail).round().astype(np.intp)
    keep = np.unique(np.concatenate([np.arange(tail), middle, np.arange(m - tail, m)]))
    return Distribution(
        steps.values[keep],
        steps.at_most[keep],
        steps.at_least[keep],
        steps.samples,
        steps.infinite,
    )


def tail_limit(effective: float) -> float:
    """Return the CCDF below which `effective` samples are too few to say more than "it occurred".

    Returns
    -------
    20 / effective, at most 1.
    """
    return min(1.0, 20 / effective) if effective > 0 else 1.0
