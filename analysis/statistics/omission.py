"""Correct for coordinated omission: what a periodic source would have seen if never held up.

A source that waits while the system stalls takes one long sample where, on schedule, it would have
taken many; percentiles over such samples look better than the latencies that users meet (Tene, "How
NOT to Measure Latency"). The correction adds the missing samples. It is a model, not a measurement:
ask for it, and show both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from roslens.analysis.statistics.quantiles import quantile
from roslens.recording.arrays import ArrayLike, Floats, np

LEAST_GAPS = 10
JITTER = 0.2
"""A source is periodic if the middle half of its gaps lies within this part of their median."""

MOST_ADDED = 10_000_000
"""Most samples that may be added: a period that adds more is a mistake in the unit."""


def omitted_by_schedule(published: ArrayLike, latencies: ArrayLike, period: float) -> Floats:
    """Return latencies of messages that a publisher should have published, but was held up.

    Between two publications a gap g of at least 1.5 periods T lacks round(g / T) - 1 messages.
    Each counts from when it was due until the next publication arrived: the k-th has the latency
    g - k T + that of the next publication. For a caller that waits for its answer, this is what
    HdrHistogram's ``record_corrected_value`` adds; a publisher that keeps its schedule while
    messages queue up has omitted nothing.

    Parameters
    ----------
    published
        Time when each message was published, increasing.
    latencies
        Latencies of the same messages; nan if the message did not arrive: it is no sample then, and
        neither are those that were due before it.
    period
        Expected time between publications, in the same unit, above 0.
    """
    t = np.asarray(published, dtype=np.float64).ravel()
    x = np.asarray(latencies, dtype=np.float64).ravel()
    if t.shape != x.shape or not np.isfinite(t).all() or (np.diff(t) < 0).any():
        raise ValueError("a schedule needs a finite, increasing time for each latency")
    if not (np.isfinite(period) and period > 0):
        raise ValueError("the expected period must be a finite number above 0")
    gaps, following = np.diff(t), x[1:]
    held = (gaps >= 1.5 * period) & ~np.isnan(following)
    gaps, following = gaps[held], following[held]
    missing = np.rint(gaps / period) - 1
    if missing.sum() > MOST_ADDED:
        raise ValueError(f"a period of {period:g} would add {missing.sum():.3g} messages")
    counts = missing.astype(np.intp)
    steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + 1
    return np.asarray(np.repeat(gaps + following, counts) - steps * period)


def expected_period(times: ArrayLike) -> float | None:
    """Return a source's period by its times of publication: the median gap, if most are like it.

    Parameters
    ----------
    times
        Times of publications of one publisher (or activations of its timer), in any order.

    Returns
    -------
    Period in the unit of `times`; None for fewer than `LEAST_GAPS` gaps, or a source that is not
    periodic (`JITTER`). The stalls that are looked for are few and do not move the median.
    """
    t = np.sort(np.asarray(times, dtype=np.float64).ravel())
    return period_of_gaps(np.diff(t)) if np.isfinite(t).all() else None


def period_of_gaps(gaps: ArrayLike) -> float | None:
    """Return `expected_period` of the times between publications, which may lack some."""
    gaps = np.asarray(gaps, dtype=np.float64)
    if gaps.size < LEAST_GAPS:
        return None
    low, middle, high = (quantile(gaps, q) for q in (0.25, 0.5, 0.75))
    if middle <= 0 or high - middle > JITTER * middle or middle - low > JITTER * middle:
        return None
    return float(middle)


@dataclass(frozen=True)
class CorrectedRun:
    """The corrected samples of one run, over all its sources.

    Attributes
    ----------
    samples
        Latencies of all sources, in ns, including those that were omitted.
    added
        Number of added samples.
    periods_ns
        The expected period of each periodic source.
    not_periodic
        Number of sources without a period, whose latencies are as measured.
    """

    run: str
    samples: Floats
    added: int
    periods_ns: tuple[float, ...]
    not_periodic: int


def corrected_runs(messages: pl.LazyFrame) -> list[CorrectedRun]:
    """Correct each run's delivered latencies by the schedule of each publisher.

    Parameters
    ----------
    messages
        The rows of the table ``messages`` to correct, with a column ``run``. Lost messages show
        that something was published.
    """
    arrived = (pl.col("outcome") == "delivered") & pl.col("latency_ns").is_not_null()
    latency = pl.when(arrived).then(pl.col("latency_ns").cast(pl.Float64)).otherwise(math.nan)
    rows = (
        messages.filter(pl.col("publish_ns").is_not_null())
        .select("run", "publisher_id", "subscription_id", "publish_ns", latency.alias("latency"))
        .sort("run", "publish_ns")
        .collect()
    )
    corrected = []
    for (run,), of_run in rows.partition_by("run", as_dict=True).items():
        parts: list[Floats] = []
        periods: list[float] = []
        added = aperiodic = 0
        for source in of_run.partition_by("publisher_id", "subscription_id"):
            latencies = source["latency"].to_numpy()
            parts.append(latencies[~np.isnan(latencies)])
            # Relative to the first: nanoseconds since the epoch have no digits left for fractions.
            times = (source["publish_ns"] - source["publish_ns"].min()).to_numpy()
            period = expected_period(times)
            if period is None:
                aperiodic += 1
                continue
            periods.append(period)
            parts.append(omitted_by_schedule(times, latencies, period))
            added += parts[-1].size
        samples = np.concatenate(parts)
        if samples.size:
            corrected.append(CorrectedRun(str(run), samples, added, tuple(periods), aperiodic))
    return corrected
