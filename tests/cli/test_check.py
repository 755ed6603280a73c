"""Test ``roslens check`` as a user types it."""

import json
from pathlib import Path

import pytest
from command_line import Roslens
from test_compare import metrics
from test_errors import check_one_line
from tests.samples import SAMPLES


def test_exit_codes(roslens: Roslens, tmp_path: Path) -> None:
    report = metrics(tmp_path / "report", 1.0)
    budgets = tmp_path / "budgets.yaml"
    for limit, code, verdict in (("1.2", 0, "within"), ("0.8", 1, "EXCEEDED: cpu < 0.8 cores")):
        budgets.write_text(f"budgets: ['cpu < {limit} cores']")
        run = roslens("check", budgets, report, "--json", "out.json")
        assert run.returncode == code, run.stderr
        assert verdict in run.stdout
        assert json.loads((tmp_path / "out.json").read_text())["exit_code"] == code
    budgets.write_text("budgets: ['cpus < 1']")
    check_one_line(roslens("check", budgets, report), 2, "no metric 'cpus'; did you mean cpu?")
    budgets.write_text("budgets: ['memory_slope < 1 kB/s']")
    assert roslens("check", budgets, report).returncode == 3


def test_wrong_use(roslens: Roslens, tmp_path: Path) -> None:
    report = metrics(tmp_path / "report", 1.0)
    budgets = tmp_path / "budgets.yaml"
    budgets.write_text("budgets: ['cpu < 1 ms']")
    check_one_line(roslens("check", budgets, report), 2, "cpu cannot be measured in ms")
    check_one_line(roslens("check", budgets), 2, "no recording given")
    check_one_line(roslens("check", budgets, report, report), 2, "stands alone")


@pytest.mark.recording
def test_a_topic_that_is_nowhere_is_wrong_use(roslens: Roslens, tmp_path: Path) -> None:
    budgets = tmp_path / "budgets.yaml"
    for topic, told in (("/topic", "no topic is named '/topic'; did you mean /topic_0?"),
                        ("/x", "no topic is named '/x'; there are ")):  # fmt: skip
        budgets.write_text(f"budgets: [{{budget: latency_p50 < 20 ms, topic: {topic}}}]")
        check_one_line(roslens("check", budgets, SAMPLES / "communication"), 2, told)
