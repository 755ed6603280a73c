"""Test that the steps of action.yml and the jobs of docs/howto/ci.md do what the page says."""

from __future__ import annotations

import json
import os
import shutil
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
RECORD, FETCH, JUDGE, UPLOAD, COMMENT = ACTION["runs"]["steps"]
# The timer holds the only thread after publishing, so each message waits at least that long: much
# longer than a busy machine delays it. There are 23 messages: a median needs 10, and more if their
# latencies are correlated.
NODE = """
import time, rclpy
from rclpy.node import Node
from std_msgs.msg import String

def publish():
    publisher.publish(String(data="x"))
    time.sleep(HELD)

rclpy.init()
node = Node("relay")
publisher = node.create_publisher(String, "samples", 10)
node.create_subscription(String, "samples", lambda message: None, 10)
node.create_timer(0.17, publish)
end = time.monotonic() + 4
while time.monotonic() < end:
    rclpy.spin_once(node, timeout_sec=0.1)
"""
# Stands in for GitHub's own program, which this machine lacks, with one artefact, no comment.
GH = """#!/bin/sh
case "$*" in
*repos/o/r/actions/artifacts*) if [ -e STORE ]; then echo 41; fi ;;
"run download 41 --name roslens --dir roslens-base") cp -r STORE roslens-base ;;
"api --paginate"*) ;;
*) echo "$@" ;;
esac
"""


def blocks() -> list[Any]:
    parts = PAGE.read_text().split("```yaml\n")[1:]
    return [yaml.safe_load(part.partition("```")[0]) for part in parts]


def run(script: str, folder: Path, **variables: str) -> tuple[int, str]:
    """Run a step, and return its exit code and the summary that it wrote."""
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
        ["bash", "-eo", "pipefail", "-c", script],  # as GitHub does
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
    # A change too small to be distinguished from none gives a warning, and no failure.
    close = metrics(tmp_path / "close", 1.0)
    (tmp_path / "near.yaml").write_text("budgets: ['cpu < 1.0 cores']")
    ended, text = run(JUDGE["run"], tmp_path, **{**given, "NEW": str(close)}, BUDGETS="near.yaml")
    assert (ended, "::warning::" in text) == (0, True)


def on_github(folder: Path, store: Path, **inputs: str) -> tuple[int, str]:
    """Run all steps on a commit; a stand-in for GitHub's upload copies what it is told to."""
    for name in ("roslens-new", "roslens-base"):
        shutil.rmtree(folder / name, ignore_errors=True)
    given = {
        name.upper(): str(option.get("default", "")) for name, option in ACTION["inputs"].items()
    }
    given |= {"GH_REPO": "o/r", "PULL_REQUEST": "7", "BASE_REF": "main", **inputs}
    for step in (RECORD, FETCH):
        ended, text = run(step["run"], folder, **given)
        assert ended == 0, text
    judged = run(JUDGE["run"], folder, **given)
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir()
    for line in UPLOAD["with"]["path"].splitlines():
        path = folder / line.replace("${{ inputs.new }}", given["NEW"])
        if path.exists():
            (shutil.copytree if path.is_dir() else shutil.copy)(path, store / path.name)
    ended, text = run(COMMENT["run"], folder, **given, ARTIFACT_URL="https://o/r/41")
    assert ended == 0, text
    return judged


def with_store(folder: Path) -> tuple[Path, Path]:
    """Make a project, and the place where the stand-in for GitHub keeps artefacts."""
    project, store = folder / "project", folder / "store"
    (project / "bin").mkdir(parents=True)
    (project / "bin" / "gh").write_text(GH.replace("STORE", str(store)))
    (project / "bin" / "gh").chmod(0o755)
    return project, store


@pytest.mark.live
def test_a_slower_commit_fails_and_the_same_commit_does_not(tmp_path: Path) -> None:
    project, store = with_store(tmp_path)

    def committed(held: float) -> None:
        (project / "node.py").write_text(NODE.replace("HELD", str(held)))
        for words in (["init", "-q"], ["add", "node.py"], ["commit", "-qm", f"Hold for {held} s"]):
            subprocess.run(
                ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words],
                cwd=project,
                check=True,
            )

    given = {"COMMAND": "python3 node.py", "RUNS": "5", "TRACER": "native"}
    committed(0.03)
    ended, text = on_github(project, store, **given)
    assert ended == 0, text
    assert "no artefact of the base branch" in (project / "comment.md").read_text()
    assert len(list(store.rglob("manifest.json"))) == 5
    base = shutil.copytree(store, tmp_path / "base")
    # Two recordings of one commit differ by less than half, as the program's sleep holds them.
    ended, text = on_github(project, store, **given, THRESHOLD="50%")
    assert ended == 0, text
    shutil.rmtree(store)
    base.rename(store)
    committed(0.15)
    ended, text = on_github(project, store, **given, THRESHOLD="50%")
    assert ended == 1, text
    comment = (project / "comment.md").read_text()
    assert comment.startswith("<!-- roslens compare -->\n**compare: ")
    assert "REGRESSION: latency\\_p50" in comment
    assert ":crit, " in comment.partition("```mermaid\n")[2].partition("```")[0]
    assert comment.endswith("[Recordings and figures](https://o/r/41)\n")
    result = json.loads((store / "compare.json").read_text())
    (comparison,) = [c for c in result["comparisons"] if c["metric"] == "latency_p50"]
    assert all(ns >= 0.03e9 for ns in comparison["base"]["per_run"])
    assert all(ns >= 0.15e9 for ns in comparison["new"]["per_run"])


