"""What a careful reader would point at: twins, outliers, warm-up. Nothing is ever dropped."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence

from roslens.recording.arrays import ArrayLike, np

OUTLIER = 3.5
"""Of the modified z score; the recommendation of Iglewicz and Hoaglin (1993)."""
_BATCH = 5


def same_series(series: Mapping[str, ArrayLike]) -> list[list[str]]:
    """Names whose samples are the same bit by bit; measured twice, no two series are.

    Constant series and those of fewer than three samples can be alike by chance, and are left
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
    """Places of values that lie far off the others.

    Modified z score 0.6745 (x - median) / MAD above `OUTLIER` (Iglewicz and Hoaglin 1993, "How to
    Detect and Handle Outliers"); where more than half are equal, MAD is 0 and the mean absolute
    deviation, times 1.2533, takes its place. Of fewer than five nobody can say.

    Parameters
    ----------
    values
        One per run; infinite ones are outlying where most are finite.
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
    """Samples at the start that differ from the rest; None where no steady part was found.

    By MSER-5 (White 1997, Simulation 69; White et al. 2000): the cut that makes the standard error
    of the mean of what remains smallest, over means of 5 samples. A cut in the second half means
    that the series never settled.

    Parameters
    ----------
    series
        In time order, finite.
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
