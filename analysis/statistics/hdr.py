"""Write distributions for HdrHistogram's tools: percentile tables (.hgrm) and V2 logs (.hlog)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from roslens.recording.arrays import ArrayLike, Floats, np
from roslens.recording.errors import UsageError
from roslens.recording.text import shown

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram


DIGITS = 3
"""Significant digits of the values in a log; a percentile table has exact values."""

LARGEST = 3_600_000_000_000
"""Largest value in nanoseconds: an hour."""


def percentile_table(samples: ArrayLike, unit: float = 1.0, ticks: int = 5) -> str:
    """Return the text of a .hgrm file, which HdrHistogram's plotters read.

    Every line holds a value, the requested fraction of samples at or below it, the number of such
    samples, and 1 / (1 - fraction); there are `ticks` fractions for each halving of the distance
    to 1, as in HdrHistogram's percentile iterator. Values are exact, not those of buckets.

    Parameters
    ----------
    samples
        Lost ones (infinite) appear in no line and are counted in a comment.
    unit
        Divisor of the values: 1e6 turns nanoseconds into milliseconds.

    Raises
    ------
    ValueError
        A sample is nan, or none is finite.
    """
    finite, lost = _finite(samples)
    ordered = finite / unit
    n = ordered.size
    lines = [f"{'Value':>12} {'Percentile':>14} {'TotalCount':>10} {'1/(1-Percentile)':>14}", ""]
    for fraction in _fractions(n, ticks):
        rank = max(1, math.ceil(round(fraction * n, 9)))
        value = ordered[rank - 1]
        count = int(np.searchsorted(ordered, value, side="right"))
        line = f"{value:12.3f} {fraction:2.12f} {count:10d}"
        lines.append(line if fraction == 1 else f"{line} {1 / (1 - fraction):14.2f}")
    lines.append(f"#[Mean    = {ordered.mean():12.3f}, StdDeviation   = {ordered.std():12.3f}]")
    lines.append(f"#[Max     = {ordered[-1]:12.3f}, TotalCount     = {n:12d}]")
    lines.append(f"#[Lost    = {lost:12d}, of            {n + lost:15d}]")
    return "\n".join(lines) + "\n"


def _fractions(n: int, ticks: int) -> Iterator[float]:
    """Yield fractions from 0 to the first that leaves only the largest sample, then 1."""
    fraction = 0.0
    while fraction < 1 - 1 / n:
        yield fraction
        halvings = math.floor(math.log2(1 / (1 - fraction))) + 1
        fraction += 1 / (ticks * 2**halvings)
    yield 1.0


def log(series: Mapping[str, ArrayLike], seconds: float = 0.0, digits: int = DIGITS) -> str:
    """Return the text of a V2 histogram log (.hlog): one interval per series, tagged by its name.

    Parameters
    ----------
    series
        Samples in ns, by name.
    seconds
        Length of the recording.
    """
    lines = [
        "#[Histogram log format version 1.3]",
        "#[StartTime: 0 (seconds since epoch)]",
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
    ]
    for name, samples in series.items():
        histogram = _histogram(samples, digits)
        # A tag ends at a comma, and must not contain spaces.
        tag = shown(name).replace(",", ";").replace(" ", "_")
        largest = histogram.get_max_value() / 1e6
        text = histogram.encode().decode("ascii")
        lines.append(f"Tag={tag},0.000,{seconds:.3f},{largest:.3f},{text}")
    return "\n".join(lines) + "\n"


def _histogram(samples: ArrayLike, digits: int) -> HdrHistogram:
    try:
        from hdrh.histogram import HdrHistogram  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise UsageError(
            "histogram logs need the package hdrhistogram: pip install 'roslens[hdr]'"
        ) from error
    finite, _ = _finite(samples)
    if finite[0] < 0 or finite[-1] > LARGEST:
        raise UsageError(
            "a histogram log holds times from 0 to an hour, and latencies here are from "
            f"{finite[0] / 1e6:g} to {finite[-1] / 1e6:g} ms; --format hgrm has all"
        )
    histogram = HdrHistogram(1, LARGEST, digits)
    values, counts = np.unique(np.rint(finite).astype(np.int64), return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        histogram.record_value(value, count)
    return histogram


def _finite(samples: ArrayLike) -> tuple[Floats, int]:
    """Return the sorted finite samples, and the number of infinite ones."""
    values = np.asarray(samples, dtype=np.float64).ravel()
    if np.isnan(values).any() or np.isneginf(values).any():
        raise ValueError("there is what is not a number among the samples")
    finite = np.sort(values[np.isfinite(values)])
    if finite.size == 0:
        raise ValueError("there is no finite sample")
    return finite, values.size - finite.size
