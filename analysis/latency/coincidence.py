"""Whether the worst messages coincide with something that recurs or disturbs.

The worst messages of a run are those above its P99. What is asked of each source of disturbance is
whether more of them fall on it than of all messages. Messages that were late together are one
piece of evidence, not many: within a period, or between two rows of a sampler, only the worst
counts, and what holds for seconds (steal, other programs) is tested by exchanging whole stretches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from roslens.analysis.reports.numbers import significant
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS
from roslens.analysis.statistics.quantiles import quantile
from roslens.analysis.statistics.ratio import Effect, paired_ratio

Int64 = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LEVEL = 0.01
"""Of all checks of a report together (Bonferroni)."""
LEAST_RATIO = 1.5
"""Below it a coincidence is not worth a word."""
WINDOW_NS = 10_000_000
STEAL, OTHERS = 0.01, 0.2
"""Shares of the machine's CPU time above which a stretch is disturbed."""
_GRID_MS = (10, 20, 50, 100, 200, 250, 500, 1000)
_LEAST_WORST, _LEAST_CYCLES, _EXCHANGES = 5, 10, 4999


@dataclass(frozen=True)
class Messages:
    """Delivered messages of one run in order of publication, shape (n,); and which are worst."""

    publish_ns: Int64
    latency_ns: Floats
    worst: Bools


@dataclass(frozen=True)
class Check:
    """One source held against the worst messages.

    Attributes
    ----------
    source
        In words, after "coincide with".
    share, of_all
        Of the worst and of all messages that fall on it; None where it is no matter of shares.
    ratio, low, high
        The first over the second with its 95 % interval; None as above.
    p
        One-sided, of no coincidence.
    """

    source: str
    p: float
    share: float | None = None
    of_all: float | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None

    def found(self, checks: int) -> bool:
        """Whether it is beyond the level, of so many checks, and worth a word."""
        return self.p * checks < LEVEL and (self.ratio is None or self.ratio >= LEAST_RATIO)

    def in_words(self) -> str:
        """One sentence."""
        chance = "p < 0.0001" if self.p < 1e-4 else f"p = {significant(self.p, 2)}"
        if self.share is None or self.of_all is None or self.ratio is None:
            return f"The worst messages coincide with {self.source} ({chance})."
        low, high = (significant(x, 2) for x in (self.low, self.high))
        return (
            f"The worst messages coincide with {self.source}: {100 * self.share:.0f} % of them and "
            f"{100 * self.of_all:.0f} % of all messages fall on it, {significant(self.ratio, 2)} "
            f"[{low}, {high}] times as many ({chance})."
        )


def worst_of_runs(rows: pl.DataFrame) -> dict[str, Messages]:
    """The runs with enough messages to have worst ones.

    Parameters
    ----------
    rows
        Delivered messages of one topic: ``run``, ``publish_ns``, ``latency_ns``.
    """
    found = {}
    known = rows.drop_nulls(["publish_ns", "latency_ns"]).sort("run", "publish_ns")
    for (name,), part in known.partition_by("run", as_dict=True).items():
        latency = part["latency_ns"].to_numpy().astype(np.float64)
        worst = latency > quantile(latency, 0.99)
        if worst.sum() >= _LEAST_WORST:
            found[str(name)] = Messages(part["publish_ns"].to_numpy(), latency, worst)
    return found


@dataclass(frozen=True)
class Added:
    """What the messages near samplers' rows add to P99.

    Attributes
    ----------
    share
        Of all messages: those published in the 10 ms before a row.
    ratio
        Mean P99 over runs with them over that without them.
    """

    share: float
    ratio: Effect

    def in_words(self) -> str:
        """One sentence."""
        ratio, low, high = (
            significant(x, 3) for x in (self.ratio.value, self.ratio.low, self.ratio.high)
        )
        return (
            f"Of all messages {100 * self.share:.0f} % were published in the 10 ms before a "
            f"sampler's row; P99 is {ratio} [{low}, {high}] times what it is without them."
        )


def added_by_samplers(
    messages: Mapping[str, Messages], samplers: Mapping[str, pl.DataFrame]
) -> Added | None:
    """What sampling adds to P99 at most, for what is left out may have been slow by itself.

    Parameters
    ----------
    messages, samplers
        As of `all_checks`.

    Returns
    -------
    None with fewer than three runs in which both can be told.
    """
    frames = [frame for frame in samplers.values() if frame.height]
    if not frames:
        return None
    times = {
        str(run): np.sort(part["time_ns"].to_numpy())
        for (run,), part in _by_run(pl.concat([f.select("run", "time_ns") for f in frames]))
    }
    shares, every, others = [], [], []
    for name, m in messages.items():
        if name not in times:
            continue
        row = np.append(times[name], np.iinfo(np.int64).max)
        away = row[np.searchsorted(row, m.publish_ns)] - m.publish_ns > WINDOW_NS
        if away.sum() >= away.size / 2:
            shares.append(1 - away.mean())
            every.append(quantile(m.latency_ns, 0.99))
            others.append(quantile(m.latency_ns[away], 0.99))
    if len(every) < MINIMUM_RUNS:
        return None
    return Added(float(np.mean(shares)), paired_ratio(every, others))


