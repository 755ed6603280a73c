"""Test ``factors=FILE.csv`` for recordings without a manifest; expected by construction."""

from pathlib import Path

import pytest
from synthetic import write_run

import roslens as rl
from roslens.factors import Factors
from roslens.recording import UsageError


def bare(path: Path, value: int) -> Path:
    run = write_run(path, latencies_ns=[value], with_manifest=False)
    (run / "metadata").write_text("")
    return run


def file(folder: Path, text: str) -> Path:
    path = folder / "factors.csv"
    path.write_text(text)
    return path


def test_paths_or_names_and_types_and_repetitions(tmp_path: Path) -> None:
    for number, name in enumerate(("one", "two", "three")):
        bare(tmp_path / "traces" / name, number)
    factors = file(
        tmp_path,
        "recording,executor,payload,rate,loaned,repetition\n"
        "traces/one,single,100,0.5,true,0\n"
        "two,events,1000,2,false,1\n"
        f"{tmp_path / 'traces' / 'three'},single,,x,,0\n",
    )
    paths = [tmp_path / "traces" / name for name in ("one", "two", "three")]
    opened = rl.open(paths, factors=factors, collect=False)
    assert [dict(run.cell) for run in opened.runs] == [
        {"executor": "single", "payload": 100, "rate": 0.5, "loaned": True},
        {"executor": "events", "payload": 1000, "rate": 2, "loaned": False},
        {"executor": "single", "rate": "x"},
    ]
    assert [(run.repetition, run.block) for run in opened.runs] == [(0, "0"), (1, "1"), (0, "0")]
    frame = opened.messages.select("run", "executor", "payload").collect()
    assert frame.rows() == [
        ("one", "single", 100),
        ("two", "events", 1000),
        ("three", "single", None),
    ]
    # A view keeps the given factors.
    assert opened.view(warm_up=0).runs == opened.runs


def test_only_what_is_written_as_a_number_is_one(tmp_path: Path) -> None:
    texts = ["1.10", "1.1", "12e4567", "007", "nan", "-3", "1e3"]
    for number in range(len(texts)):
        bare(tmp_path / str(number), number)
    rows = "".join(f"{number},{text}\n" for number, text in enumerate(texts))
    opened = rl.open(tmp_path, factors=file(tmp_path, f"path,version\n{rows}"), collect=False)
    versions = [run.cell["version"] for run in opened.runs]
    assert versions == ["1.10", 1.1, "12e4567", "007", "nan", -3, "1e3"]


def test_a_folder_of_bare_traces_is_as_many_recordings_as_have_rows(tmp_path: Path) -> None:
    for number, name in enumerate(("a", "b")):
        bare(tmp_path / name, number)
    assert len(rl.open(tmp_path, collect=False).runs) == 2
    factors = file(tmp_path, "path,size\na,1\nb/,2\n")
    opened = rl.open(tmp_path, factors=factors, collect=False)
    assert [dict(run.cell) for run in opened.runs] == [{"size": 1}, {"size": 2}]
    bare(tmp_path / "c", 3)
    with pytest.raises(UsageError, match=r"no row for the recording .*c; add one"):
        rl.open(tmp_path, factors=factors, collect=False)
    inner = tmp_path / "c" / "ust" / "uid" / "0" / "64-bit"
    inner.mkdir(parents=True)
    (tmp_path / "c" / "metadata").rename(inner / "metadata")
    with pytest.raises(UsageError, match=r"no row for the recording .*c; add one"):
        rl.open(tmp_path, factors=factors, collect=False)


def test_runs_told_to_be_replications_share_a_cell(tmp_path: Path) -> None:
    paths = [bare(tmp_path / name, 1) for name in ("a", "b")]
    factors = file(tmp_path, "path,size\na,1\nb,1\n")
    opened = rl.open(paths, factors=factors, collect=False)
    assert len({run.label for run in opened.runs}) == 1


