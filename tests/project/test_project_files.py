"""Test that the files around the code say what is true."""

import json
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest
import yaml
from tests.programs import roslens

from roslens.collectors.schema import SAMPLED, TABLES
from roslens.collectors.schema.markdown import tables_markdown

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NAME = re.compile(r"^[A-Za-z0-9._-]+")


def tracked() -> list[Path]:
    run = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if run.returncode:
        pytest.skip("not a git checkout")
    return [ROOT / name for name in run.stdout.split("\0") if name and (ROOT / name).is_file()]


def conda_environment() -> tuple[list[str], list[str]]:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["channels"] == ["conda-forge", "robostack-jazzy"]
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    return conda, pip


def test_environment_yml_names_all_eight_packages_or_says_where_they_come_from() -> None:
    conda, pip = conda_environment()
    names = {NAME.match(entry).group() for entry in conda}  # type: ignore[union-attr]
    assert {"jupyterlab", "papermill", "pandas", "seaborn", "scipy"} <= names
    assert {"ros-jazzy-tracetools", "ros-jazzy-tracetools-trace"} <= names
    assert {NAME.match(entry).group() for entry in pip} == {  # type: ignore[union-attr]
        "tracetools_analysis",
        "tracetools_read",
    }
    text = (ROOT / "environment.yml").read_text()
    assert "babeltrace2, python3-bt2" in text
    assert "lttng-tools, liblttng-ust-dev" in text


def test_environment_yml_has_every_dependency_of_the_project() -> None:
    conda, _ = conda_environment()
    specified = {}
    for entry in conda:
        name = NAME.match(entry).group()  # type: ignore[union-attr]
        specified[name] = entry[len(name) :].replace(" ", "")
    extras = PYPROJECT["project"]["optional-dependencies"]
    for requirement in (*PYPROJECT["project"]["dependencies"], *extras["report"], *extras["lab"]):
        name = NAME.match(requirement).group()  # type: ignore[union-attr]
        if name != "roslens":
            assert specified[name] == requirement[len(name) :].partition(";")[0], name


def test_environment_yml_resolves_by_the_same_names(tmp_path: Path) -> None:
    """Where conda's channels are out of reach, the package index has the same names."""
    conda, _ = conda_environment()
    not_on_the_index = {"python", "pip", "c-compiler", "rust"}
    wanted = [
        entry.replace(" ", "")
        for entry in conda
        if NAME.match(entry).group() not in not_on_the_index  # type: ignore[union-attr]
        and not entry.startswith("ros-jazzy-tracetools")
    ]
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("\n".join(wanted))
    run = subprocess.run(
        [sys.executable, "-m", "uv", "pip", "compile", "-q", str(requirements)],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode == 2:  # 1 means unresolvable, uv gives 2 for all other errors
        pytest.skip(f"the package index is out of reach: {run.stderr}")
    assert run.returncode == 0, run.stderr


def test_every_pin_satisfies_the_project() -> None:
    pins = {}
    for line in (ROOT / "requirements" / "constraints.txt").read_text().splitlines():
        name, _, rest = line.partition("==")
        pins[name.lower().replace("_", "-")] = rest
    groups = PYPROJECT["dependency-groups"].values()
    extras = PYPROJECT["project"]["optional-dependencies"].values()
    for requirement in chain(PYPROJECT["project"]["dependencies"], *groups, *extras):
        name = NAME.match(requirement).group()  # type: ignore[union-attr]
        assert name.replace(".", "-") in pins or name == "roslens", requirement


def test_no_file_names_a_package_index_or_a_machine() -> None:
    parts = (
        ("pypi", ".org"),
        ("pythonhosted", ".org"),
        ("static.crates", ".io"),
        ("index.crates", ".io"),
        ("deb.debian", ".org"),
        ("registry.npm", "js"),
        ("/ro", "ot/"),
    )
    forbidden = re.compile("|".join(re.escape("".join(p)) for p in parts).encode())
    for path in tracked():
        if path.name != "Cargo.lock":
            assert not forbidden.search(path.read_bytes()), path.relative_to(ROOT)


def test_samples_and_files_stay_small() -> None:
    files = tracked()
    assert max(path.stat().st_size for path in files) < 1_000_000
    samples = [p for p in files if p.is_relative_to(ROOT / "data" / "samples")]
    assert sum(path.stat().st_size for path in samples) < 10_000_000
    for run in {p.parent for p in samples if p.name == "manifest.json"}:
        size = sum(p.stat().st_size for p in samples if p.is_relative_to(run))
        assert size < 1_000_000, run.name


def test_tables_page_is_what_the_definitions_say() -> None:
    assert (ROOT / "docs" / "tables.md").read_text() == tables_markdown(), "run 'nox -s docs'"


def test_schema_verb_gives_every_table() -> None:
    run = roslens("dev", "schema", check=True)
    tables = json.loads(run.stdout)["tables"]
    assert [t["name"] for t in tables] == [
        *TABLES,
        "resources",
        "threads",
        "system",
        "allocation_sites",
        "cpu_samples",
        "waits",
    ]
    for table in tables:
        for column in table["columns"]:
            if column["name"].endswith("_ns"):
                assert column["unit"] == "ns"
            assert column["meaning"]


def test_every_instant_says_whether_its_operation_was_at_before_or_after_it() -> None:
    """All times in ns say so, except lengths and times that are not a program's operation."""
    lengths = re.compile(
        r"(duration|latency|period|interval|jitter|lateness|drift|timeout|callback|cpu(_\w+)?|wait|"
        r"preempted|blocked|scheduling_delay|run_delay|accept|execute|result|total|clock_bound|"
        r"clock_offset|data_age)_ns"
    )
    edges = {"hosts", "processes", "losses"}
    for table in (*TABLES.values(), *SAMPLED):
        for column in table.columns:
            of_edge = table.name in edges and column.name in {"begin_ns", "end_ns"}
            none = column.name == "time_ns" or of_edge or lengths.fullmatch(column.name)
            if column.unit == "ns" and not none:
                assert re.match("(at|before|after): .", column.operation), column.name
            else:
                assert not column.operation, column.name


def test_readme_commands_are_sessions_of_the_noxfile() -> None:
    readme = (ROOT / "README.md").read_text()
    noxfile = (ROOT / "noxfile.py").read_text()
    named = set(re.findall(r"noxfile\.py -s (\w+)", readme))
    assert {"trace", "tests"} <= named
    for session in named:
        assert f"\ndef {session}(session" in noxfile
    assert "python3 noxfile.py -s tests" in (ROOT / ".ci" / "run").read_text()


def test_links_between_pages_lead_somewhere() -> None:
    for page in (path for path in tracked() if path.suffix == ".md"):
        for target in re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_licence_is_apache() -> None:
    assert PYPROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_test_files_have_names_of_their_own() -> None:
    # Two files of one name cannot be collected together, as the folders are no packages.
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
