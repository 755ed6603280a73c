"""The study's three takeaways, judged cell by cell and machine by machine.

The methods are declared here, before any data. Each comparison is the ratio of mean throughputs
with its 95 % interval (Fieller, Welch's degrees of freedom), as in `claims`; p values are adjusted
by Holm over all comparisons of a takeaway on a machine, at 5 %.

* on par: MCAP's default is on par with SQLite's default or better; see `claims`.
* un-chunked: for messages of 100 B un-chunked MCAP is the fastest of all configurations. Holds in
  a cell if it is told apart from each other one as faster; false if from one as slower.
* CRC: checksums of chunks cost much. Declared: `MUCH` times as long or more. Holds in a cell if
  the whole interval of the ratio lies there; false if it lies below.
"""

from __future__ import annotations

import polars as pl

from roslens.analysis.statistics.multiplicity import holm
from roslens.analysis.statistics.over_runs import MINIMUM_RUNS
from roslens.analysis.storage.on_par import on_par_or_better
from roslens.analysis.verdicts.statement import Statement, Verdict

MUCH = 1.25
"""So many times as long is "much"."""

ALPHA = 0.05
SMALL = "100B"

STATEMENTS = {
    "on_par": "MCAP is on par with SQLite or better in the default configurations",
    "unchunked": "un-chunked MCAP is the fastest for small messages (100 B)",
    "crc": f"checksums of chunks cost much (at least {MUCH:g} times as long)",
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


def comparisons(digests: pl.DataFrame, threshold: float) -> pl.DataFrame:
    """Every comparison of the takeaways: `SCHEMA`.

    `ratio` is base / new of mean throughputs: above 1, `new` is slower.

    Parameters
    ----------
    digests
        As of `roslens.collectors.results.storage_study.read_digests`.
    threshold
        T of `claims`: so much slower is still on par.
    """
    found: list[pl.DataFrame] = []
    for _, machine in digests.group_by("machine", maintain_order=True):
        small = machine.filter(pl.col("messages") == SMALL)
        configs = machine["plugin_config"].unique(maintain_order=True).to_list()
        others = [c for c in configs if c != "mcap_nochunking"]
        found += _judged("on_par", machine, "mcap_default", ["sqlite_default"], threshold)
        found += _judged("unchunked", small, "mcap_nochunking", others, threshold)
        found += _judged("crc", machine, "mcap_uncompressed_crc", ["mcap_default"], threshold)
    return pl.concat(found) if found else pl.DataFrame(schema=SCHEMA)


def takeaways(digests: pl.DataFrame, compared: pl.DataFrame) -> list[Statement]:
    """The answer of each machine to each takeaway, in the order of `STATEMENTS`.

    It holds in all cells, is false in all or in one that suffices, holds in part or is undecided;
    it is refused where the runs do not suffice.

    Parameters
    ----------
    digests, compared
        What `comparisons` took and gave.
    """
    found = []
    for machine in digests["machine"].unique(maintain_order=True):
        for statement in STATEMENTS:
            rows = compared.filter(machine=machine, statement=statement)
            found.append(_takeaway(machine, statement, rows))
    return found


def _judged(
    statement: str, digests: pl.DataFrame, new: str, bases: list[str], threshold: float
) -> list[pl.DataFrame]:
    """The comparisons of one takeaway on one machine; none where no cell can be compared."""
    frames = []
    for base in bases:
        cells = _comparable(digests, new, base)
        if not cells.is_empty():
            judged = on_par_or_better(cells, new, base, threshold)
            frames.append(judged.with_columns(new=pl.lit(new), base=pl.lit(base)))
    if not frames:
        return []
    frame = pl.concat(frames).with_columns(statement=pl.lit(statement))
    if statement != "on_par":
        frame = frame.with_columns(p_holm=pl.Series(holm(frame["p_welch"].to_numpy())))
        judge = _fastest if statement == "unchunked" else _costs_much
        answers = [
            judge(low, high, p)
            for low, high, p in zip(frame["low"], frame["high"], frame["p_holm"], strict=True)
        ]
        frame = frame.with_columns(answer=pl.Series(answers, dtype=pl.String))
    return [frame.select(SCHEMA.names()).cast(SCHEMA)]


def _fastest(low: float, high: float, p: float) -> Verdict:
    if p > ALPHA or low <= 1 <= high:
        return "undecided"
    return "holds" if high < 1 else "false"


def _costs_much(low: float, high: float, p: float) -> Verdict:
    if high < MUCH:
        return "false"
    return "holds" if low >= MUCH and p <= ALPHA else "undecided"


def _comparable(digests: pl.DataFrame, new: str, base: str) -> pl.DataFrame:
    """The cells in which both have the same runs, enough of them."""
    both = digests.filter(pl.col("plugin_config").is_in([new, base]))
    cell = ["machine", "messages", "batch_size"]
    runs = both.group_by([*cell, "run"]).agg(pl.col("plugin_config").n_unique().alias("configs"))
    counts = runs.group_by(cell).agg(
        whole=(pl.col("configs") == 2).all(), runs=pl.len().cast(pl.Int64)
    )
    enough = counts.filter(pl.col("whole") & (pl.col("runs") >= MINIMUM_RUNS))
    return both.join(enough.select(cell), on=cell, how="semi", maintain_order="left")


def _takeaway(machine: str, statement: str, rows: pl.DataFrame) -> Statement:
    answer, because = _over_cells(rows, one_suffices=statement == "on_par")
    return Statement(STATEMENTS[statement], answer, because, machine)


def _over_cells(rows: pl.DataFrame, *, one_suffices: bool) -> tuple[Verdict, str]:
    if rows.is_empty():
        because = (
            "no cell has the configurations that it compares with the same runs, at least "
            f"{MINIMUM_RUNS} of each"
        )
        return "refused", because
    # A cell is as good as its worst comparison: the fastest must be faster than each other one.
    rank = {"false": 0, "undecided": 1, "holds": 2}
    cells = rows.group_by(["messages", "batch_size"], maintain_order=True).agg(
        pl.col("answer").replace_strict(rank, return_dtype=pl.Int64).min()
    )
    count = {name: cells.filter(answer=number).height for name, number in rank.items()}
    total = cells.height
    parts = [f"{word} in {count[word]}" for word in ("holds", "false", "undecided") if count[word]]
    reason = f"{', '.join(parts)} of {total} cell{'s' * (total != 1)}"
    if count["holds"] == total:
        return "holds", reason
    if count["false"] == total or (one_suffices and count["false"]):
        return "false", reason
    if count["holds"] and count["false"]:
        return "in part", reason
    return "undecided", reason
