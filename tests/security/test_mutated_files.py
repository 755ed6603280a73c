"""Files that people and other tools write, changed at random: an answer or one line, never more."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from tests.samples import RUN
from tests.security.foreign_targets import read_back, without_digests

from roslens.analysis.chains.requirements import read_requirements
from roslens.analysis.estimate import Estimate
from roslens.analysis.metrics import Metrics, read_metrics, write_metrics
from roslens.analysis.verdicts.budgets import check_budgets, read_budgets
from roslens.analysis.verdicts.comparison import compare_sides
from roslens.compare import load_side
from roslens.recording import RoslensError, UsageError
from roslens.recording.manifest import read_manifest
from roslens.tracing.suite import load_suite, suite_path

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(120)

ODD: list[Any] = [
    None, True, -1, 0, 1e308, float("nan"), float("inf"), 10**400, "", "x", "\ud800", "1e999",
    [], {}, [[]], {"a": {"b": []}}, "2024-99-99", "\x1b[2J", 1 << 63,
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(one, (*path, key))
    return found


def changed(value: Any, chance: random.Random) -> Any:
    """One or two places with another value, none, or none of that name."""
    new = deepcopy(value)
    for _ in range(chance.choice((1, 1, 2))):
        path = chance.choice(places(new))
        at = new
        for step in path[:-1]:
            at = at[step]
        if chance.random() < 0.2:
            del at[path[-1]]
        else:
            at[path[-1]] = chance.choice(ODD)
        if not places(new):
            break
    return new


def answer(read: Callable[[Path], object], path: Path) -> str:
    """What a refusal says; nothing where it is read."""
    try:
        read(path)
    except RoslensError as error:
        return str(error)
    return ""


def estimate(metric: str, low: float, **more: Any) -> Estimate:
    given: dict[str, Any] = {
        "metric": metric, "definition": "x", "better": "lower", "cell": {"size": 1},
        "value": low + 1, "low": low, "high": low + 2, "level": 0.95, "unit": "ns", "runs": 5,
        "samples": 500, "effective_samples": 100.0, "method": "t",
    }  # fmt: skip
    return Estimate(**given | more)


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    """A file as a report writes it."""
    run = {
        "run": "a", "suite": "s", "campaign": "c", "cell": {"size": 1}, "status": "complete",
        "counts": True, "discarded_events": 0, "lost_packets": 0, "truncated": 0,
        "git_commit": None,
    }  # fmt: skip
    found = [estimate("latency_p99", 100.0), estimate("loss", 0.0, unit="1", high=None)]
    return write_metrics(Metrics([run], {"python": "3"}, found), tmp_path)


def test_metrics(metrics: Path, tmp_path: Path) -> None:
    whole = json.loads(metrics.read_text())
    assert read_metrics(metrics).estimates[0].low == 100.0
    chance = random.Random(1)
    base = load_side(metrics, ["latency_p99"])
    budgets = read_budgets(budget(tmp_path, "latency_p99 < 1 ms"))

    def judged(path: Path) -> None:
        side = load_side(path, ["latency_p99"])
        compare_sides(base, side, ["latency_p99"], 0.05)
        check_budgets(budgets, side)

    path = tmp_path / "changed.json"
    refused = 0
    for _ in range(600):
        path.write_text(json.dumps(changed(whole, chance)))
        said = answer(judged, path)
        refused += bool(said)
        assert "\n" not in said
    assert refused > 200
    path.write_text("[" * 100_000)
    with pytest.raises(UsageError, match="not JSON"):
        read_metrics(path)


def budget(folder: Path, text: str) -> Path:
    path = folder / "budgets.yaml"
    path.write_text(f"budgets: ['{text}']")
    return path


@pytest.mark.parametrize(
    "text",
    [
        "budgets: [2024-99-99]",
        "budgets: ['latency_p99 < 1e308 s']",
        "budgets: ['latency_p99 < " + "9" * 5000 + " s']",
        "budgets: [" + "9" * 5000 + "]",
        "budgets: " + "[" * 5000,
        "budgets: " + "{a: " * 5000,
        "budgets: ['latency_p99 < 1 ms']\nbudgets: ['loss < 1 %']",
        "budgets: [{budget: 'latency_p99 < 1 ms', budget: 'loss < 1 %'}]",
        "!!python/object/apply:os.system ['true']",
        "a: &a [x]\nbudgets: *b",
        "\x00",
        "? [a]\n: b",
        "{[a]: b}",
    ],
    ids=range(13),
)
def test_budgets(tmp_path: Path, text: str) -> None:
    path = tmp_path / "budgets.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_budgets(path)
    assert "\n" not in str(caught.value)


def test_manifest_fields(tmp_path: Path) -> None:
    whole, chance = json.loads((RUN / "manifest.json").read_text()), random.Random(3)
    path = tmp_path / "manifest.json"
    for _ in range(600):
        path.write_text(json.dumps(changed(whole, chance)))
        assert "\n" not in answer(read_manifest, path)


@pytest.mark.parametrize(
    ("before", "read"),
    [
        ((RUN / "manifest.json").read_text().rstrip().removesuffix("}") + ",", read_manifest),
        (suite_path("demo").read_text() + "\n", load_suite),
        ("chains: [{path: /a -> /b, ", read_requirements),
    ],
    ids=["manifest", "suite", "requirements"],
)
def test_a_name_of_two_lines_is_one(
    tmp_path: Path, before: str, read: Callable[[Path], object]
) -> None:
    path = tmp_path / "file.json"
    ends = "}" if before.startswith("{") else "}]" if before.startswith("chains") else ""
    path.write_text(f'{before}"a\\nb\\u202e": 1{ends}')
    with pytest.raises(UsageError) as caught:
        read(path)
    assert "a\\x0ab\\u202e" in str(caught.value)
    assert not re.search(r"[\n\u202e]", str(caught.value))


@pytest.mark.parametrize("error", ["ValueError('nobody\\nforesaw')", "RecursionError()", "Panic()"])
def test_what_nobody_foresaw_is_one_line_and_70(tmp_path: Path, error: str) -> None:
    """An error in the middle of a verb, one of native code among them."""
    code = (
        "import roslens.info, roslens.cli\n"
        "class Panic(BaseException): pass\n"
        f"def fail(path, as_json): raise {error}\n"
        "roslens.info.run_info = fail\n"
        "roslens.cli.main(['info', 'x'])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False,
        env={"PYTHONPATH": ":".join(sys.path), "TMPDIR": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 70
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("roslens: error: unexpected ")
    (kept,) = tmp_path.glob("*.traceback")
    assert done.stderr.rstrip().endswith(str(kept))
    assert "in fail" in kept.read_text()
    assert kept.stat().st_mode & 0o777 == 0o600


def test_a_table_whose_column_has_another_type_is_refused(tmp_path: Path) -> None:
    run = without_digests(tmp_path)
    path = run / "tables" / "subscriptions.parquet"
    table = pl.read_parquet(path)
    table.with_columns(pl.col("subscription_handle").cast(pl.Int64, strict=False)).write_parquet(
        path
    )
    with pytest.raises(UsageError, match=r"subscriptions\.parquet: damaged"):
        read_back(run)
