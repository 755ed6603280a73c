"""Test that ``roslens sql`` gives the figures that pyarrow counts in the files."""

import json

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.samples import SAMPLES

import roslens as rl
from roslens.recording import RunFailedError, UsageError
from roslens.sql import Form, query, run_sql

SAMPLE = SAMPLES / "two_process"
pytestmark = pytest.mark.recording


@pytest.fixture(scope="module")
def runs() -> rl.Recordings:
    return rl.open(SAMPLE)


def test_counts_are_those_of_pyarrow(runs: rl.Recordings) -> None:
    frame, more = query(runs, "SELECT run, outcome, count(*) AS n FROM messages GROUP BY ALL")
    expected = {}
    for recording, run in zip(runs.recordings, runs.runs, strict=True):
        outcome = pq.read_table(recording.tables / "messages.parquet")["outcome"]
        for pair in pc.value_counts(outcome.cast("string")).to_pylist():
            expected[run.name, pair["values"]] = pair["counts"]
    assert {(run, outcome): n for run, outcome, n in frame.iter_rows()} == expected
    assert not more


def test_factors_come_first_and_samples_are_there(runs: rl.Recordings) -> None:
    for name in ("messages", "resources"):
        frame, _ = query(runs, f"SELECT * FROM {name} LIMIT 0")
        assert frame.columns == getattr(runs, name).collect_schema().names()


def test_rows_are_limited_and_more_are_told_of(
    runs: rl.Recordings, capsys: pytest.CaptureFixture[str]
) -> None:
    run_sql(runs, "SELECT 1 AS a FROM range(5)", rows=3, seconds=60, form="json")
    out, err = capsys.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [{"a": 1}] * 3
    assert "only the first 3 rows" in err
    run_sql(runs, "SELECT 1 AS a FROM range(3)", rows=3, seconds=60, form="csv")
    assert capsys.readouterr() == ("a\n1\n1\n1\n", "")


@pytest.mark.parametrize(
    ("text", "form", "told"),
    [
        ("SELECT INTERVAL 3 DAYS AS a, [1, 2] AS b", "json", '{"a":"3 days","b":[1,2]}\n'),
        ("SELECT 'abc'::BLOB AS \"i\"\"i\"", "json", '{"i\\"i":"abc"}\n'),
        ("SELECT '101'::BIT AS a, 1 AS A", "csv", "a,A_1\n101,1\n"),
        ("SELECT [1, 2] AS a, {'x': INTERVAL 1 DAY} AS b", "csv",
         'a,b\n"[1,2]","{""x"":""1 day""}"\n'),
    ],
)  # fmt: skip
def test_what_a_form_has_no_type_for_is_text(
    runs: rl.Recordings, capsys: pytest.CaptureFixture[str], text: str, form: Form, told: str
) -> None:
    run_sql(runs, text, rows=3, seconds=60, form=form)
    assert capsys.readouterr() == (told, "")


def test_a_table_whose_name_is_computed_is_whole(runs: rl.Recordings) -> None:
    expected = runs.messages.collect().height
    for text in ("query_table('mess' || 'ages')", "query('FROM mess' || 'ages')"):
        frame, _ = query(runs, f"SELECT count(*) FROM {text}")
        assert frame.item() == expected > 0


@pytest.mark.parametrize(
    "text",
    [
        "SELEC 1",
        "SELECT nothing FROM messages",
        "SELECT 1; SELECT 2",
        "",
        "CREATE TABLE a AS SELECT 1",
        "COPY messages TO 'out.csv'",
        "ATTACH 'other.db'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT m.topic, p.topic FROM messages m JOIN publications p USING (run)",
    ],
)
def test_what_is_no_question_of_the_tables_is_refused_in_a_line(
    runs: rl.Recordings, text: str
) -> None:
    with pytest.raises(UsageError) as caught:
        query(runs, text)
    assert "\n" not in str(caught.value)


def test_sums_and_decimals_are_numbers(runs: rl.Recordings) -> None:
    """DuckDB sums integers as HUGEINT; 1 + 2 + 3 and 1.5 are worked out by hand."""
    frame, _ = query(runs, "SELECT sum(i) AS s, 1.5 AS d FROM range(1, 4) t(i)")
    assert frame.write_ndjson() == '{"s":6,"d":1.5}\n'
    (huge,), _ = query(runs, f"SELECT {2**63}::HUGEINT AS h")
    assert str(huge.item()) == str(2**63)


def test_a_query_that_does_not_end_is_ended(runs: rl.Recordings) -> None:
    endless = "SELECT sum(a.range * b.range % 7) FROM range(10000000) a, range(10000000) b"
    with pytest.raises(RunFailedError, match="longer than"):
        query(runs, endless, seconds=0.2)