def check_samples(
    source: str, messages: Mapping[str, Messages], times: Mapping[str, Int64]
) -> Check | None:
    """Whether they were published in the 10 ms before a sampler's rows; None: cannot be told.

    Parameters
    ----------
    times
        Of the rows of each run.
    """
    hits, chances = [], []
    for name in messages.keys() & times.keys():
        m, rows = messages[name], np.sort(times[name])
        # Rows of one round follow each other at once.
        ends = rows[np.append(np.diff(rows) > WINDOW_NS, True)] if rows.size else rows
        inside = (m.publish_ns > ends[0]) & (m.publish_ns <= ends[-1]) if ends.size else m.worst[:0]
        if not inside.any():
            continue
        time, worst, latency = m.publish_ns[inside], m.worst[inside], m.latency_ns[inside]
        on = rows[np.searchsorted(rows, time)] - time <= WINDOW_NS
        for cycle in _cycles(np.searchsorted(ends, time)):
            if worst[cycle].any():
                hits.append(on[cycle][latency[cycle].argmax()])
                chances.append(on[cycle].mean())
    expected = float(np.mean(chances)) if chances else 0.0
    if len(hits) < _LEAST_CYCLES or not 0 < expected < 0.5:
        return None
    return _binomial(source, int(np.sum(hits)), len(hits), expected)


def _binomial(source: str, hits: int, tries: int, expected: float) -> Check:
    from scipy import stats  # noqa: PLC0415  (a second)

    # Cycles with unequal chances vary less than a binomial number with their mean: conservative.
    test = stats.binomtest(hits, tries, expected, alternative="greater")
    interval = stats.binomtest(hits, tries).proportion_ci(0.95)
    share = hits / tries
    low, high = interval.low / expected, interval.high / expected
    return Check(source, float(test.pvalue), share, expected, share / expected, low, high)


