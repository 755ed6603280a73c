"""Test the parts of a release that need no network: notes, workflows, citations."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_noxfile import called

from roslens.cli.app import app

ROOT = Path(__file__).parents[2]
CARGO = tomllib.loads((ROOT / "Cargo.toml").read_text())
VERSION = CARGO["workspace"]["package"]["version"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CITED = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
SESSION = re.compile(r"noxfile\.py -s (\$\{\{ matrix\.session \}\}|\w+)")


def test_the_version_is_in_one_place(capsys: pytest.CaptureFixture[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert project["dynamic"] == ["version"]
    for member in CARGO["workspace"]["members"]:
        package = tomllib.loads((ROOT / member / "Cargo.toml").read_text())["package"]
        assert package["version"] == {"workspace": True}, member
    app(["--version"], result_action="return_value")
    assert capsys.readouterr().out.strip() == VERSION


def test_notes_are_the_section_of_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    first = re.split(r"^## ", changelog, flags=re.MULTILINE)[1]
    notes = called("sys.stdout.write(noxfile.release_notes('9.9.9', tagged=False))")
    assert notes.stdout.strip() == f"## {first}".strip()
    refused = called("release_notes('9.9.9', tagged=True)")
    assert refused.returncode == 1
    assert refused.stderr.startswith("roslens: CHANGELOG.md has no section [9.9.9]")
    assert called("sys.stdout.write(noxfile.released_version())").stdout == VERSION


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_call_sessions_that_exist_and_may_little(workflow: Path) -> None:
    whole = yaml.safe_load(workflow.read_text())
    assert whole["permissions"] == {"contents": "read"}
    assert "secrets." not in workflow.read_text()
    noxfile = (ROOT / "noxfile.py").read_text()
    sessions = set()
    for job in whole["jobs"].values():
        for run in (step.get("run", "") for step in job["steps"]):
            # Text that others choose is passed as a variable, never pasted into a script.
            assert "${{ github." not in run
            for name in SESSION.findall(run):
                sessions |= set(job["strategy"]["matrix"]["session"]) if "{" in name else {name}
    assert sessions
    for name in sessions:
        assert f"\n@nox.session\ndef {name}(session" in noxfile


def test_only_the_job_that_publishes_is_trusted() -> None:
    (release,) = (path for path in WORKFLOWS if path.stem == "release")
    jobs = yaml.safe_load(release.read_text())["jobs"]
    assert {name: job.get("permissions") for name, job in jobs.items()} == {
        "build": None,
        "publish": {"id-token": "write"},
        "announce": {"contents": "write"},
    }
    assert all("run" not in step for step in jobs["publish"]["steps"])


@pytest.mark.parametrize("cited", CITED, ids=lambda entry: entry["authors"][0]["family-names"])
def test_each_method_that_is_cited_is_used(cited: dict[str, Any]) -> None:
    """The code or the documentation names its first author and its year."""
    author = cited["authors"][0]["family-names"].replace("ñ", "[ñn]").replace("é", "[ée]")
    wanted = re.compile(rf"{author}\b.{{0,80}}\b{cited['year']}\b")
    code = (page for room in ("analysis", "studies") for page in (ROOT / room).rglob("*.py"))
    pages = [*code, *(ROOT / "docs").glob("*.md")]
    assert any(wanted.search(" ".join(page.read_text().split())) for page in pages)


def test_forms_of_issues_say_what_is_needed() -> None:
    for form in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"):
        content = yaml.safe_load(form.read_text())
        assert {"name", "description", "body"} <= content.keys()
        assert any(part.get("validations", {}).get("required") for part in content["body"])
