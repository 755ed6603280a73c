"""How fine a clock is, from what it measured."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

_LARGEST = 2.0**53
_PIECE = 1000


def resolution(series: Iterable[NDArray[np.float64]]) -> float:
    """The largest step of which all values are multiples; 0 where they are no whole numbers.

    One and the same value everywhere is explained by many steps: then the largest power of ten that
    divides it, for clocks tick so.

    Parameters
    ----------
    series
        Differences of stamps; infinite ones (lost messages) are left out.
    """
    step, largest = 0, 0.0
    for values in series:
        known = np.abs(values[np.isfinite(values)])
        for begin in range(0, known.size, _PIECE):
            piece = known[begin : begin + _PIECE]
            largest = max(largest, float(piece.max()))
            if largest >= _LARGEST or (piece != np.rint(piece)).any():
                return 0.0
            step = math.gcd(step, int(np.gcd.reduce(piece.astype(np.int64))))
            # Most clocks have nanoseconds, and are known at once.
            if step == 1:
                return 1.0
    if step and step == largest:
        return float(10 ** (len(str(step)) - len(str(step).rstrip("0"))))
    return float(step)
