"""Test ``run.predict``: the verb's results as frames and pictures, and refusals."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.samples import RUN

import roslens as rl
from roslens.__main__ import main
from roslens.analysis.reports.table import ReportTable
from roslens.recording import UsageError

pytestmark = pytest.mark.recording


def test_it_says_what_the_verb_says(tmp_path: Path) -> None:
    prediction = rl.open(RUN).predict(rate=["/data=100Hz"], seed=3)
    file = tmp_path / "x.json"
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["predict", str(RUN), "--rate", "/data=100Hz", "--seed", "3", "--json", str(file)])
    (written,) = json.loads(file.read_text())
    names = ("metric", "topic", "node", "recorded", "simulated", "value", "low", "high", "refused")
    figures = [tuple(figure[name] for name in names) for figure in written["figures"]]
    assert prediction.frame().select(names).rows() == figures
    assert "Callback groups were not recorded" in repr(prediction)


def test_the_picture_has_the_recorded_median_and_the_bound(tmp_path: Path) -> None:
    run = rl.open(RUN)
    prediction = run.predict(warm_up=0)
    (axes,) = prediction.plot("/data").axes
    recorded, _, bound = axes.lines
    p50 = prediction.frame().row(by_predicate=(pl.col("metric") == "latency_p50")
                            & (pl.col("topic") == "/data"), named=True)["recorded"]  # fmt: skip
    levels = list(recorded.get_ydata())
    assert recorded.get_xdata()[levels.index(0.5)] == pytest.approx(p50 / 1e6)
    (table,) = prediction.bounds().parts
    assert isinstance(table, ReportTable)
    frame = run.callbacks.bounds(0)
    assert [row[2] for row in table.rows] == frame["name"].to_list()
    longest = [float(row[5]) for row in table.rows]
    assert longest == pytest.approx((frame["longest_ns"] / 1e6).to_list(), rel=1e-3)
    of_data = run.callbacks.bounds(0).row(by_predicate=pl.col("name") == "/data", named=True)
    assert list(bound.get_xdata()) == pytest.approx([of_data["bound_ns"] / 1e6] * 2)
    assert of_data["bound_ns"] >= of_data["longest_ns"] > 1e6 * max(recorded.get_xdata())


@pytest.mark.parametrize(
    ("asked", "drawn", "said"),
    [
        ({"executor": "Static"}, {}, "no executor 'Static'; there are SingleThreaded"),
        ({"cpus": 0}, {}, "cpus: 0 is below 1"),
        ({}, {"topic": "/no"}, "there is that of /data at /listener"),
        ({}, {"cell": "rmw=none"}, "no cell 'rmw=none'"),
    ],
)
def test_what_cannot_be_is_refused(asked: dict, drawn: dict, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        rl.open(RUN).predict(**asked).plot(**drawn)
