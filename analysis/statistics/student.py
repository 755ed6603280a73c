"""Student's t and its kin by scipy.special: importing all of scipy.stats takes seconds.

And that of scipy.special a third of one, so that it waits for the first interval.
"""

from __future__ import annotations

# ruff: noqa: PLC0415


def t_quantile(p: float, freedom: float) -> float:
    """The p-quantile of Student's t with so many degrees of freedom."""
    from scipy import special

    return float(special.stdtrit(freedom, p))


def t_two_sided(t: float, freedom: float) -> float:
    """Chance of a t at least so far from 0, to either side."""
    from scipy import special

    return 2 * float(special.stdtr(freedom, -abs(t)))


def t_above(t: float, freedom: float) -> float:
    """Chance of a t above this one."""
    from scipy import special

    return float(special.stdtr(freedom, -t))


def binomial_at_most(k: int, n: int, p: float) -> float:
    """Chance of at most k of n."""
    from scipy import special

    if k < 0:
        return 0.0
    return 1.0 if k >= n else float(special.bdtr(k, n, p))
