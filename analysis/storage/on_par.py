"""The study's claim "MCAP is on par or better in the default configurations", cell by cell.

The method that answers is declared here, before any data: the ratio sqlite_default / mcap_default
of mean throughputs (above 1: MCAP is slower), its 95 % interval by Fieller's theorem with Welch's
degrees of freedom, as in `roslens.analysis.verdicts.comparison`, and the threshold T:

* the claim is false if low > 1 and high >= 1 + T, and so after Holm's correction over all cells;
* else it holds if high < 1 + T: MCAP is at most T slower;
* else it is undecided.

Beside it stand the answers of other methods: Welch's test and the test paired by block (run is
the outermost loop of the study), both of "no difference", and equivalence within T (two
one-sided tests), Welch's and paired.
"""

from __future__ import annotations

import polars as pl

from roslens.analysis.statistics.equivalence import equivalent_pairs, equivalent_ratio
from roslens.analysis.statistics.multiplicity import holm
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS
from roslens.analysis.statistics.ratio import Spread, paired_p, paired_ratio, ratio_of_means
from roslens.analysis.verdicts.comparison import LEVEL, verdict_of
from roslens.analysis.verdicts.statement import Verdict
from roslens.tracing.recording.errors import UsageError

THRESHOLD = 0.05


def on_par_or_better(
    digests: pl.DataFrame,
    new: str = "mcap_default",
    base: str = "sqlite_default",
    threshold: float = THRESHOLD,
) -> pl.DataFrame:
    """Whether `new` is on par with `base` or better, in each (machine, messages, batch_size).

    Parameters
    ----------
    digests
        As of `roslens.collectors.results.storage_study.read_digests`.
    new, base
        Names in `plugin_config`.
    threshold
        T: so much slower is still on par.

    Returns
    -------
    One row per cell: `machine`, `messages`, `batch_size`, `runs`; `mean_new`, `mean_base` (bytes
    per second); `ratio` base / new with `low`, `high`; `verdict` of the compare rule; `p_holm`;
    `answer` (holds, false, undecided); `p_welch`, `p_paired`; `paired_low`, `paired_high` of
    the ratio by blocks; `p_equivalent`, `p_equivalent_paired`; `disagree`: whether the tests
    answer differently at 5 % (difference by Welch or paired, equivalence).

    Raises
    ------
    UsageError
        A cell lacks one of the two, or has other runs for one than for the other.
    """
    rows = []
    for name, cell in digests.group_by(["machine", "messages", "batch_size"], maintain_order=True):
        y, x = _by_run(cell, new, name), _by_run(cell, base, name)
        if y["run"].to_list() != x["run"].to_list() or y.height < MINIMUM_RUNS:
            raise UsageError(
                f"{', '.join(map(str, name))}: {new} has {y.height} runs and {base} {x.height}; "
                f"the same runs of both are needed, at least {MINIMUM_RUNS}"
            )
        of_new, of_base = (f["avg_byte_throughput"].to_numpy() for f in (y, x))
        a, b = Spread.of(of_new), Spread.of(of_base)
        effect = ratio_of_means(b, a, LEVEL)
        paired = paired_ratio(of_base, of_new, LEVEL)
        rows.append(
            {
                "machine": name[0],
                "messages": name[1],
                "batch_size": name[2],
                "runs": y.height,
                "mean_new": a.mean,
                "mean_base": b.mean,
                "ratio": effect.value,
                "low": effect.low,
                "high": effect.high,
                "verdict": verdict_of(effect, threshold),
                "p_welch": effect.p,
                "p_paired": paired_p(of_base, of_new),
                "paired_low": paired.low,
                "paired_high": paired.high,
                "p_equivalent": equivalent_ratio(b, a, threshold).p,
                "p_equivalent_paired": equivalent_pairs(of_base, of_new, threshold).p,
            }
        )
    if not rows:
        raise UsageError("there is no row to judge the claim by")
    frame = pl.DataFrame(rows)
    adjusted = holm(frame["p_welch"].to_numpy())
    answers = [
        _answer(verdict, high, p, threshold)
        for verdict, high, p in zip(frame["verdict"], frame["high"], adjusted, strict=True)
    ]
    alpha = 1 - LEVEL
    different = [pl.col(p) <= alpha for p in ("p_welch", "p_paired")]
    same = [pl.col(p) <= alpha for p in ("p_equivalent", "p_equivalent_paired")]
    return frame.with_columns(
        pl.Series("p_holm", adjusted),
        pl.Series("answer", answers, dtype=pl.String),
        # Told apart by one test and not by the other, or told apart and yet equivalent.
        disagree=(different[0] != different[1])
        | (same[0] != same[1])
        | ((different[0] | different[1]) & (same[0] | same[1])),
    )


def _answer(verdict: str, high: float, p_holm: float, threshold: float) -> Verdict:
    if verdict == "regression":
        return "false" if p_holm <= 1 - LEVEL else "undecided"
    return "holds" if high < 1 + threshold else "undecided"


def _by_run(cell: pl.DataFrame, config: str, name: tuple[object, ...]) -> pl.DataFrame:
    found = cell.filter(pl.col("plugin_config") == config).sort("run")
    if found.is_empty():
        raise UsageError(f"{', '.join(map(str, name))} has no row of {config}")
    return found
