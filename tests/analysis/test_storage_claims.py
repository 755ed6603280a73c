"""Test the published storage study: 96 intervals recomputed exactly, and its claims answered."""

import csv
from decimal import Decimal, getcontext
from fractions import Fraction
from pathlib import Path

import polars as pl
import pytest

from roslens.studies.storage.published import cells
from roslens.studies.storage.results.comparison import read_digests
from roslens.studies.storage.statements import comparisons

PUBLISHED = Path(__file__).parents[2] / "studies" / "storage" / "data"

getcontext().prec = 40


def t_975_4() -> Decimal:
    """Solve F(t) = 0.975 with 4 degrees of freedom, whose distribution has a closed form."""

    def chance(t: Decimal) -> Decimal:
        u = 1 + t * t / 4
        return Decimal("0.5") + Decimal(3) / 8 * t / u.sqrt() * (1 - t * t / (12 * u))

    low, high = Decimal(2), Decimal(3)
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) < Decimal("0.975") else (low, middle)
    return low


def recomputed() -> dict[tuple[str, ...], tuple[Decimal, Decimal, Decimal]]:
    """Return mean, sd x 3.92 and t sd / sqrt(5) in exact fractions from the files' text."""
    throughputs: dict[tuple[str, ...], list[Fraction]] = {}
    for machine in ("m1", "nuc"):
        with (PUBLISHED / f"storage_plugins_{machine}.csv").open(newline="") as stream:
            for row in csv.DictReader(stream):
                key = (machine, row["messages"], row["batch_size"], row["plugin_config"])
                throughputs.setdefault(key, []).append(Fraction(row["avg_byte_throughput"]))
    result = {}
    for key, values in throughputs.items():
        assert len(values) == 5
        mean = sum(values) / 5
        variance = sum((v - mean) ** 2 for v in values) / 4
        sd = (Decimal(variance.numerator) / Decimal(variance.denominator)).sqrt()
        exact = Decimal(mean.numerator) / Decimal(mean.denominator)
        result[key] = (exact, Decimal("3.92") * sd, t_975_4() * sd / Decimal(5).sqrt())
    return result


def test_the_quantile_of_this_test_is_the_tabulated_one() -> None:
    assert float(t_975_4()) == pytest.approx(2.776445105, abs=1e-9)


def test_all_96_cells_to_nine_digits() -> None:
    expected = recomputed()
    frame = cells(read_digests(PUBLISHED))
    assert frame.height == len(expected) == 96
    for row in frame.iter_rows(named=True):
        key = tuple(row[n] for n in ("machine", "messages", "batch_size", "plugin_config"))
        values = (row["mean"], row["half_width_published"], row["half_width_t"])
        assert row["n"] == 5
        for value, exact in zip(values, expected[key], strict=True):
            assert abs(Decimal(value) / exact - 1) < Decimal("1e-11"), key
        # 3.92 sqrt(5) / 2.776: by this factor the published interval is too wide.
        assert row["half_width_published"] / row["half_width_t"] == pytest.approx(3.157, abs=5e-4)


def cell(frame: pl.DataFrame, machine: str, messages: str, batch_size: str) -> dict[str, float]:
    chosen = frame.filter(machine=machine, messages=messages, batch_size=batch_size)
    return chosen.row(0, named=True)


def on_par(digests: pl.DataFrame) -> pl.DataFrame:
    return comparisons(digests, 0.05).filter(statement="on_par")


def test_mcap_is_on_par_or_better_but_in_one_cell() -> None:
    """Means and half widths are as in the literature on this study; p is scipy's, beforehand."""
    judged = on_par(read_digests(PUBLISHED))
    assert judged.height == 16
    (refuted,) = judged.filter(pl.col("answer") == "false").iter_rows(named=True)
    assert (refuted["machine"], refuted["messages"], refuted["batch_size"]) == (
        *("nuc", "100B", "10MiB"),
    )
    assert refuted["mean_new"] == pytest.approx(39.3e6, abs=0.05e6)
    assert refuted["mean_base"] == pytest.approx(44.1e6, abs=0.05e6)
    assert refuted["p_holm"] < 1e-6
    assert judged["answer"].value_counts().sort("answer").rows() == [
        ("false", 1),
        ("holds", 15),
    ]


def test_the_cell_on_which_methods_disagree() -> None:
    judged = on_par(read_digests(PUBLISHED))
    mixed = cell(judged, "nuc", "mixed", "10MiB")
    assert mixed["p_welch"] == pytest.approx(0.107, abs=5e-4)
    assert mixed["p_paired"] == pytest.approx(0.047, abs=5e-4)
    # The study's mcap / sqlite is .987 to .9998; here it is the inverse.
    assert 1 / mixed["paired_high"] == pytest.approx(0.987, abs=5e-4)
    assert 1 / mixed["paired_low"] == pytest.approx(0.9998, abs=1e-4)
    assert max(mixed["p_equivalent"], mixed["p_equivalent_paired"]) < 1e-4
    assert mixed["answer"] == "holds"
    assert mixed["disagree"]
    assert judged["disagree"].sum() == 2
    # m1 100B/10MiB: 4 % better beyond doubt, and equivalent within 5 %.
    sure = cell(judged, "m1", "100B", "10MiB")
    assert sure["disagree"]
    assert sure["p_welch"] < 0.001
    assert sure["p_equivalent"] < 0.05


def test_the_order_of_rows_does_not_matter() -> None:
    frame = read_digests(PUBLISHED)
    keys = ["machine", "messages", "batch_size"]
    judged = on_par(frame).sort(keys)
    shuffled = on_par(frame.sample(fraction=1, shuffle=True, seed=1)).sort(keys)
    assert judged["answer"].equals(shuffled["answer"])
    assert judged["p_paired"].to_list() == pytest.approx(shuffled["p_paired"].to_list(), rel=1e-9)


def test_few_runs_have_no_interval() -> None:
    frame = read_digests(PUBLISHED)
    two = cells(frame.filter(pl.col("run") < 2))
    assert two["half_width_t"].null_count() == 96
    assert two["half_width_published"].null_count() == 0
    single_run = cells(frame.filter(pl.col("run") < 1))
    assert single_run["sd"].null_count() == 96
