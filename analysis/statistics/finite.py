"""Input of estimators that need numbers to compute with."""

from __future__ import annotations

from roslens.recording.arrays import ArrayLike, Floats, np

LARGEST = 1e150
"""Squares of larger numbers, and what is summed of them, overflow."""


def finite(values: ArrayLike, what: str, least: int = 0) -> Floats:
    """Values as an array of shape (n,).

    Parameters
    ----------
    what
        Begins the error, such as ``a slope``.
    least
        So many are needed.

    Raises
    ------
    ValueError
        Too few, or one that is not finite or beyond `LARGEST`.
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    needs = f"{what} needs at least {least} finite values"
    if array.size < least:
        raise ValueError(f"{needs}, here are {array.size}")
    if array.size and not np.abs(array).max() <= LARGEST:
        raise ValueError(f"{needs} and no others, none beyond {LARGEST:g}")
    return array


def finite_pairs(x: ArrayLike, y: ArrayLike, what: str, least: int = 0) -> tuple[Floats, Floats]:
    """Two series of the same length, each as `finite` has it.

    Raises
    ------
    ValueError
        As `finite`, or of different lengths.
    """
    a, b = finite(x, what, least), finite(y, what, least)
    if a.size != b.size:
        raise ValueError(f"{what} needs pairs, here are {a.size} and {b.size} values")
    return a, b
