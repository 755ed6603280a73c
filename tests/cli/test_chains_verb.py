"""Test ``roslens chains`` as a user types it, and budgets for chains."""

import json
from pathlib import Path

import pytest
from command_line import Roslens
from tests.samples import MAIN, REQUIRED, SAMPLES

pytestmark = pytest.mark.recording

SAMPLE = SAMPLES / "chain.tar.zst"


def test_what_is_required_is_judged(roslens: Roslens, tmp_path: Path) -> None:
    file = tmp_path / "required.yaml"
    file.write_text(REQUIRED)
    out = tmp_path / "out.json"
    ended = roslens("chains", SAMPLE, "--requirements", file, "--json", out)
    # Four instances took longer than 12 ms, according to the log as well.
    assert ended.returncode == 1
    assert "1 exceeded (main: response_time_max < 12 ms)" in ended.stdout
    answer = json.loads(out.read_text())
    verdicts = {c["budget"].partition(" ")[0]: c["verdict"] for c in answer["checks"]}
    assert verdicts == {
        "response_time_p50": "not_enough_evidence",
        "response_time_max": "exceeded",
        "chain_rate": "not_enough_evidence",
        "chain_complete": "not_enough_evidence",
    }
    assert {e["metric"] for e in answer["estimates"]} >= {"response_time_p99", "chain_rate"}


@pytest.mark.parametrize(("limit", "code"), [("12 ms", 1), ("1 s", 0)])
def test_check_and_chains_judge_a_maximum_alike(
    roslens: Roslens, tmp_path: Path, limit: str, code: int
) -> None:
    """In the log, four instances took longer than 12 ms, and none took longer than a second."""
    asked, budgets = tmp_path / "asked.yaml", tmp_path / "budgets.yaml"
    asked.write_text(f"chains: [{{path: {MAIN}, response_time: {{max: {limit}}}}}]")
    budgets.write_text(
        f"budgets: [{{budget: response_time_max < {limit}, where: {{chain: {MAIN}}}}}]"
    )
    chains = roslens("chains", SAMPLE, "--requirements", asked)
    check = roslens("check", budgets, SAMPLE)
    assert (chains.returncode, check.returncode) == (code, code), chains.stdout + check.stdout


def test_a_chain_that_is_not_there(roslens: Roslens) -> None:
    ended = roslens("chains", SAMPLE.parent / "lifecycle", "--chain", "/a -> /b -> /c")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "no message on /b from /a to /c" in ended.stderr


def test_budgets_may_be_about_chains_callbacks_periods_and_timers(
    roslens: Roslens, tmp_path: Path
) -> None:
    metrics = ("response_time_p99", "callback_duration_p99", "period_p90", "timer_jitter_p90")
    file = tmp_path / "budgets.yaml"
    file.write_text(f"budgets: {[f'{metric} < 1 s' for metric in (*metrics, 'latency_p95')]}")
    out = tmp_path / "out.json"
    ended = roslens("check", file, SAMPLE, "--json", out)
    # A single run gives no interval.
    assert ended.returncode == 3
    checks = json.loads(out.read_text())["checks"]
    assert {c["estimate"]["metric"] for c in checks} == {*metrics, "latency_p95"}
    assert all(0 < c["estimate"]["value"] < 1e9 for c in checks)
