"""Test that notebooks are kept without outputs, as narrative and calls."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def test_a_notebook_has_one_form() -> None:
    assert NAMES
    assert sorted(path.name for path in FOLDER.iterdir() if path.is_file()) == [
        f"{name}.ipynb" for name in NAMES
    ]


@pytest.mark.parametrize("name", NAMES)
def test_stripped_with_one_parameters_cell_for_the_plain_kernel(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    tagged = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    assert notebook.metadata.kernelspec.name == "python3"
    # Each parameter is typed, has a default, and a comment that becomes papermill's help.
    for line in tagged[0].source.splitlines():
        assert ": " in line.split("=")[0], line
        assert "  # " in line, line


@pytest.mark.parametrize("name", NAMES)
def test_narrative_and_calls_only(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    lines = [
        line
        for cell in notebook.cells
        if cell.cell_type == "code"
        for line in cell.source.splitlines()
        if line.strip()
    ]
    assert len(lines) <= 150
    assert not [line for line in lines if line.startswith(("def ", "class ", "for ", "while "))]


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"start"}))
def test_what_is_explored_is_what_is_executed(name: str) -> None:
    """The notebook's cells call what ``rl`` offers, and pass every parameter on."""
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert not re.search(r"roslens\.|\bimport (?!roslens as rl)", "\n".join(code))
    for line in code[0].splitlines():
        parameter = line.partition(":")[0]
        assert re.search(rf"\b{parameter}={parameter}\b|rl.open\({parameter},", code[1]), parameter