def test_a_manifest_gets_further_factors_but_no_other_level(tmp_path: Path) -> None:
    write_run(tmp_path / "r", latencies_ns=[1], factors={"a": 1})
    write_run(tmp_path / "s", latencies_ns=[1], factors={"a": 2})
    factors = file(tmp_path, "path,machine\nr,arm\n")
    opened = rl.open(tmp_path, factors=factors, collect=False)
    assert [dict(run.cell) for run in opened.runs] == [{"a": 1, "machine": "arm"}, {"a": 2}]
    factors = file(tmp_path, "path,a\nr,3\n")
    with pytest.raises(UsageError, match=r"line 2: a is 3, but the manifest of r says 1"):
        rl.open(tmp_path, factors=factors, collect=False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a header"),
        ("path\nr\n", "expected a header"),
        ("path,a,a\nr,1,2\n", "expected a header"),
        ("path,b,low\nr,1,1\n", r"factors\.csv: no factor can be named 'low', .*; rename it"),
        ("path,a\nr\n", "line 2: 1 cells under 2 headings"),
        ("path,a\n,1\n", "line 2: the first cell names no recording"),
        ("path,a\nr,1\nr,2\n", "line 3: r has a row already"),
        ("path,repetition\nr,first\n", "line 2: repetition 'first' is no whole number"),
    ],
)
def test_malformed_files(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Factors.read(file(tmp_path, text))


def test_what_fits_no_recording(tmp_path: Path) -> None:
    run = bare(tmp_path / "r", 1)
    with pytest.raises(UsageError, match=r"no row for the recording r; it has rows for q"):
        rl.open(run, factors=file(tmp_path, "path,a\nq,1\n"), collect=False)
    with pytest.raises(UsageError, match=r"lines 2 and 3 both name"):
        rl.open(run, factors=file(tmp_path, f"path,a\nr,1\n{run},1\n"), collect=False)
    with pytest.raises(UsageError, match=r"cannot be read as CSV: No such file"):
        rl.open(run, factors=tmp_path / "nothing.csv", collect=False)


def test_names_of_folders_tell_factors(tmp_path: Path) -> None:
    for number, name in enumerate(("rmw=a,rate=100/one", "rmw=a,rate=100/two", "rmw=b/x", "plain")):
        bare(tmp_path / "key=ignored" / name, number)
    opened = rl.open(tmp_path / "key=ignored", collect=False)
    assert {run.name: dict(run.cell) for run in opened.runs} == {
        "one": {"rmw": "a", "rate": 100},
        "two": {"rmw": "a", "rate": 100},
        "x": {"rmw": "b"},
        "plain": {"recording": "plain"},
    }


def test_no_factor_has_the_name_of_another_column(tmp_path: Path) -> None:
    """Columns that exist without any factor may not be used; the first column of a file is none."""
    for number, name in enumerate(("one", "two")):
        bare(tmp_path / "metric=b" / name, number)
    run = rl.open(tmp_path / "metric=b" / "one", collect=False)
    columns = run.latency.estimates(full=True).columns
    assert "effective_samples" in columns
    for name in columns:
        with pytest.raises(UsageError, match=f"no factor can be named '{name}'"):
            Factors.read(file(tmp_path, f"path,{name}\none,1\n"))
        assert Factors.read(file(tmp_path, f"{name},a\none,1\n")).rows
    with pytest.raises(UsageError, match=r"metric=b/one: no factor can be named 'metric'"):
        rl.open(tmp_path, collect=False)


def test_folders_are_a_factor_where_every_recording_lies_in_one(tmp_path: Path) -> None:
    for number, name in enumerate(("base/one", "base/two", "new/one")):
        bare(tmp_path / name, number)
    cells = [run.cell for run in rl.open(tmp_path, collect=False).runs]
    assert cells == [{"folder": "base"}, {"folder": "base"}, {"folder": "new"}]
    bare(tmp_path / "three", 3)
    for path, runs in ((tmp_path, 4), (tmp_path / "base", 2)):
        assert [set(run.cell) for run in rl.open(path, collect=False).runs] == [
            {"recording"}
        ] * runs
