"""Coordinated omission: what a periodic source would have seen, had it not been held up.

A source that waits while the system stalls takes one long sample where, on schedule, it would
have taken many; percentiles over such samples look better than what users meet (Tene, "How NOT
to Measure Latency"). The correction adds the samples that are missing. It is a model, not a
measurement: ask for it, and show both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

LEAST_GAPS = 10
JITTER = 0.2
"""A source is periodic if the middle half of its gaps lies within so much of their median."""

MOST_ADDED = 10_000_000
"""A period that adds more samples than this is a mistake in the unit."""


@dataclass(frozen=True)
class Corrected:
    """Samples with those that were omitted.

    Attributes
    ----------
    samples
        All of them: first those measured, in their order, then those added.
    added
        How many were added.
    """

    samples: Floats
    added: int


def corrected(latencies: ArrayLike, period: float) -> Corrected:
    """Add the samples that a source with this period would have taken during long ones.

    For a latency L above the period T also L - T, L - 2T, ... as long as they are at least T, as
    `record_corrected_value` of HdrHistogram does.

    Parameters
    ----------
    latencies
        Of one source. Lost messages (infinite) stay as they are: each was sent on its own.
    period
        Expected time between samples, same unit, above 0.
    """
    x = np.asarray(latencies, dtype=np.float64).ravel()
    if not (np.isfinite(period) and period > 0):
        raise ValueError("the expected period must be a finite number above 0")
    if np.isnan(x).any() or np.isneginf(x).any():
        raise ValueError("there is what is no latency among the samples")
    finite = x[np.isfinite(x)]
    missing = np.maximum(np.floor(finite / period) - 1, 0)
    if missing.sum() > MOST_ADDED:
        raise ValueError(
            f"a period of {period:g} would add {missing.sum():.3g} samples: is it in the same "
            "unit as the latencies?"
        )
    counts = missing.astype(np.intp)
    # 1, 2, ..., count of each long sample, one after the other.
    steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    added = np.repeat(finite, counts) - steps * period
    return Corrected(np.concatenate([x, added]), int(added.size))


def expected_period(times: ArrayLike) -> float | None:
    """Period of a source by when it published: the median gap, if most gaps are like it.

    Parameters
    ----------
    times
        Of publications of one publisher (or activations of its timer), any order.

    Returns
    -------
    In the unit of `times`; None for fewer than `LEAST_GAPS` gaps, or a source that is not
    periodic (`JITTER`). Stalls, which are what is looked for, are few and move no median.
    """
    t = np.sort(np.asarray(times, dtype=np.float64).ravel())
    if t.size <= LEAST_GAPS or not np.isfinite(t).all():
        return None
    gaps = np.diff(t)
    low, middle, high = np.quantile(gaps, [0.25, 0.5, 0.75])
    if middle <= 0 or high - middle > JITTER * middle or middle - low > JITTER * middle:
        return None
    return float(middle)
