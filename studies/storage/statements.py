"""Judge the study's statements on throughput, cell by cell and machine by machine.

The methods were declared here before any data. Each comparison is the ratio of mean throughputs
of base and new (above 1: new is slower) with its 95 % interval by Fieller's theorem with Welch's
degrees of freedom, as in `roslens.analysis.verdicts.one_cell`; p values are adjusted by Holm over
all comparisons of a takeaway on a machine, at 5 %. T is the threshold.

* on par: MCAP's default is on par with SQLite's default or better, at most T slower. False if
  low > 1 + T, also after Holm's correction; else it holds if high < 1 + T. Next to it are reported
  Welch's test and the test paired by block (run is the outermost loop of the study), both of "no
  difference", and equivalence within T (two one-sided tests), Welch's and paired.
* un-chunked: for messages of 100 B un-chunked MCAP is the fastest of all configurations. Holds in
  a cell if it is found faster than each other one; false if it is found slower than one.
* CRC: checksums of chunks cost much. Declared: at least `MUCH` times as long. Holds in a cell if
  the whole interval of the ratio lies there; false if it lies below.

These three are the study's takeaways. Three more statements, from its descriptions of
configurations and batches, are judged like un-chunked: un-chunked MCAP is the fastest configuration
of MCAP, for messages of every size; batches of 10 MiB against those of 1 KiB in each setting of
SQLite; and SQLite's default, its fastest setting, against its resilient setting.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import polars as pl

from roslens.analysis.statistics.multiplicity import holm_of_known
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS
from roslens.analysis.statistics.ratio import (
    Spread,
    equivalent_pairs,
    equivalent_ratio,
    paired_p,
    paired_ratio,
    ratio_of_means,
)
from roslens.analysis.verdicts.one_cell import LEVEL
from roslens.analysis.verdicts.statement import Statement, Verdict

MUCH = 1.25
"""Least ratio of times that counts as "much"."""

ALPHA = 0.05
SMALL = "100B"

STATEMENTS = {
    "on_par": "MCAP is on par with SQLite or better in the default configurations",
    "unchunked": "un-chunked MCAP is the fastest for small messages (100 B)",
    "crc": f"checksums of chunks cost much (at least {MUCH:g} times as long)",
    "fastest_mcap": "un-chunked is the fastest configuration of MCAP",
    "batches": "larger batches (10 MiB instead of 1 KiB) help SQLite",
    "resilient": "SQLite's default is faster than its resilient setting",
}

SCHEMA = pl.Schema(
    {
        "machine": pl.String,
        "statement": pl.String,
        "messages": pl.String,
        "batch_size": pl.String,
        "new": pl.String,
        "base": pl.String,
        "runs": pl.Int64,
        "mean_new": pl.Float64,
        "mean_base": pl.Float64,
        "ratio": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "p_holm": pl.Float64,
        "answer": pl.String,
        "p_welch": pl.Float64,
        "p_paired": pl.Float64,
        "paired_low": pl.Float64,
        "paired_high": pl.Float64,
        "p_equivalent": pl.Float64,
        "p_equivalent_paired": pl.Float64,
        "disagree": pl.Boolean,
    }
)


_OF_JUDGES = ("statement", "p_holm", "answer", "disagree")


def comparisons(digests: pl.DataFrame, threshold: float) -> pl.DataFrame:
    """Return every comparison of the statements, with the columns `SCHEMA`.

    `mean_new` and `mean_base` are in bytes per second, `ratio` is base / new: above 1 `new` is
    slower. `paired_low` and `paired_high` bound the ratio by blocks; `disagree` says whether the
    tests answer differently at 5 % (difference by Welch or paired, equivalence). For batches,
    `batch_size` is the setting, and `new` and `base` are the batches.

    Parameters
    ----------
    digests
        Digests from `results.comparison.read_digests`.
    threshold
        T: relative slowdown that still counts as on par.
    """
    frames: list[pl.DataFrame] = []
    for _, machine in digests.group_by("machine", maintain_order=True):
        small = machine.filter(pl.col("messages") == SMALL)
        configs = machine["plugin_config"].unique(maintain_order=True).to_list()
        rest = [c for c in configs if c != "mcap_nochunking"]
        of_mcap = [c for c in rest if c.startswith("mcap")]
        sqlite = machine.filter(pl.col("plugin_config").str.starts_with("sqlite"))
        turned = sqlite.with_columns(
            plugin_config=pl.col("batch_size"), batch_size=pl.col("plugin_config")
        )
        frames += _judged("on_par", machine, "mcap_default", ["sqlite_default"], threshold)
        frames += _judged("unchunked", small, "mcap_nochunking", rest, threshold)
        frames += _judged("crc", machine, "mcap_uncompressed_crc", ["mcap_default"], threshold)
        frames += _judged("fastest_mcap", machine, "mcap_nochunking", of_mcap, threshold)
        frames += _judged("batches", turned, "10MiB", ["1KiB"], threshold)
        frames += _judged("resilient", sqlite, "sqlite_default", ["sqlite_resilient"], threshold)
    return pl.concat(frames) if frames else pl.DataFrame(schema=SCHEMA)


def takeaways(digests: pl.DataFrame, compared: pl.DataFrame) -> list[Statement]:
    """Return the answer of each machine to each statement, in the order of `STATEMENTS`.

    A statement holds in all cells, is false in all or in one that suffices, holds in part, or is
    undecided; it is refused where there are too few runs.

    Parameters
    ----------
    digests, compared
        Digests that `comparisons` took, and the frame that it returned.
    """
    statements = []
    for machine in digests["machine"].unique(maintain_order=True):
        for statement, claim in STATEMENTS.items():
            rows = compared.filter(machine=machine, statement=statement)
            answers = (
                ((messages, batch), answer)
                for messages, batch, answer in rows.select(
                    "messages", "batch_size", "answer"
                ).iter_rows()
            )
            answer, because = verdict_over_cells(answers, one_suffices=statement == "on_par")
            statements.append(Statement(claim, answer, because, machine))
    return statements


def _judged(
    statement: str, digests: pl.DataFrame, new: str, bases: list[str], threshold: float
) -> list[pl.DataFrame]:
    """Return the comparisons of one statement on one machine; empty if no cell has any."""
    rows = [row for base in bases for row in _compared(digests, new, base, threshold)]
    if not any("ratio" in row for row in rows):
        return []
    given = {name: kind for name, kind in SCHEMA.items() if name not in _OF_JUDGES}
    frame = pl.DataFrame(rows, schema=given, infer_schema_length=None)
    judges: dict[str, Callable[[float, float, float], Verdict]] = {
        "on_par": partial(_on_par, threshold),
        "crc": _costs_much,
    }
    judge = judges.get(statement, _fastest)
    adjusted = holm_of_known(frame["p_welch"].to_list())
    answers = [
        "undecided" if p is None else judge(low, high, p)
        for low, high, p in zip(frame["low"], frame["high"], adjusted, strict=True)
    ]
    different = [pl.col(p) <= ALPHA for p in ("p_welch", "p_paired")]
    same = [pl.col(p) <= ALPHA for p in ("p_equivalent", "p_equivalent_paired")]
    frame = frame.with_columns(
        pl.lit(statement).alias("statement"),
        pl.Series("p_holm", adjusted, dtype=pl.Float64),
        pl.Series("answer", answers, dtype=pl.String),
        # One test finds a difference and the other does not, or both a difference and equivalence
        # show.
        disagree=(different[0] != different[1])
        | (same[0] != same[1])
        | ((different[0] | different[1]) & (same[0] | same[1])),
    ).with_columns(pl.col("disagree").fill_null(value=False))
    return [frame.select(SCHEMA.names()).cast(SCHEMA)]


def _compared(
    digests: pl.DataFrame, new: str, base: str, threshold: float
) -> Iterator[dict[str, object]]:
    """Yield a row per cell with runs of both, without figures if there are too few of both."""
    for name, cell in digests.group_by(["machine", "messages", "batch_size"], maintain_order=True):
        new_runs, base_runs = (
            cell.filter(plugin_config=config).sort("run") for config in (new, base)
        )
        if not new_runs.height or not base_runs.height:
            continue
        # A run that failed with one of the two is left out of both.
        new_runs, base_runs = (
            a.join(b, on="run", how="semi", maintain_order="left")
            for a, b in ((new_runs, base_runs), (base_runs, new_runs))
        )
        about = {
            **dict(zip(("machine", "messages", "batch_size"), name, strict=True)),
            "new": new,
            "base": base,
            "runs": new_runs.height,
        }
        if new_runs.height < MINIMUM_RUNS:
            yield about
            continue
        of_new, of_base = (f["avg_byte_throughput"].to_numpy() for f in (new_runs, base_runs))
        a, b = Spread.of(of_new), Spread.of(of_base)
        effect = ratio_of_means(b, a, LEVEL)
        paired = paired_ratio(of_base, of_new, LEVEL)
        yield {
            **about,
            "mean_new": a.mean,
            "mean_base": b.mean,
            "ratio": effect.value,
            "low": effect.low,
            "high": effect.high,
            "p_welch": effect.p,
            "p_paired": paired_p(of_base, of_new),
            "paired_low": paired.low,
            "paired_high": paired.high,
            "p_equivalent": equivalent_ratio(b, a, threshold),
            "p_equivalent_paired": equivalent_pairs(of_base, of_new, threshold),
        }


def _on_par(threshold: float, low: float, high: float, p: float) -> Verdict:
    if low > 1 + threshold:
        return "false" if p <= ALPHA else "undecided"
    return "holds" if high < 1 + threshold else "undecided"


def _fastest(low: float, high: float, p: float) -> Verdict:
    if p > ALPHA or low <= 1 <= high:
        return "undecided"
    return "holds" if high < 1 else "false"


def _costs_much(low: float, high: float, p: float) -> Verdict:
    if high < MUCH:
        return "false"
    return "holds" if low >= MUCH and p <= ALPHA else "undecided"


_RANK: Mapping[str, int] = {"false": 0, "undecided": 1, "holds": 2}


def verdict_over_cells(
    answers: Iterable[tuple[object, str]], *, one_suffices: bool = False
) -> tuple[Verdict, str]:
    """Return the verdict over all cells, and a text with the number of each answer.

    Parameters
    ----------
    answers
        Cell and answer (holds, false or undecided) of each comparison. A cell has the answer of its
        worst comparison: the fastest must be faster than each other one.
    one_suffices
        Whether one cell with the answer false makes the statement false.
    """
    worst: dict[object, str] = {}
    for cell, answer in answers:
        worst[cell] = min(worst.get(cell, answer), answer, key=_RANK.__getitem__)
    total = len(worst)
    if not total:
        because = (
            "no cell has the configurations that it compares with the same runs, at least "
            f"{MINIMUM_RUNS} of each"
        )
        return "refused", because
    count = Counter(worst.values())
    parts = [f"{word} in {count[word]}" for word in ("holds", "false", "undecided") if count[word]]
    reason = f"{', '.join(parts)} of {total} cell{'s' * (total != 1)}"
    if count["holds"] == total:
        return "holds", reason
    if count["false"] == total or (one_suffices and count["false"]):
        return "false", reason
    if count["holds"] and count["false"]:
        return "in part", reason
    return "undecided", reason