def check_period(source: str, messages: Mapping[str, Messages], period_ns: float) -> Check | None:
    """Whether they come at one moment of a period; None: cannot be told.

    Rayleigh's test against what any message of the same cycles would give: the sum of the worst
    ones' directions, less its expectation, in units of its covariance, chi square over runs.
    """
    total, freedom = 0.0, 0
    for m in messages.values():
        since = (m.publish_ns - m.publish_ns[0]).astype(np.float64)
        spacing = since[-1] / max(1, since.size - 1)
        if period_ns < 4 * spacing or since[-1] < _LEAST_CYCLES * period_ns:
            continue
        angle = 2 * np.pi * (since % period_ns) / period_ns
        direction = np.column_stack([np.cos(angle), np.sin(angle)])
        seen, expected, spread, count = np.zeros(2), np.zeros(2), np.zeros((2, 2)), 0
        for cycle in _cycles((since // period_ns).astype(np.int64)):
            if m.worst[cycle].any():
                seen += direction[cycle][m.latency_ns[cycle].argmax()]
                expected += direction[cycle].mean(axis=0)
                spread += np.cov(direction[cycle].T, bias=True)
                count += 1
        if count >= _LEAST_CYCLES and np.linalg.det(spread) > 1e-9:
            off = seen - expected
            total += float(off @ np.linalg.solve(spread, off))
            freedom += 2
    # The chi square's survival function.
    from scipy import special  # noqa: PLC0415  (a third of a second)

    return Check(source, float(special.chdtrc(freedom, total))) if freedom else None


def check_stretches(
    source: str, messages: Mapping[str, Messages], stretches: Mapping[str, tuple[Int64, Bools]]
) -> Check | None:
    """Whether they fall into disturbed stretches; None: cannot be told.

    Parameters
    ----------
    stretches
        Of each run: times, shape (n + 1,), and whether each stretch between two of them was
        disturbed, shape (n,).
    """
    worst, every, on, runs = [], [], [], []
    for name in sorted(messages.keys() & stretches.keys()):
        m, (times, disturbed) = messages[name], stretches[name]
        counts = [np.histogram(t, times)[0] for t in (m.publish_ns[m.worst], m.publish_ns)]
        there = counts[1] > 0
        worst.append(counts[0][there])
        every.append(counts[1][there])
        on.append(disturbed[there])
        runs.append(there.sum())
    if not worst or not (w := np.concatenate(worst)).sum():
        return None
    n, x = np.concatenate(every), np.concatenate(on)
    of_all = n[x].sum() / n.sum()
    if w.size < _LEAST_CYCLES or not 0 < of_all < 1:
        return None
    rng = np.random.default_rng(1)
    seen, exchanged = w[x].sum(), np.zeros(_EXCHANGES)
    edges = np.cumsum([0, *runs])
    for a, b in itertools.pairwise(edges):
        exchanged += rng.permuted(np.tile(w[a:b], (_EXCHANGES, 1)), axis=1)[:, x[a:b]].sum(axis=1)
    at_least = int((exchanged >= seen).sum())
    drawn = rng.integers(0, w.size, (2000, w.size))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = (np.where(x, w, 0)[drawn].sum(1) / w[drawn].sum(1)) / (
            np.where(x, n, 0)[drawn].sum(1) / n[drawn].sum(1)
        )
    known = ratios[~np.isnan(ratios)]
    low, high = quantile(known, 0.025), quantile(known, 0.975)
    share = seen / w.sum()
    p = (1 + at_least) / (1 + _EXCHANGES)
    return Check(source, p, share, of_all, share / of_all, low, high)


def _cycles(number: Int64) -> Iterator[slice]:
    """The places of equal numbers, which are in order."""
    edges = np.flatnonzero(np.append(True, np.diff(number) != 0))
    for begin, end in zip(edges, [*edges[1:], number.size], strict=True):
        yield slice(int(begin), int(end))


def periods_to_check(timers: pl.DataFrame, samples: Mapping[str, float]) -> dict[float, str]:
    """Periods in ns with what has them.

    Parameters
    ----------
    timers
        ``node`` and ``period_ns``.
    samples
        Periods of samplers, by name.
    """
    known = {float(ms) * 1e6: f"a period of {ms} ms" for ms in _GRID_MS}
    named = [
        (f"timer of {node}", float(p)) for node, p in timers.unique().sort(timers.columns).rows()
    ]
    for name, period in [*named, *samples.items()]:
        near = next((p for p in known if abs(p - period) < 0.01 * p), period)
        words = known.pop(near, f"a period of {significant(period / 1e6, 3)} ms")
        known[near] = f"{words}, {name}" if ", " in words else f"{words}, that of: {name}"
    return dict(sorted(known.items()))


def all_checks(
    messages: Mapping[str, Messages],
    samplers: Mapping[str, pl.DataFrame],
    system: pl.DataFrame,
    used: pl.DataFrame,
    timers: pl.DataFrame,
) -> list[Check]:
    """All that can be told.

    Parameters
    ----------
    messages
        By run, from `worst_of_runs`.
    samplers
        ``run``, ``time_ns`` of each sampler's rows, by what it samples.
    system
        ``run`` and the columns of the table ``system``.
    used
        ``run``, ``vpid``, ``time_ns``, ``cpu_time_ns`` of the recorded processes.
    timers
        ``node``, ``period_ns``.
    """
    times = {
        name: {str(run): part["time_ns"].to_numpy() for (run,), part in _by_run(frame)}
        for name, frame in samplers.items()
    }
    found = [
        check_samples(f"the rows of the sampler of {name} (10 ms before one)", messages, of_run)
        for name, of_run in times.items()
    ]
    spacing = {f"the sampler of {n}": s for n, of_run in times.items() if (s := _spacing(of_run))}
    for period, source in periods_to_check(timers, spacing).items():
        found.append(check_period(source, messages, period))
    for source, stretches in _disturbed(system, used).items():
        found.append(check_stretches(source, messages, stretches))
    return [check for check in found if check is not None]


def _by_run(frame: pl.DataFrame) -> Sequence[tuple[tuple[object, ...], pl.DataFrame]]:
    return list(frame.partition_by("run", as_dict=True).items()) if frame.width else []


def _spacing(times: Mapping[str, Int64]) -> float | None:
    gaps = [np.diff(np.sort(t)) for t in times.values()]
    rounds = np.concatenate([g[g > WINDOW_NS] for g in gaps]) if gaps else np.empty(0)
    return float(np.median(rounds)) if rounds.size >= _LEAST_CYCLES else None


def _disturbed(
    system: pl.DataFrame, used: pl.DataFrame
) -> dict[str, dict[str, tuple[Int64, Bools]]]:
    """Stretches between two samples of the machine, by what may have disturbed them."""
    own = {str(run): part for (run,), part in _by_run(used)}
    stolen, others = {}, {}
    for (run,), part in _by_run(system):
        rows = part.sort("time_ns")
        time = rows["time_ns"].to_numpy()
        kinds = ("cpu_busy_ns", "cpu_idle_ns", "cpu_iowait_ns", "cpu_steal_ns")
        passed = {k: np.diff(rows[k].fill_null(0).to_numpy().astype(np.float64)) for k in kinds}
        whole = np.maximum(sum(passed.values()), 1.0)
        if rows["cpu_steal_ns"].null_count() == 0:
            stolen[str(run)] = time, passed["cpu_steal_ns"] / whole > STEAL
        mine = np.zeros(time.size)
        for process in own.get(str(run), pl.DataFrame({"vpid": []})).partition_by("vpid"):
            at = process.drop_nulls("cpu_time_ns").sort("time_ns")
            if at.height:
                since = (at["time_ns"] - time[0]).to_numpy()
                mine += np.interp(time - time[0], since, at["cpu_time_ns"].to_numpy())
        if str(run) in own:
            others[str(run)] = time, (passed["cpu_busy_ns"] - np.diff(mine)) / whole > OTHERS
    return {
        f"steal of more than {STEAL:.0%}": stolen,
        f"other programs' use of more than {OTHERS:.0%} of the CPU time": others,
    }
