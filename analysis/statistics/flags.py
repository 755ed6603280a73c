"""Flag what a careful reader would point at: twins, outliers, warm-up. Nothing is dropped."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

from roslens.recording.arrays import ArrayLike, np

OUTLIER = 3.5
"""Limit of the modified z score, as recommended by Iglewicz and Hoaglin (1993)."""
_BATCH = 5


def same_series(series: Mapping[str, ArrayLike]) -> list[list[str]]:
    """Return names whose samples agree bit by bit; no two measured series do.

    Constant series and those of fewer than three samples can agree by chance, and are left
    out.

    Parameters
    ----------
    series
        Samples of runs or cells by name.
    """
    alike: dict[bytes, list[str]] = {}
    for name, values in series.items():
        samples = np.ascontiguousarray(np.asarray(values, dtype=np.float64).ravel())
        if samples.size >= 3 and (samples != samples[0]).any():
            alike.setdefault(hashlib.sha256(samples.tobytes()).digest(), []).append(name)
    return [names for names in alike.values() if len(names) > 1]


def outlying(values: Sequence[float]) -> list[int]:
    """Return the indices of values that lie far off the others.

    A value is outlying if its modified z score 0.6745 (x - median) / MAD is above `OUTLIER`
    (Iglewicz and Hoaglin 1993, "How to Detect and Handle Outliers"); if more than half of the
    values are equal, MAD is 0 and the mean absolute deviation, times 1.2533, takes its place. With
    fewer than five values none is flagged.

    Parameters
    ----------
    values
        One per run; infinite ones are outlying if most are finite.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size < 5 or np.isnan(x).any():
        return []
    finite = np.isfinite(x)
    if 2 * finite.sum() <= x.size:
        return []
    away = np.abs(x - np.median(x[finite]))
    mad = float(np.median(away[finite])) / 0.6745
    spread = mad if mad > 0 else 1.2533 * float(away[finite].mean())
    if spread == 0:
        return np.flatnonzero(~finite).tolist()
    return np.flatnonzero(away / spread > OUTLIER).tolist()


def warm_up(series: ArrayLike) -> int | None:
    """Return the number of samples at the start that differ from the rest; None if none settled.

    The method is MSER-5 (White 1997, Simulation 69; White et al. 2000): the cut that minimises the
    standard error of the mean of what remains, over means of 5 samples. A cut in the second half
    means that the series never settled.

    Parameters
    ----------
    series
        Finite values in time order.
    """
    values = np.asarray(series, dtype=np.float64).ravel()
    if not np.isfinite(values).all():
        return None
    batches = values.size // _BATCH
    if batches < 10:
        return 0
    means = values[: batches * _BATCH].reshape(batches, _BATCH).mean(axis=1)
    means = means - means.mean()
    # Sums of each tail means[d:].
    count = np.arange(batches, 0, -1, dtype=np.float64)
    total = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum((means**2)[::-1])[::-1]
    error = np.maximum(squares - total**2 / count, 0) / count**2
    cut = int(np.argmin(error[: math.ceil(0.9 * batches)]))
    return cut * _BATCH if cut <= batches // 2 else None
