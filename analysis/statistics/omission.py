"""Coordinated omission: what a periodic source would have seen, had it not been held up.

A source that waits while the system stalls takes one long sample where, on schedule, it would
have taken many; percentiles over such samples look better than what users meet (Tene, "How NOT
to Measure Latency"). The correction adds the samples that are missing. It is a model, not a
measurement: ask for it, and show both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import polars as pl

from roslens.analysis.statistics.quantiles import quantile
from roslens.recording.arrays import ArrayLike, Floats, np

LEAST_GAPS = 10
JITTER = 0.2
"""A source is periodic if the middle half of its gaps lies within so much of their median."""

MOST_ADDED = 10_000_000
"""A period that adds more samples than this is a mistake in the unit."""


@dataclass(frozen=True)
class Corrected:
    """Samples with those that were omitted.

    Attributes
    ----------
    samples
        All of them: first those measured, in their order, then those added.
    added
        How many were added.
    """

    samples: Floats
    added: int


def corrected_by_schedule(published: ArrayLike, latencies: ArrayLike, period: float) -> Corrected:
    """Add the messages that a publisher should have published and did not, for it was held up.

    Between two publications a gap g of at least 1.5 periods T lacks round(g / T) - 1 messages.
    Each counts from when it was due until the next one arrived: the k-th has the latency
    g - k T + that of the next. For a caller that waits for its answer that is what HdrHistogram's
    ``record_corrected_value`` adds; a publisher that keeps its schedule while messages queue up
    has omitted nothing.

    Parameters
    ----------
    published
        When each message was published, increasing.
    latencies
        Of the same messages; nan where it did not arrive: it is no sample, and neither are those
        that were due before it.
    period
        Expected time between publications, same unit, above 0.
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
    added = np.repeat(gaps + following, counts) - steps * period
    return Corrected(np.concatenate([x[~np.isnan(x)], added]), int(added.size))


def expected_period(times: ArrayLike) -> float | None:
    """Period of a source by when it published: the median gap, if most gaps are like it.

    Parameters
    ----------
    times
        Of publications of one publisher (or activations of its timer), any order.

    Returns
    -------
    In the unit of `times`; None for fewer than `LEAST_GAPS` gaps, or a source that is not
    periodic (`JITTER`). Stalls, which are what is looked for, are few and move no median.
    """
    t = np.sort(np.asarray(times, dtype=np.float64).ravel())
    if t.size <= LEAST_GAPS or not np.isfinite(t).all():
        return None
    gaps = np.diff(t)
    low, middle, high = (quantile(gaps, q) for q in (0.25, 0.5, 0.75))
    if middle <= 0 or high - middle > JITTER * middle or middle - low > JITTER * middle:
        return None
    return float(middle)


@dataclass(frozen=True)
class CorrectedRun:
    """One run, source by source.

    Attributes
    ----------
    samples
        Latencies of all sources, in ns, with those that were omitted.
    added
        How many were added.
    periods_ns
        The expected period of each source that is periodic.
    not_periodic
        Sources whose latencies are as measured, for they have no period.
    """

    run: str
    samples: Floats
    added: int
    periods_ns: tuple[float, ...]
    not_periodic: int


def corrected_runs(messages: pl.LazyFrame) -> list[CorrectedRun]:
    """Each run's delivered latencies, corrected by the schedule of each publisher.

    Parameters
    ----------
    messages
        Rows of the table ``messages`` with a column ``run``: those to look at. Lost ones tell
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
        parts: list[Corrected] = []
        periods: list[float] = []
        aperiodic = 0
        for source in of_run.partition_by("publisher_id", "subscription_id"):
            latencies = source["latency"].to_numpy()
            # From the first one: nanoseconds since the epoch have no digits left for fractions.
            times = (source["publish_ns"] - source["publish_ns"].min()).to_numpy()
            period = expected_period(times)
            if period is None:
                aperiodic += 1
                parts.append(Corrected(latencies[~np.isnan(latencies)], 0))
            else:
                periods.append(period)
                parts.append(corrected_by_schedule(times, latencies, period))
        samples = np.concatenate([part.samples for part in parts])
        if not samples.size:
            continue
        added = sum(part.added for part in parts)
        corrected.append(CorrectedRun(str(run), samples, added, tuple(periods), aperiodic))
    return corrected
