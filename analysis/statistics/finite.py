"""Check the input of estimators that need numbers to compute with."""

from __future__ import annotations

from roslens.recording.arrays import ArrayLike, Floats, np

LARGEST = 1e150
"""Largest number allowed: squares of larger ones, and sums of squares, overflow."""


def finite(values: ArrayLike, what: str, least: int = 0) -> Floats:
    """Return values as an array of shape (n,).

    Parameters
    ----------
    what
        Begin of the error message, such as ``a slope``.
    least
        Least number of values.

    Raises
    ------
    ValueError
        There are too few values, or one is not finite or beyond `LARGEST`.
    """
    array = np.asarray(values, dtype=np.float64).ravel()
    needs = f"{what} needs at least {least} finite values"
    if array.size < least:
        raise ValueError(f"{needs}, here are {array.size}")
    if array.size and not np.abs(array).max() <= LARGEST:
        raise ValueError(f"{needs} and no others, none beyond {LARGEST:g}")
    return array


def finite_pairs(x: ArrayLike, y: ArrayLike, what: str, least: int = 0) -> tuple[Floats, Floats]:
    """Return two series of the same length, each checked by `finite`.

    Raises
    ------
    ValueError
        See `finite`; or the lengths differ.
    """
    a, b = finite(x, what, least), finite(y, what, least)
    if a.size != b.size:
        raise ValueError(f"{what} needs pairs, here are {a.size} and {b.size} values")
    return a, b
