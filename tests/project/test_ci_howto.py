"""The steps of action.yml and the jobs of docs/howto/ci.md do what the page says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))

from test_compare import metrics

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "howto" / "ci.md"
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
JUDGE, COMMENT = ACTION["runs"]["steps"]


def blocks() -> list[Any]:
    parts = PAGE.read_text().split("```yaml\n")[1:]
    return [yaml.safe_load(part.partition("```")[0]) for part in parts]


def run(script: str, folder: Path, **variables: str) -> tuple[int, str]:
    """The exit code of a step, and the summary that it wrote."""
    (folder / "bin").mkdir(exist_ok=True)
    command = folder / "bin" / "roslens"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P -m roslens "$@"\n')
    command.chmod(0o755)
    summary = folder / "summary.md"
    environment = {
        **os.environ,
        **variables,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    done = subprocess.run(
        ["bash", "-e", "-c", script],
        check=False,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    return done.returncode, (summary.read_text() if summary.exists() else "") + done.stdout


@pytest.mark.parametrize(
    ("new", "code", "told"),
    [(1.0, 0, "1 no\\_difference"), (1.5, 1, "REGRESSION: cpu"), (None, 2, "")],
)
def test_the_action(tmp_path: Path, new: float | None, code: int, told: str) -> None:
    base = metrics(tmp_path / "base", 1.0)
    judged = tmp_path / "missing" if new is None else metrics(tmp_path / "new", new)
    ended, text = run(
        JUDGE["run"], tmp_path, BASE=str(base), NEW=str(judged), THRESHOLD="5%", BUDGETS=""
    )
    assert ended == code, text
    assert told in text


def test_budgets_and_too_little_evidence(tmp_path: Path) -> None:
    base = metrics(tmp_path / "base", 1.0)
    (tmp_path / "kept.yaml").write_text("budgets: ['cpu < 1.2 cores']")
    (tmp_path / "broken.yaml").write_text("budgets: ['cpu < 0.8 cores']")
    given = {"BASE": str(base), "NEW": str(base), "THRESHOLD": "5%"}
    assert run(JUDGE["run"], tmp_path, **given, BUDGETS="kept.yaml")[0] == 0
    ended, text = run(JUDGE["run"], tmp_path, **given, BUDGETS="broken.yaml")
    assert (ended, "EXCEEDED: cpu" in text) == (1, True)
    # A change that is too small to be told from none: a warning, and no failure.
    close = metrics(tmp_path / "close", 1.0)
    (tmp_path / "near.yaml").write_text("budgets: ['cpu < 1.0 cores']")
    ended, text = run(JUDGE["run"], tmp_path, **{**given, "NEW": str(close)}, BUDGETS="near.yaml")
    assert (ended, "::warning::" in text) == (0, True)


def test_the_template_for_gitlab_passes_the_exit_code_on(tmp_path: Path) -> None:
    (_, template) = blocks()
    judge = template["latency"]["script"][-1]
    metrics(tmp_path / "reference", 1.0)
    metrics(tmp_path / "recordings", 1.5)
    ended, text = run(judge, tmp_path)
    assert (ended, "REGRESSION: cpu" in text) == (1, True)
    assert (
        (tmp_path / "compare.md")
        .read_text()
        .startswith("**compare: 1 comparison in 1 cell: 1 regression")
    )
    assert template["latency"]["allow_failure"] == {"exit_codes": [3]}


@pytest.mark.parametrize(
    ("found", "done"),
    [
        ("", "pr comment 7 --body-file comment.md"),
        ("5", "api --method PATCH repos/o/r/issues/comments/5 -F body=@comment.md"),
    ],
)
def test_one_comment_is_kept_up_to_date(tmp_path: Path, found: str, done: str) -> None:
    """`gh` is GitHub's own program, which this machine lacks; a stand-in answers and tells."""
    (tmp_path / "bin").mkdir()
    script = f'case "$*" in "api --paginate"*) echo "{found}" ;; *) echo "$@" ;; esac'
    (tmp_path / "bin" / "gh").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin" / "gh").chmod(0o755)
    (tmp_path / "compare.md").write_text("**compare**\n")
    ended, text = run(COMMENT["run"], tmp_path, PULL_REQUEST="7", GH_REPO="o/r")
    assert (ended, text.strip()) == (0, done)
    assert (tmp_path / "comment.md").read_text() == "<!-- roslens compare -->\n**compare**\n"
    assert "github.event_name == 'pull_request'" in COMMENT["if"]
