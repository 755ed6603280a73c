"""Many tests at once: p values adjusted for how many there are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def holm(p_values: ArrayLike) -> Floats:
    """P values adjusted by Holm (1979, Scand. J. Statistics 6): family-wise error.

    Rejecting those at most alpha rejects any true hypothesis with probability at most alpha,
    however the tests depend on one another.

    Parameters
    ----------
    p_values
        Between 0 and 1, shape (m,).
    """
    p = _checked(p_values)
    order = np.argsort(p, kind="stable")
    adjusted = np.maximum.accumulate((p.size - np.arange(p.size)) * p[order])
    result = np.empty_like(p)
    result[order] = np.minimum(1.0, adjusted)
    return result


def holm_of_known(p_values: Sequence[float | None]) -> list[float | None]:
    """`holm` over the tests that could be made; None of the others."""
    adjusted = iter(holm([p for p in p_values if p is not None]).tolist())
    return [None if p is None else next(adjusted) for p in p_values]


def _checked(p_values: ArrayLike) -> Floats:
    p = np.asarray(p_values, dtype=np.float64)
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise ValueError("p values are a list of numbers between 0 and 1")
    return p
