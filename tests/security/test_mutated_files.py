"""Test files that people and other tools write, some of them odd: an answer or one line."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from tests.samples import RUN
from tests.security.foreign_targets import read_back, without_digests

from roslens.analysis.chains.requirements import read_requirements
from roslens.analysis.metrics import read_metrics
from roslens.recording import UsageError
from roslens.recording.manifest import read_manifest
from roslens.tracing.suite import load_suite, suite_path

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize(
    ("read", "name", "most", "hint"),
    [
        (read_manifest, "manifest", 32, "restore the file or remove it"),
        (read_metrics, "metrics", 256, "make the report again"),
    ],
)
def test_files_beyond_all_sizes_are_refused(
    tmp_path: Path, read: Callable[[Path], object], name: str, most: int, hint: str
) -> None:
    """The limits are those that docs/security.md states; the file has holes and no content."""
    path = tmp_path / f"{name}.json"
    with path.open("wb") as stream:
        stream.truncate((most << 20) + 1)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: more than {most} MiB of JSON; refused"
    path.write_text("{")
    with pytest.raises(UsageError, match=f"not JSON: .*; {hint}$"):
        read(path)


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
    """The error is raised in the middle of a verb, in one case as native code does."""
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
