"""Test files of the storage plugin comparison: what is read, and refusals by name and line."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from roslens.recording.errors import UsageError
from roslens.studies.storage.live import mean_of_ratios, overall
from roslens.studies.storage.results.comparison import (
    DIGEST_SCHEMA,
    read_batches,
    read_digests,
)

PUBLISHED = Path(__file__).parents[2] / "studies" / "storage" / "data"
HEADER = "run,messages,batch_size,plugin_config,avg_byte_throughput,close_time\r\n"
RAW = "sqc,num_bytes,num_msgs,write_ns,close_ns\n"


def digest(folder: Path, text: str, name: str = "storage_plugins_here.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_all_rows_of_both_machines_are_read() -> None:
    frame = read_digests(PUBLISHED)
    assert frame.schema == DIGEST_SCHEMA
    assert frame.height == 480
    cells = frame.group_by("machine", "messages", "batch_size", "plugin_config").len()
    assert cells.height == 96
    assert cells["len"].unique().to_list() == [5]
    # First row of the first file, read by eye.
    assert frame.row(0) == (
        *("m1", 0, "1MiB", "1KiB", "mcap_default"),
        *(5314706820.961873, 0.000823992),
    )
    assert read_digests(PUBLISHED / "storage_plugins_nuc.csv").equals(
        frame.filter(pl.col("machine") == "nuc")
    )


ROWS = "".join(f"{run},1MiB,1KiB,{c},{run + 1}.5,0.25\r\n" for run in (0, 1) for c in "ab")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "its header is not run,messages,batch_size"),
        (HEADER, "no row below its header"),
        (HEADER + ROWS[:-2], "a row is not whole"),
        (HEADER + "0,1MiB,1KiB,a,1.5\n", ":2: a row is not whole"),
        (HEADER + ROWS + "1,1MiB,1KiB,b,2.5,0.25\n", ":6 repeats the run of an earlier line"),
        (
            HEADER + "0,1MiB,1KiB,a,fast,1\n",
            "`fast` as dtype `f64` at column 'avg_byte_throughput'",
        ),
        (HEADER + "0,1MiB,1KiB,a,nan,1\n", ":2: a throughput above 0"),
        (HEADER + "0,1MiB,1KiB,a,0,1\n", ":2: a throughput above 0"),
        (
            HEADER + "0,1MiB,1KiB,a,1,-1\n",
            ":2: a throughput above 0 and a close time of at least 0",
        ),
        (HEADER + "0,,1KiB,a,1,1\n", ":2: a row is not whole"),
        (HEADER + "x,1MiB,1KiB,a,1,1\n", "`x` as dtype `i64` at column 'run'"),
        (HEADER + f"{10**20},1MiB,1KiB,a,1,1\n", "as dtype `i64` at column 'run'"),
        ("run,messages\n0,1\n", "its header is not run,messages,batch_size"),
        (HEADER + '"0,1\n', "cannot be read"),
    ],
)
def test_what_is_not_a_whole_digest_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = digest(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_digests(path)
    assert said in str(caught.value)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_missing_runs_are_named(tmp_path: Path) -> None:
    path = digest(tmp_path, HEADER + "".join(ROWS.splitlines(keepends=True)[:-1]))
    with pytest.raises(UsageError, match=r"lacks run 1 of 1MiB, 1KiB, b: of 2 runs x 2 cells 3"):
        read_digests(path)


def test_a_folder_is_searched_for_digests_only(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no digest"):
        read_digests(tmp_path)
    digest(tmp_path, RAW, "raw.csv")
    with pytest.raises(UsageError, match="has no digest"):
        read_digests(tmp_path)
    digest(tmp_path, HEADER + ROWS, "lab.csv")
    assert read_digests(tmp_path)["machine"].unique().to_list() == ["lab"]
    # An empty file may be a digest that was never written, so it is reported.
    digest(tmp_path, "", "other.csv")
    with pytest.raises(UsageError, match=r"other\.csv: its header is not"):
        read_digests(tmp_path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_digests(tmp_path / "none.csv")


def test_every_cut_of_a_digest_is_refused(tmp_path: Path) -> None:
    whole = HEADER + ROWS
    first = [line for line in ROWS.splitlines(keepends=True) if line[0] == "0"]
    # A cut after a cell of the first run looks like a smaller sweep, and one within a line end
    # loses nothing.
    ends = {len(HEADER + "".join(first[:number])) for number in range(1, len(first) + 1)}
    ends |= {end - 1 for end in (*ends, len(whole))}
    for length in range(len(whole)):
        if length not in ends:
            with pytest.raises(UsageError):
                read_digests(digest(tmp_path, whole[:length]))


def test_raw_rows_and_both_throughputs_by_hand(tmp_path: Path) -> None:
    path = digest(tmp_path, RAW + "0,1000,10,500,\n1,3000,30,1000,\n,,,,2500\n", "raw.csv")
    run = read_batches(path)
    assert run.calls.rows() == [(1000, 10, 500), (3000, 30, 1000)]
    assert run.close_ns == 2500
    # (2 + 3) / 2 bytes per ns, and 4000 bytes in 500 + 1000 + 2500 ns.
    assert mean_of_ratios(run) == pytest.approx(2.5e9, rel=1e-12)
    assert overall(run) == pytest.approx(1e9, rel=1e-12)


def test_throughput_without_time_is_refused(tmp_path: Path) -> None:
    run = read_batches(digest(tmp_path, RAW + "0,1000,10,0,\n,,,,0\n"))
    with pytest.raises(ValueError, match="took no time"):
        mean_of_ratios(run)
    with pytest.raises(ValueError, match="took no time"):
        overall(run)


@pytest.mark.parametrize(
    "rows",
    [
        "",
        "0,1000,10,500,\n",
        ",,,,12\n",
        "0,1000,10,500,\n2,1000,10,500,\n,,,,1\n",
        "0,1000,10,500,7\n,,,,1\n",
        "0,1000,10,,\n,,,,1\n",
        "0,1000,10,-1,\n,,,,1\n",
        "0,1000,10,500,\n,,,,1",
    ],
)
def test_what_is_not_a_whole_run_is_refused(tmp_path: Path, rows: str) -> None:
    with pytest.raises(UsageError, match=r"raw\.csv: .*cut off"):
        read_batches(digest(tmp_path, RAW + rows, "raw.csv"))
