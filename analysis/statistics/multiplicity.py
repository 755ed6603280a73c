"""Adjust the p values of many tests for their number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def holm(p_values: Iterable[float]) -> list[float]:
    """Adjust p values by Holm (1979, Scand. J. Statistics 6), for the family-wise error rate.

    Rejecting those of at most alpha rejects any true hypothesis with probability at most alpha,
    however the tests depend on one another.

    Parameters
    ----------
    p_values
        Values between 0 and 1.
    """
    p = [float(value) for value in p_values]
    if not all(0 <= value <= 1 for value in p):
        raise ValueError("p values are a list of numbers between 0 and 1")
    adjusted, least = p.copy(), 0.0
    for rank, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        least = max(least, (len(p) - rank) * p[place])
        adjusted[place] = min(1.0, least)
    return adjusted


def holm_of_known(p_values: Sequence[float | None]) -> list[float | None]:
    """Apply `holm` to the tests that could be made; the others stay None."""
    adjusted = iter(holm(p for p in p_values if p is not None))
    return [None if p is None else next(adjusted) for p in p_values]
