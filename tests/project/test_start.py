"""Test that starting imports no slow packages, and no module itself by way of others."""

import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
import seaborn as sns

from roslens.analysis.figures.style import _TICKS

ROOT = Path(__file__).parents[2]
PLOTTING = {"matplotlib", "pandas", "scipy", "seaborn"}
NOTEBOOKS = {"IPython", "jinja2", "nbclient", "nbconvert", "nbformat", "papermill"}
TABLES = {"numpy", "polars", "pyarrow", "pydantic", "yaml"}


def imported(code: str, *, whole: bool = False) -> set[str]:
    """Return the packages, or `whole` modules, that are imported after `code`."""
    run = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name if whole else name.partition(".")[0] for name in run.stderr.split()}


def after_command(*arguments: str) -> set[str]:
    return imported(
        "from roslens.cli import main\n"
        f"try: main({list(arguments)!r})\n"
        "except SystemExit as ended: assert not ended.code"
    )


def test_importing_roslens_imports_nothing_else() -> None:
    assert not imported("import roslens") & (PLOTTING | NOTEBOOKS | TABLES | {"rich", "cyclopts"})


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["report", "--help"]])
def test_help_needs_no_tables_nor_figures(arguments: list[str]) -> None:
    assert not after_command(*arguments) & (PLOTTING | NOTEBOOKS | TABLES)


def test_comparing_needs_nothing_that_takes_seconds_to_import() -> None:
    modules = ("compare", "check", "analysis.latency.report", "analysis.leaks.leak")
    loaded = imported(f"import {', '.join(f'roslens.{name}' for name in modules)}", whole=True)
    assert not loaded & {"scipy.stats", "scipy.optimize", "seaborn", "matplotlib", "pandas"}


def test_figures_look_as_seaborn_has_them_without_importing_it() -> None:
    """seaborn itself checks the settings that were copied from it."""
    ticks = sns.axes_style("ticks")
    assert {name: ticks[name] for name in _TICKS} == _TICKS
    drawn = imported("import roslens.analysis.latency.figures, roslens.analysis.latency.report")
    assert "matplotlib" in drawn
    assert not drawn & {"seaborn", "pandas"}


def test_the_import_graph_has_no_circle() -> None:
    """`prepare` raises a CycleError that names the modules of a circle."""
    graph = grimp.build_graph("roslens", cache_dir=None)
    # The graph includes the rooms at the root, which src/roslens links to.
    assert "roslens.analysis.reports.base" in graph.modules
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    TopologicalSorter(imported).prepare()
