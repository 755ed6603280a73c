"""Tables of reports: a column of cells is shown as one column per factor. All expected by hand."""

from __future__ import annotations

from roslens.analysis.estimate import Estimate, Metric
from roslens.analysis.reports.table import ReportTable
from roslens.analysis.reports.tables import definitions_table
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
    found = definitions_table([first, growth(5), growth(6)]).rows
    method = growth(5).method.split(";")[0]
    assert method != first.method
    assert found == [["growth", "growth until 5 s", method], ["", "growth until 6 s", method]]
    many = definitions_table([growth(second) for second in range(5)]).rows
    assert len(many) == 4
    assert many[-1] == ["", "2 more, of other cells: see metrics.json", ""]
