"""Test tables and numbers of reports by hand: a column of cells is one column per factor."""

import math

import polars as pl
import pytest

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.measures.callbacks import readable
from roslens.analysis.reports.numbers import counted, unit_of_all
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.reports.tables import (
    definitions_table,
    durations_table,
    estimates_table,
)
from roslens.analysis.statistics.over_runs import refused_estimate, value_over_runs


def lines(*cells: str) -> list[str]:
    rows = [[cell, str(number)] for number, cell in enumerate(cells)]
    return str(ReportTable(["cell", "n"], rows, "caption", left=frozenset({"cell"}))).splitlines()


def test_each_factor_has_its_column_and_what_all_share_is_said_once() -> None:
    shown = lines("payload=100, executor=Events", "", "payload=100, executor=Single=1")
    assert shown == [
        "caption",
        "executor  n",
        "Events    0",
        "          1",
        "Single=1  2",
        "In all cells: payload=100.",
    ]


def test_cells_of_other_factors_lack_a_level() -> None:
    assert lines("a=1", "a=2, b=x")[1:] == ["a  b  n", "1     0", "2  x  1"]


def test_one_cell_keeps_its_factors() -> None:
    assert lines("a=1, b=2")[1:] == ["a  b  n", "1  2  0"]


def test_what_is_no_label_stays() -> None:
    for label in ("(no factors)", "a=1, b", "n=1"):
        assert lines(label)[1].split() == ["cell", "n"]
    assert str(ReportTable(["n"], [["1"]], "caption")) == "caption\nn\n1"
    assert "<th" in ReportTable(["cell"], [], "caption")._repr_html_()


def growth(seconds: int, runs: int = 3) -> Estimate:
    metric = Metric("growth", f"growth until {seconds} s", "byte")
    return value_over_runs(metric, {"s": seconds}, [1.0, 2.0, 3.0][:runs], runs)


def test_definitions_are_those_of_all_cells_and_methods_those_of_intervals() -> None:
    first = refused_estimate(Metric("growth", "growth until 5 s", "byte"), {"s": 1}, "none", 0.95)
    rows = definitions_table([first, growth(5), growth(6)]).rows
    method = growth(5).method.split(";")[0]
    assert method != first.method
    assert rows == [["growth", "growth until 5 s", method], ["", "growth until 6 s", method]]
    many = definitions_table([growth(second) for second in range(5)]).rows
    assert len(many) == 4
    assert many[-1] == ["", "2 more, of other cells: see metrics.json", ""]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("66666666 ns", "66.67 ms (15 Hz)"),
        ("33333 us", "33.33 ms (30 Hz)"),
        ("5 ms", "5 ms"),
        ("/scan", "/scan"),
        ("00000 ns", "00000 ns"),
        (None, None),
    ],
)
def test_periods_of_timers(name: str | None, expected: str | None) -> None:
    frame = pl.DataFrame({"name": [name]}, {"name": pl.String})
    assert frame.select(readable(pl.col("name"))).item() == expected


@pytest.mark.parametrize(
    ("values", "unit", "expected"),
    [
        ([2094.0, 1500, 900], "ns", (1e-3, "us")),
        ([2.094e6, 1.5e6], "ns", (1e-6, "ms")),
        ([12.0, 0.0, None, math.inf], "ns", (1.0, "ns")),
        ([5e9] * 3, "ns", (1e-9, "s")),
        ([2048.0], "byte", (1e-3, "kB")),
        ([3e6], "B/s", (1e-6, "MB/s")),
        ([3e6], "byte/message", (1e-6, "MB/message")),
        ([0.5], "1", (100.0, "%")),
        ([], "ns", (1e-6, "ms")),
    ],
)
def test_one_unit_for_a_column(
    values: list[float | None], unit: str, expected: tuple[float, str]
) -> None:
    assert unit_of_all(values, unit) == expected


def test_tables_choose_units_by_column() -> None:
    estimate = value_over_runs(
        Metric("callback_duration_mean", "a to b", "ns"), {}, [2094.0, 2094.0, 2094.0], 3
    )
    (row,) = estimates_table([estimate], "x").rows
    assert row[2] == "2.094"
    assert row[4] == "us"
    columns = {f"{name}_ns": [2094.0] for name in ("mean", "p50", "p90", "p99")}
    frame = pl.DataFrame(
        {"cell": ["c"], "kind": ["timer"], "name": ["5 ms"], "node": ["/a"], "count": [5],
         "unfinished": [0], **columns, "max_ns": [3_000_000], "busy": [0.1]}
    )  # fmt: skip
    table = durations_table(frame)
    assert table.columns[6:11] == ["mean [us]", "P50 [us]", "P90 [us]", "P99 [us]", "max [ms]"]
    assert table.rows[0][6:11] == ["2.09", "2.09", "2.09", "2.09", "3.00"]


def test_statistics_of_one_quantity_have_one_unit() -> None:
    """The middle of the six latencies, in ascending order the fourth, is 2 ms: all are in ms."""
    values = {
        "latency_p50": (207_500_000.0, 300_000.0, 400_000.0),
        "latency_sent_p90": (212_000_000.0, 2_000_000.0, 3_000_000.0),
        "callback_duration_p99.9": (700.0, 800.0, 900.0),
    }
    estimates = [
        value_over_runs(Metric(name, "a to b", "ns"), {"c": number}, [ns, ns, ns], 3)
        for name, cells in values.items()
        for number, ns in enumerate(cells)
    ]
    assert [row[4] for row in estimates_table(estimates, "x").rows] == ["ms"] * 6 + ["ns"] * 3


def test_plurals() -> None:
    assert [counted(n, "cell") for n in (0, 1, 2, 1000)] == [
        "0 cells", "1 cell", "2 cells", "1,000 cells",
    ]  # fmt: skip
