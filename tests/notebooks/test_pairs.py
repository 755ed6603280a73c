"""Notebooks are pairs: an .ipynb without outputs and the same as py:percent."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
import pytest

FOLDER = Path(__file__).parents[2] / "notebooks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))


def test_there_are_notebooks_and_none_is_single() -> None:
    assert NAMES
    assert sorted(path.stem for path in FOLDER.glob("*.py")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_both_halves_are_equal(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    script = jupytext.read(FOLDER / f"{name}.py")

    def cells(node: nbformat.NotebookNode) -> list[tuple[str, str, list[str]]]:
        return [(c.cell_type, c.source, list(c.metadata.get("tags", []))) for c in node.cells]

    assert cells(notebook) == cells(script), (
        f"edit notebooks/{name}.py, then: jupytext --update --to ipynb notebooks/{name}.py"
    )
    assert notebook.metadata.kernelspec == script.metadata.kernelspec


@pytest.mark.parametrize("name", NAMES)
def test_stripped_with_one_parameters_cell_for_the_plain_kernel(name: str) -> None:
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    tagged = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.jupytext.formats == "ipynb,py:percent"
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
