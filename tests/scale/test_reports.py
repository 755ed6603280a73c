"""Test one report per recording: workers give the same, and a bad recording costs only itself."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import nbformat
import polars as pl
import pytest
from tests.programs import roslens
from tests.samples import SAMPLES, uncollected

from roslens.fleet.reports import groups
from roslens.recording import UsageError

ROOT = Path(__file__).resolve().parents[2]
DEMO = SAMPLES / "demo"
COUNT = """
import json
from pathlib import Path
import roslens as rl
messages = rl.open(recordings).messages.collect()
Path(output_dir, "count.json").write_text(json.dumps(messages.height))
"""
pytestmark = pytest.mark.recording


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a notebook that counts messages."""
    cells = [
        nbformat.v4.new_code_cell(
            'recordings = []\noutput_dir = "."', metadata={"tags": ["parameters"]}
        ),
        nbformat.v4.new_code_cell(COUNT),
    ]
    path = tmp_path_factory.mktemp("notebook") / "count.ipynb"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), path)
    return path


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Make two campaigns: two good runs and a damaged one; a good one."""
    for number, run in enumerate(sorted(DEMO.iterdir())[:4]):
        uncollected(run, tmp_path / "runs" / f"night{number // 3}" / run.name)
    bad = sorted((tmp_path / "runs" / "night0").iterdir())[1]
    next(bad.rglob("metadata")).write_bytes(b"")
    return tmp_path / "runs"


def report(notebook: Path, runs: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return roslens("report", notebook, runs.name, *options, cwd=runs.parent)


def test_of_each_recording(notebook: Path, runs: Path) -> None:
    """The tables of each run are the truth; a failed report leaves no old one."""
    counts = []
    good, bad = [], ""
    for run in sorted(runs.glob("*/*")):
        name = run.relative_to(runs).as_posix()
        if next(run.rglob("metadata")).stat().st_size:
            good.append(name)
        else:
            bad = name
    for workers in ("1", "2"):
        out = runs.parent / f"out{workers}"
        (out / bad).mkdir(parents=True)
        (out / bad / "count.html").write_text("an earlier report")
        done = report(notebook, runs, "--each", "recording", "--workers", workers, "-o", out.name)
        assert done.returncode == 2, done.stderr
        failed = [line for line in done.stdout.splitlines() if line.startswith("failed:")]
        assert len(failed) == 1
        assert f"failed: {bad}:" in failed[0]
        assert done.stderr.count("roslens: error:") == 1
        page = (out / "index.html").read_text()
        assert [page.count(f">{name}</td>") for name in good] == [1, 1, 1]
        assert page.count(f"<li>{bad}: ") == 1
        assert not (out / bad / "count.html").exists()
        counts.append([json.loads((out / name / "count.json").read_text()) for name in good])
    expected = [
        pl.read_parquet(runs / name / "tables" / "messages.parquet").height for name in good
    ]
    assert counts == [expected, expected]


def test_groups(runs: Path) -> None:
    recordings = groups([runs], "recording")
    assert len(recordings) == 4
    assert {len(members) for members in recordings.values()} == {1}
    campaigns = groups([runs], "campaign")
    assert {name: len(members) for name, members in campaigns.items()} == {"night0": 3, "night1": 1}
    run = next(runs.glob("night1/*"))
    assert list(groups([run], "recording")) == [run.name]
    shutil.copytree(run, runs.parent / "other" / run.name)
    with pytest.raises(UsageError, match=f"two recordings are named '{run.name}'"):
        groups([run, runs.parent / "other" / run.name], "recording")


def test_wrong_use(notebook: Path, runs: Path) -> None:
    done = report(notebook, runs, "--workers", "2")
    assert done.returncode == 2
    assert "go with --each" in done.stderr
    done = report(notebook, runs, "--each", "recording", "-p", "topics=/x")
    assert done.returncode == 2
    assert "has no parameter 'topics'" in done.stderr