@pytest.mark.live
def test_a_suite_is_recorded(tmp_path: Path) -> None:
    project, store = with_store(tmp_path)
    (project / "node.py").write_text(NODE.replace("HELD", "0.01"))
    (project / "suite.yaml").write_text(
        "name: held\nworkload: {command: [python3, node.py], trace_rclpy: true}\nduration: 2\n"
        "factors: {}\nwork_topic: /samples\n"
    )
    ended, text = on_github(project, store, SUITE="./suite.yaml", RUNS="2", TRACER="native")
    assert ended == 0, text
    assert len(list(store.rglob("manifest.json"))) == 2


def test_only_an_artefact_of_the_base_branch_itself_is_taken(tmp_path: Path) -> None:
    """By jq, gh's language: no artefact that is too old, or of another branch or a fork."""
    jq = shutil.which("jq")
    if jq is None:
        pytest.skip("jq is not installed")
    ours = {"head_branch": "main", "repository_id": 1, "head_repository_id": 1}
    listed = [
        {"expired": expired, "workflow_run": {**ours, "id": number, **more}}
        for number, expired, more in (
            (46, False, {"head_repository_id": 2}),
            (45, True, {}),
            (44, False, {"head_branch": "change"}),
            (43, False, {}),
            (42, False, {}),
        )
    ]
    (tmp_path / "artefacts.json").write_text(json.dumps({"artifacts": listed}))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "gh").write_text(
        f'#!/bin/sh\nif [ "$1" = api ]; then {jq} -r "$5" artefacts.json; else echo "$@"; fi\n'
    )
    (tmp_path / "bin" / "gh").chmod(0o755)
    ended, text = run(FETCH["run"], tmp_path, GH_REPO="o/r", BASE_REF="main", ARTIFACT="roslens")
    assert (ended, text) == (0, "run download 43 --name roslens --dir roslens-base\n")


def test_the_template_for_gitlab_passes_the_exit_code_on(tmp_path: Path) -> None:
    (_, template) = blocks()
    judge = template["latency"]["script"][-1]
    metrics(tmp_path / "reference" / "recordings", 1.0)
    metrics(tmp_path / "recordings", 1.5)
    ended, text = run(judge, tmp_path)
    assert (ended, "REGRESSION: cpu" in text) == (1, True)
    assert (tmp_path / "compare.md").read_text().startswith("**compare: REGRESSION: cpu +50.0 ")
    assert template["latency"]["allow_failure"] == {"exit_codes": [3]}


@pytest.mark.parametrize(
    ("notes", "done"),
    [
        ([{"id": 3, "body": "other"}], "-X POST --data-urlencode body@comment.md A/notes"),
        (
            [{"id": 3, "body": "other"}, {"id": 5, "body": "<!-- roslens compare -->\nold"}],
            "-X PUT --data-urlencode body@comment.md A/notes/5",
        ),
    ],
)
@pytest.mark.skipif(not (shutil.which("jq") and shutil.which("unzip")), reason="needs jq and unzip")
def test_the_template_for_gitlab_has_the_targets_artefact_and_one_note(
    notes: list[dict[str, Any]], done: str, tmp_path: Path
) -> None:
    """`curl` is a stand-in, as there is no GitLab here."""
    (_, template) = blocks()
    metrics(tmp_path / "recordings", 1.0)
    shutil.make_archive(str(tmp_path / "stored"), "zip", tmp_path, "recordings")
    (tmp_path / "notes.json").write_text(json.dumps(notes))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "curl").write_text(
        '#!/bin/sh\ncase "$*" in\n*"-o base.zip A/jobs/artifacts/main/download?job=latency")'
        ' cp stored.zip base.zip ;;\n*"A/merge_requests/7/notes?per_page=100") cat notes.json ;;\n'
        '*) echo "$@" ;;\nesac\n'
    )
    (tmp_path / "bin" / "curl").chmod(0o755)
    given = {"API": "A", "TARGET": "main", "CI_JOB_TOKEN": "j", "ROSLENS_TOKEN": "r"}
    given["CI_MERGE_REQUEST_IID"] = "7"
    fetch, judge = template["latency"]["script"][-2:]
    assert run(fetch, tmp_path, **given)[0] == 0
    assert run(judge, tmp_path, **given)[0] == 0
    (note,) = template["latency"]["after_script"]
    ended, text = run(note, tmp_path, **given)
    wanted = done.replace("A/", "A/merge_requests/7/")
    assert (ended, text) == (0, f"-sf -H PRIVATE-TOKEN: r {wanted}\n")
    assert (tmp_path / "comment.md").read_text().startswith("<!-- roslens compare -->\n**compare")


@pytest.mark.parametrize(
    ("found", "done"),
    [
        ("", "pr comment 7 --body-file comment.md"),
        ("5", "api --method PATCH repos/o/r/issues/comments/5 -F body=@comment.md"),
    ],
)
def test_one_comment_is_kept_up_to_date(tmp_path: Path, found: str, done: str) -> None:
    """`gh` is GitHub's own program, which this machine lacks; a stand-in answers and reports."""
    (tmp_path / "bin").mkdir()
    script = f'case "$*" in "api --paginate"*) echo "{found}" ;; *) echo "$@" ;; esac'
    (tmp_path / "bin" / "gh").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "bin" / "gh").chmod(0o755)
    (tmp_path / "compare.md").write_text("**compare**\n")
    ended, text = run(COMMENT["run"], tmp_path, PULL_REQUEST="7", GH_REPO="o/r", ARTIFACT_URL="")
    assert (ended, text.strip()) == (0, done)
    assert (tmp_path / "comment.md").read_text() == "<!-- roslens compare -->\n**compare**\n"
    assert "github.event_name == 'pull_request'" in COMMENT["if"]
