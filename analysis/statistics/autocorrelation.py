"""Compute how many independent samples a correlated series is worth."""

from __future__ import annotations

from collections.abc import Sequence

from roslens.recording.arrays import ArrayLike, Floats, np


def autocorrelation(series: ArrayLike) -> Floats:
    """Return the autocorrelation at lags 0, 1, ..., n - 1.

    The estimator is that of Box and Jenkins (also NIST's): products of deviations from the mean of
    the whole series, over the sum of their squares. By FFT, O(n log n).

    Parameters
    ----------
    series
        Finite values in time order, shape (n,).

    Returns
    -------
    Shape (n,); 1 at lag 0. A constant series has no autocorrelation: 1 at lag 0, else 0.
    """
    values = np.asarray(series, dtype=np.float64)
    n = values.size
    result = np.zeros(n)
    if n == 0:
        return result
    result[0] = 1.0
    # Scaling by a power of two is exact; with values of at most 1 no sum overflows.
    scaled = np.ldexp(values, -int(np.frexp(np.abs(values).max())[1]))
    deviation = scaled - scaled.mean()
    largest = float(np.abs(deviation).max())
    # Rounding of the mean alone must not look like a signal.
    if largest <= 4 * np.finfo(np.float64).eps * float(np.abs(scaled).max()):
        return result
    deviation /= largest
    length = 1 << (2 * n - 1).bit_length()
    products = np.fft.irfft(np.abs(np.fft.rfft(deviation, length)) ** 2, length)[:n]
    result[:] = products / products[0]
    return result


def integrated_autocorrelation_time(series: ArrayLike) -> float:
    """Return the integrated autocorrelation time tau = 1 + 2 * sum of autocorrelations, in samples.

    The sum is cut by the initial monotone sequence of Geyer (1992), "Practical Markov chain
    Monte Carlo", Statistical Science 7: sums of adjacent pairs, up to the first that is not
    positive, made non-increasing. For AR(1) with coefficient phi it is (1 + phi) / (1 - phi).

    Returns
    -------
    At least 1: an anticorrelated series is not credited with more than its samples.
    """
    return _time(autocorrelation(series))


def _time(rho: Floats) -> float:
    pairs = rho[: rho.size - rho.size % 2].reshape(-1, 2).sum(axis=1)
    if pairs.size == 0:
        return 1.0
    not_positive = np.flatnonzero(pairs <= 0)
    if not_positive.size:
        pairs = pairs[: not_positive[0]]
    if pairs.size == 0:
        return 1.0
    return max(1.0, 2.0 * float(np.minimum.accumulate(pairs).sum()) - 1.0)


def effective_samples(series: ArrayLike) -> float:
    """Return how many independent samples give a mean as certain as that of `series`, at most n."""
    values = np.asarray(series, dtype=np.float64)
    return values.size / integrated_autocorrelation_time(values) if values.size else 0.0


def effective_samples_of_quantile(series: ArrayLike, q: float) -> float:
    """Return how many independent samples fix the q-quantile as well as `series` does, at most n.

    A sample quantile varies as the mean of the indicator "above the quantile" does (Sen 1972,
    J. Multivariate Analysis 2), so it is the indicator's autocorrelation that counts, as in the
    quantile ESS of Vehtari et al. (2021, Bayesian Analysis 16). Infinite values are allowed.
    """
    return effective_samples_of_quantiles([series], q)[0]


def effective_samples_of_quantiles(runs: Sequence[ArrayLike], q: float) -> list[float]:
    """Return `effective_samples_of_quantile` for each of several runs of one kind.

    The autocorrelation is pooled over all runs, each relative to its own quantile (the sums of
    products over all runs over the sums of squares): for one run alone it is so uncertain that
    the least of many says little, and the less the more runs there are.
    """
    arrays = [np.asarray(run, dtype=np.float64) for run in runs]
    # The order statistic at or below the quantile needs no interpolation, so infinities are fine.
    above = [array > np.sort(array)[int(q * (array.size - 1))] for array in arrays if array.size]
    together = np.zeros(max((indicator.size for indicator in above), default=0))
    for indicator in above:
        together[: indicator.size] += indicator.size * indicator.var() * autocorrelation(indicator)
    tau = _time(together / together[0]) if together.any() else 1.0
    return [array.size / tau for array in arrays]
