"""Where a function changes its sign."""

from __future__ import annotations

from collections.abc import Callable


def root(function: Callable[[float], float], low: float, high: float) -> float:
    """Halve [low, high] until no float lies between (scipy.optimize takes a second to import).

    Parameters
    ----------
    function
        Of one sign, or zero, at `low` and of the other at `high`.
    """
    positive = function(high) > 0
    if positive == (function(low) > 0):
        raise ValueError("the function has the same sign at both ends")
    while low < (middle := low + (high - low) / 2) < high:
        if (function(middle) > 0) == positive:
            high = middle
        else:
            low = middle
    return middle
