"""Test ``roslens estimates`` against numpy and against the verbs that judge by its numbers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from command_line import Roslens
from tests.samples import SAMPLES, uncollected

import roslens as rl

pytestmark = pytest.mark.recording


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("estimates") / "demo"
    return uncollected(SAMPLES / "demo", folder)


def estimates(roslens: Roslens, *words: str | Path) -> list[dict[str, Any]]:
    done = roslens("estimates", *words, "--json")
    assert done.returncode == 0, done.stderr
    rows: list[dict[str, Any]] = json.loads(done.stdout)["estimates"]
    return rows


def test_the_median_is_that_of_numpy(roslens: Roslens, demo: Path) -> None:
    """numpy computes one median per run, with the same type of quantile, and their mean."""
    rows = estimates(roslens, demo, "--metric", "latency_p50", "--topic", "/samples")
    delivered = rl.open(demo).messages.filter(
        (pl.col("topic") == "/samples") & (pl.col("outcome") == "delivered")
    )
    of_runs = delivered.select("run", "executor", "latency_ns").drop_nulls().collect()
    assert {row["cell"]["executor"] for row in rows} == {"Events", "SingleThreaded"}
    for row in rows:
        mine = of_runs.filter(pl.col("executor") == row["cell"]["executor"])
        medians = [
            np.quantile(group["latency_ns"].to_numpy(), 0.5, method="median_unbiased")
            for _, group in mine.group_by("run")
        ]
        assert row["value"] == pytest.approx(np.mean(medians), rel=1e-9)
        assert row["low"] < row["value"] < row["high"]
        assert (row["runs"], row["samples"]) == (3, mine.height)
        assert row["unit"] == "ns"


def test_they_are_what_budgets_are_held_against(
    roslens: Roslens, demo: Path, tmp_path: Path
) -> None:
    (tmp_path / "budgets.yaml").write_text("budgets: [latency_p90 < 1 s, cpu < 1]\n")
    checked = roslens("check", tmp_path / "budgets.yaml", demo, "--json", tmp_path / "checks.json")
    assert checked.returncode in (0, 3), checked.stderr
    checks = json.loads((tmp_path / "checks.json").read_text())["checks"]
    rows = estimates(roslens, demo, "--metric", "latency_p90", "--metric", "cpu")
    assert {row["metric"] for row in rows} == {"latency_p90", "cpu"}
    assert len(checks) == 4
    for check in checks:
        assert [row for row in rows if row["value"] == pytest.approx(check["estimate"]["value"])]


def test_a_number_without_an_interval_says_why(roslens: Roslens, demo: Path) -> None:
    rows = estimates(roslens, demo / "000_r0_executor-Events")
    assert all(row["low"] is None and row["refused"] for row in rows)
    (median,) = (
        row for row in rows if row["metric"] == "latency_p50" and "topic" not in row["cell"]
    )
    assert "at least 3 are needed" in median["refused"]
    text = roslens("estimates", demo / "000_r0_executor-Events").stdout
    assert "refused (1)" in text
    assert "(1) refused: " in text


def test_the_text_leaves_out_what_repeats(roslens: Roslens, demo: Path) -> None:
    """By the workload's log, no message is lost with Events, and some with SingleThreaded."""
    rows = estimates(roslens, demo, "--metric", "latency_sent_p50")
    assert {"Events", "SingleThreaded"} == {row["cell"]["executor"] for row in rows}
    text = roslens("estimates", demo).stdout
    lines = [line for line in text.splitlines() if "latency_sent_p50" in line]
    (median,) = (row for row in rows if [*row["cell"].values()] == ["SingleThreaded"])
    assert f" {median['value'] / 1e3:,.0f} " in lines[0]
    # The others are of topics that were taken without a callback, so that no latency is known.
    assert all(" refused (" in line for line in lines[1:])
    assert "latency_sent_* is left out where it is the same as latency_*." in text.splitlines()
    # What a user asks for is shown.
    asked = roslens("estimates", demo, "--metric", "latency_sent_p50").stdout
    assert asked.count("latency_sent_p50") == len(rows)


def test_topics_that_every_node_has_are_left_out(roslens: Roslens, tmp_path: Path) -> None:
    """Each node of this sample publishes its parameters' changes, in all cells."""
    sample = uncollected(SAMPLES / "communication", tmp_path / "sample")
    rows = estimates(roslens, sample)
    assert "/parameter_events" in {row["cell"].get("topic") for row in rows}
    lines = roslens("estimates", sample).stdout.splitlines()
    named = [line for line in lines if "/parameter_events" in line]
    assert named == ["Left out, as every node has it: /parameter_events."]
    # Levels that all cells share are in one note instead of in every row.
    (shared,) = (line for line in lines if line.startswith("In all cells: "))
    for level in shared.removeprefix("In all cells: ").removesuffix(".").split(", "):
        assert "\n".join(lines).count(level) == 1
        name, _, value = level.partition("=")
        assert {str(row["cell"][name]) for row in rows} == {value}
    asked = roslens("estimates", sample, "--topic", "/parameter_events").stdout
    assert "latency_p50" in asked


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (
            ["DEMO", "--metric", "latency_p5o"],
            2,
            "there is no metric 'latency_p5o' in these recordings; did you mean latency_p50",
        ),
        (["DEMO", "--metric", "x"], 2, "; there are callback_duration_mean, cpu, latency_mean, "),
        (["DEMO", "--topic", "/sample"], 2, "/samples"),
        (
            [SAMPLES / "hung.tar.zst"],
            3,
            "estimated. The only run was left out: it did not complete.",
        ),
        ([], 2, "no recording given"),
    ],
)
def test_what_is_not_there_is_one_line(
    roslens: Roslens, demo: Path, words: list[str | Path], code: int, told: str
) -> None:
    done = roslens("estimates", *(demo if word == "DEMO" else word for word in words))
    assert done.returncode == code
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
