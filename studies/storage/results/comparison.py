"""Read results of rosbag2's storage plugin comparison (2022).

Its ``single_benchmark`` (rosbag2_storage_plugin_comparison) prints a row per ``write()`` call
and finally a row with the close time (`read_batches`); its ``sweep.py`` condenses each such run
to one row (`read_digests`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import polars as pl

from roslens.collectors.results.tool_result import read_rows, read_text
from roslens.recording.errors import UsageError

_DIGEST = pl.Schema(
    {
        "run": pl.Int64,
        "messages": pl.String,
        "batch_size": pl.String,
        "plugin_config": pl.String,
        "avg_byte_throughput": pl.Float64,
        "close_time": pl.Float64,
    }
)
_BATCHES = pl.Schema(
    dict.fromkeys(("sqc", "num_bytes", "num_msgs", "write_ns", "close_ns"), pl.Int64)
)
FACTORS = ("messages", "batch_size", "plugin_config")
DIGEST_SCHEMA = pl.Schema({"machine": pl.String(), **_DIGEST})

_PREFIX = "storage_plugins_"


@dataclass(frozen=True)
class Batches:
    """One run of ``single_benchmark``.

    Attributes
    ----------
    calls
        One row per ``write()`` call: `num_bytes`, `num_msgs`, `write_ns` (int64).
    close_ns
        Time of closing the file.
    """

    calls: pl.DataFrame
    close_ns: int


def read_digests(path: Path | str) -> pl.DataFrame:
    """Read digests of one or several machines.

    Parameters
    ----------
    path
        A digest, or a folder, of which all files that begin with the digest's header are read. The
        machine's name is the file name without ``storage_plugins_`` and ``.csv``.

    Returns
    -------
    Columns of `DIGEST_SCHEMA`: throughput in bytes per second, the mean over calls of each call's
    own ratio without the close time; close time in seconds. In the order of the files.

    Raises
    ------
    UsageError
        There is nothing to read, a file has another format or is truncated, or a row is repeated
        or missing.
    """
    path = Path(path)
    files = [path]
    if path.is_dir():
        header = ",".join(_DIGEST)
        files = [
            file
            for file in sorted(path.glob("*.csv"))
            if read_text(file).partition("\n")[0] in (header, "")
        ]
        if not files:
            raise UsageError(
                f"{path} has no digest of the storage plugin comparison: no *.csv file in it "
                f"begins with {header}"
            )
    return pl.concat(map(_digest, files))


def read_batches(path: Path) -> Batches:
    """Read the raw rows of one run, as ``single_benchmark`` printed them.

    Raises
    ------
    UsageError
        The format is another, a call is missing, or the close time is missing at the end.
    """
    rows = read_rows(path, _BATCHES, optional=_BATCHES.names())
    calls = rows.drop("close_ns").drop_nulls()
    last = rows.height - 1
    if (
        calls.is_empty()
        or calls.height != last
        or rows["sqc"].to_list() != [*range(last), None]
        or rows["close_ns"].is_not_null().arg_true().to_list() != [last]
        or rows.filter(pl.any_horizontal(pl.all() < 0)).height
    ):
        raise UsageError(
            f"{path}: not a row per write call and, last, the close time: the run failed or the "
            "file is cut off"
        )
    return Batches(calls.drop("sqc"), rows["close_ns"][-1])


def _digest(path: Path) -> pl.DataFrame:
    frame = read_rows(path, _DIGEST)
    if frame.is_empty():
        raise UsageError(f"{path} has no row below its header")
    lines = frame.with_row_index("line", offset=2)
    throughput, close = pl.col("avg_byte_throughput"), pl.col("close_time")
    good = throughput.is_finite() & (throughput > 0) & close.is_finite() & (close >= 0)
    wrong = lines.filter(~good)["line"]
    if wrong.len():
        raise UsageError(
            f"{path}:{wrong[0]}: a throughput above 0 and a close time of at least 0 are expected"
        )
    repeated = lines.filter(~pl.struct("run", *FACTORS).is_first_distinct())["line"]
    if repeated.len():
        raise UsageError(f"{path}:{repeated[0]} repeats the run of an earlier line")
    _complete(path, frame)
    machine = pl.lit(path.stem.removeprefix(_PREFIX)).alias("machine")
    return frame.select(machine, *_DIGEST)


def _complete(path: Path, frame: pl.DataFrame) -> None:
    """Raise UsageError unless every run has all combinations of levels, as in a sweep."""
    runs = frame["run"].unique().sort()
    cells = list(product(*(frame[f].unique(maintain_order=True) for f in FACTORS)))
    swept = set(frame.select(*FACTORS, "run").iter_rows())
    missing = [(*cell, run) for cell in cells for run in runs if (*cell, run) not in swept]
    if missing:
        *cell, run = missing[0]
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise UsageError(
            f"{path} lacks run {run} of {', '.join(cell)}{more}: of {len(runs)} runs x "
            f"{len(cells)} cells {len(swept):,} rows are there; complete the sweep"
        )
